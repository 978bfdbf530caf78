"""The arithmetic of the LIBERO-CTRL paper, on outcomes that have its published counts.

The paper publishes rates of 400 configurations, and so whole counts; which configurations they
are, it does not. The intervals that it prints depend on how the counts lie in tasks and cannot be
reproduced from the text: here they are held between those of the two extreme ways to lie.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla_shift.statistics.bootstrap import TaskName
from pytest_vla_shift.statistics.compound import CompoundRates, compound
from pytest_vla_shift.statistics.outcomes import Outcome, Outcomes
from pytest_vla_shift.statistics.replication import replication
from tests.statistics.test_compound import SIX

PUBLISHED: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("published_libero_ctrl.toml").read_text()
)
N: int = PUBLISHED["configurations"]
TASKS: int = PUBLISHED["tasks"]
CELLS: dict[str, dict[str, Any]] = {cell["name"]: cell for cell in PUBLISHED["cell"]}


def whole(percent: float, of: int = N) -> int:
    """The count behind a published rate, which must be one to the decimals printed."""
    count = round(percent * of / 100)
    assert count * 100 / of == pytest.approx(percent, abs=1e-9)
    return count


def counts(cell: dict[str, Any]) -> tuple[int, int]:
    """b and c, from what a cell publishes."""
    if "I" in cell:
        twice = whole(cell["R_d"]) - whole(cell["I"])
        assert twice % 2 == 0
        return twice // 2, whole(cell["R_d"]) - twice // 2
    return whole(cell["R_e"]), whole(cell["R_d"]) - whole(cell["R_e"])


def outcomes(b: int, c: int, both: int, order: Sequence[int] | None = None) -> Outcomes:
    """400 configurations: b emergent, c compensated, ``both`` that succeed every time, the rest
    that fail every time; ``order`` says which place each of them has among the tasks."""
    kinds = ["b"] * b + ["c"] * c + ["both"] * both + ["neither"] * (N - b - c - both)
    cells: list[tuple[TaskName, int, str, Outcome]] = []
    for place, kind in zip(range(N) if order is None else order, kinds, strict=True):
        task, configuration = ("libero", f"task{place % TASKS:02}"), place // TASKS
        for axis in SIX:
            single = kind in ("b", "both") or axis != SIX[place % 6]
            cells.append((task, configuration, axis, single))
        cells.append((task, configuration, "simultaneous", kind in ("c", "both")))
    return Outcomes.of(cells)


def percent(value: float | None) -> float:
    assert value is not None
    return round(100 * value, 2)


def rates(cell: dict[str, Any]) -> CompoundRates:
    b, c = counts(cell)
    failures = whole(cell["simultaneous_failure"]) if "simultaneous_failure" in cell else N - 280
    return compound(outcomes(b, c, N - failures - c), SIX).all


@pytest.mark.parametrize("name", CELLS)
def test_transition_rates_of_the_published_cells(name: str) -> None:
    cell, found = CELLS[name], rates(CELLS[name])
    assert (found.n, found.tasks) == (N, TASKS)
    assert (found.b, found.c) == counts(cell)
    assert percent(found.r_d.value) == cell["R_d"]
    for symbol, estimate in {"R_e": found.r_e, "R_c": found.r_c, "I": found.i}.items():
        if symbol in cell:
            assert percent(estimate.value) == cell[symbol]


def test_counts_that_the_cells_stand_for() -> None:
    assert counts(CELLS["openvla_oft L2"]) == (54, 55)
    assert counts(CELLS["univla L1"]) == (66, 50)
    assert counts(CELLS["vla_jepa L2"]) == (91, 47)
    assert counts(CELLS["pi05 L2"]) == (81, 53)
    assert counts(CELLS["vla_jepa L1"]) == (39, 35)


def test_three_quarters_of_the_simultaneous_failures_of_one_cell_are_emergent() -> None:
    cell = CELLS["vla_jepa L1"]
    found = rates(cell)
    assert (found.b, found.failures) == (39, 52)
    assert percent(found.emergent_share.value) == cell["emergent_share"]
    assert not found.near_boundary


def test_the_replication_of_one_cell() -> None:
    facts = PUBLISHED["replication"]
    first, second = (outcomes(whole(facts["R_e"][k]), whole(facts["R_c"][k]), 200) for k in (0, 1))
    found = replication(first, second, SIX)
    changes = {change.rate: change for change in found.changes}
    for symbol, name in {"R_e": "r_e", "R_c": "r_c", "I": "i"}.items():
        change = changes[name]
        assert [percent(change.first), percent(change.second)] == facts[symbol]
        expected = round(facts[symbol][1] - facts[symbol][0], 2)
        assert percent(change.change.value) == expected


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_policy_at_the_floor_is_near_the_boundary(level: int) -> None:
    facts = PUBLISHED["predvla"]
    # 1.2 and 0.2 are 1.25 and 0.25, printed half to even.
    succeed = {1.2: 5, 0.0: 0, 0.2: 1}[facts["S_sim"][level]]
    at_most = whole(facts["R_d_at_most"])
    found = compound(outcomes(at_most - succeed, succeed, 0), SIX).all
    assert abs(percent(found.s_sim.value) - facts["S_sim"][level]) <= 0.05 + 1e-9
    assert percent(found.r_d.value) == facts["R_d_at_most"]
    assert found.near_boundary


def test_nominal_rates_are_whole_counts_of_two_thousand_rollouts() -> None:
    for published in PUBLISHED["nominal_sr"].values():
        assert 0 < whole(published, PUBLISHED["nominal_rollouts"]) < 2000


@pytest.mark.parametrize("name", [name for name in CELLS if "I_ci95" in CELLS[name]])
def test_published_intervals_lie_between_tasks_that_do_not_differ_and_tasks_that_do(
    name: str,
) -> None:
    cell = CELLS[name]
    b, c = counts(cell)
    low, high = cell["I_ci95"]
    spread = compound(outcomes(b, c, 150, np.random.default_rng(5).permutation(N).tolist()), SIX)
    # Place p is of task p % 40: in this order a task's ten configurations come one after another.
    packed = [task + TASKS * k for task in range(TASKS) for k in range(N // TASKS)]
    lumped = compound(outcomes(b, c, 150, packed), SIX)

    def width(found: CompoundRates) -> float:
        assert found.i.low is not None
        assert found.i.high is not None
        assert percent(found.i.value) == cell["I"]
        return 100 * (found.i.high - found.i.low)

    # Without any difference between tasks the width is that of 400 independent configurations.
    independent = 2 * 1.96 * 100 * ((b + c) / N - ((c - b) / N) ** 2) ** 0.5 / N**0.5
    assert width(spread.all) == pytest.approx(independent, rel=0.15)
    assert width(spread.all) < (high - low) * 1.05
    assert high - low < width(lumped.all)
