"""LIBERO-CTRL's statistics: by hand on small tables, by brute force on large ones."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from pytest_vla_shift.statistics.bootstrap import TaskName
from pytest_vla_shift.statistics.cluster import Estimate, task_weights
from pytest_vla_shift.statistics.compound import CompoundReport, compound
from pytest_vla_shift.statistics.outcomes import Outcome, Outcomes, complete_cases

AXES = ("camera", "language", "lighting")
SIX = ("actuation", "camera", "language", "lighting", "robot_pose", "sensor")


def table(rows: Mapping[str, Sequence[str]], axes: Sequence[str] = AXES) -> Outcomes:
    """Task -> one text a configuration: a letter an axis, one for all at once, one for clean.

    ``1`` and ``0`` are outcomes, ``.`` is a missing cell, ``e`` one with an error.
    """
    cells: list[tuple[TaskName, int, str, Outcome]] = []
    for task, texts in rows.items():
        for configuration, text in enumerate(texts):
            for condition, letter in zip([*axes, "simultaneous", "clean"], text, strict=False):
                if letter != ".":
                    outcome: Outcome = "worker lost" if letter == "e" else letter == "1"
                    cells.append((("libero", task), configuration, condition, outcome))
    return Outcomes.of(cells)


def simulated(
    seed: int, tasks: int = 12, axes: Sequence[str] = SIX, sizes: Sequence[int] | None = None
) -> Outcomes:
    """Tasks differ in difficulty, and the outcomes of a configuration hang together."""
    rng = np.random.default_rng(seed)
    cells: list[tuple[TaskName, int, str, Outcome]] = []
    for t in range(tasks):
        ability = rng.normal(1.5, 0.8)
        for x in range(10 if sizes is None else sizes[t]):
            luck = rng.normal(0, 0.8)
            for k, condition in enumerate([*axes, "simultaneous", "clean"]):
                logit = ability + luck - 0.15 * k + rng.normal(0, 0.5)
                success = bool(rng.random() < 1 / (1 + math.exp(-logit)))
                cells.append((("libero", f"task{t:02}"), x, condition, success))
    return Outcomes.of(cells)


def by_hand(outcomes: Outcomes, axes: Sequence[str], drawn: Sequence[TaskName]) -> dict[str, float]:
    """Equations 1 to 3 with one row a configuration, for tasks that may be drawn repeatedly."""
    rows = [found for task in drawn for _, found in sorted(outcomes.tasks[task].items())]
    n = len(rows)
    singles = {a: sum(bool(r[a]) for r in rows) / n for a in axes}
    conj = [all(r[a] for a in axes) for r in rows]
    sim = [bool(r["simultaneous"]) for r in rows]
    b = sum(c and not s for c, s in zip(conj, sim, strict=True))
    c = sum(s and not c for c, s in zip(conj, sim, strict=True))
    clean = [bool(r["clean"]) for r in rows]
    out = {f"s_{a}": value for a, value in singles.items()}
    out["s_indep"] = math.prod(singles.values())
    out["s_conj"] = sum(conj) / n
    out["s_sim"] = sum(sim) / n
    out["d"] = out["s_conj"] - out["s_indep"]
    out["i"] = out["s_sim"] - out["s_conj"]
    out["r_e"], out["r_c"] = b / n, c / n
    out["r_d"] = out["r_e"] + out["r_c"]
    out["emergent_share"] = b / (n - sum(sim))
    out["points"] = sum(clean) / n - out["s_sim"]
    out["relative"] = 1 - out["s_sim"] / (sum(clean) / n)
    kept = [k for k in range(n) if clean[k]]
    out["nominal_i"] = sum(sim[k] - conj[k] for k in kept) / len(kept)
    out["nominal_r_d"] = sum(sim[k] != conj[k] for k in kept) / len(kept)
    return out


def reported(report: CompoundReport) -> dict[str, Estimate]:
    found = report.all
    assert report.losses is not None
    assert report.nominal is not None
    out = {f"s_{single.axis}": single.s for single in found.singles}
    names = ("s_indep", "s_conj", "s_sim", "d", "i", "r_e", "r_c", "r_d", "emergent_share")
    out |= {name: getattr(found, name) for name in names}
    loss = report.losses.conditions[-1]
    assert loss.condition == "simultaneous"
    out |= {"points": loss.points, "relative": loss.relative}
    return out | {"nominal_i": report.nominal.i, "nominal_r_d": report.nominal.r_d}


@pytest.mark.parametrize("sizes", [None, [3, 17, 9, 10, 1, 4, 12, 10, 10, 8, 30, 2]])
def test_every_rate_and_interval_is_that_of_drawing_tasks_one_by_one(
    sizes: list[int] | None,
) -> None:
    outcomes = simulated(1, sizes=sizes)
    replicates = 300
    report = compound(outcomes, SIX, clean="clean", replicates=replicates)
    tasks = sorted(outcomes.tasks)
    expected = by_hand(outcomes, SIX, tasks)
    drawn = [
        by_hand(outcomes, SIX, [t for t, w in zip(tasks, row, strict=True) for _ in range(int(w))])
        for row in task_weights(len(tasks), replicates)
    ]
    found = reported(report)
    assert set(found) == set(expected)
    for name, estimate in found.items():
        assert estimate.value == pytest.approx(expected[name], abs=1e-12), name
        bounds = np.quantile([row[name] for row in drawn], [0.025, 0.975])
        assert (estimate.low, estimate.high) == pytest.approx(tuple(bounds), abs=1e-12), name
        assert estimate.undefined == 0


def test_intervals_agree_with_an_independent_draw_of_tasks() -> None:
    outcomes = simulated(2, tasks=40)
    report = compound(outcomes, SIX, clean="clean")
    tasks = sorted(outcomes.tasks)
    rng = np.random.default_rng(11)
    drawn = [
        by_hand(outcomes, SIX, [tasks[k] for k in rng.integers(40, size=40)]) for _ in range(1500)
    ]
    for name, estimate in reported(report).items():
        bounds = np.quantile([row[name] for row in drawn], [0.025, 0.975])
        assert (estimate.low, estimate.high) == pytest.approx(tuple(bounds), abs=0.015), name


def test_a_small_table_by_hand() -> None:
    # camera language lighting | all at once | clean
    report = compound(table({"a": ["11111", "11101", "01110"], "b": ["00000"]}), AXES)
    found = report.all
    assert (found.n, found.tasks, report.planned, report.complete) == (4, 2, 4, 4)
    assert [single.successes for single in found.singles] == [2, 3, 3]
    assert (found.conjunction, found.simultaneous, found.failures) == (2, 2, 2)
    assert (found.b, found.c) == (1, 1)
    assert found.s_indep.value == pytest.approx(2 * 3 * 3 / 64)
    assert found.i.value == 0.0
    assert (found.r_e.value, found.r_c.value, found.r_d.value) == (0.25, 0.25, 0.5)
    assert found.emergent_share.value == 0.5
    assert report.emergent == (("libero", "a", 1),)
    assert report.compensated == (("libero", "a", 2),)
    assert report.nominal is None
    assert report.losses is None
    assert report.clean_known is None


def test_incomplete_configurations_leave_and_are_counted_by_reason() -> None:
    rows = {"a": ["1111", "e110", ".111", "e1.1"], "b": ["1110", "11e1"]}
    report = compound(table(rows), AXES)
    assert (report.planned, report.complete) == (6, 2)
    assert report.dropped_kinds == (("missing", 2), ("worker lost", 3))
    assert [(d.place[1], d.place[2], d.kinds) for d in report.dropped] == [
        ("a", 1, ("worker lost",)),
        ("a", 2, ("missing",)),
        ("a", 3, ("missing", "worker lost")),
        ("b", 1, ("worker lost",)),
    ]
    assert (report.all.n, report.all.b, report.all.c) == (2, 1, 0)


def test_an_incomplete_configuration_changes_no_rate() -> None:
    rows = {"a": ["1111", "1110"], "b": ["0111", "1111"]}
    before = compound(table(rows), AXES)
    after = compound(table({"a": [*rows["a"], "e000"], "b": ["0111", "1111", ".111"]}), AXES)
    assert after.all == before.all
    assert (after.planned, after.complete) == (6, 4)


def test_a_configuration_that_nobody_reported_is_planned_and_missing() -> None:
    tasks: dict[TaskName, dict[int, dict[str, Outcome]]] = {("libero", "a"): {0: {}, 1: {}}}
    report = compound(Outcomes(tasks), AXES)
    assert (report.planned, report.complete) == (2, 0)
    assert report.dropped_kinds == (("missing", 2),)
    assert report.all.s_conj == Estimate(None, None, None, report.replicates)
    assert report.all.near_boundary is False
    json.dumps(report.to_json(), allow_nan=False)


def test_no_simultaneous_failure_leaves_the_emergent_share_undefined() -> None:
    found = compound(table({"a": ["1111", "0111"], "b": ["1111"]}), AXES).all
    assert found.emergent_share.value is None
    assert found.failures == 0


@pytest.mark.parametrize(
    "conj, sim, near",
    [(1, 10, True), (2, 10, False), (19, 10, True), (10, 1, True), (10, 18, False)],
)
def test_five_points_from_the_end_of_the_scale_is_near_it(conj: int, sim: int, near: bool) -> None:
    rows = [("111" if k < conj else "011") + ("1" if k < sim else "0") for k in range(20)]
    assert compound(table({"a": rows[:10], "b": rows[10:]}), AXES).all.near_boundary is near


def test_a_subset_of_axes_has_singles_of_its_own() -> None:
    outcomes = table({"a": ["11011", "10111"], "b": ["11111"]})
    cells = {
        task: {x: {**found, "camera+lighting": found["simultaneous"]} for x, found in rows.items()}
        for task, rows in outcomes.tasks.items()
    }
    report = compound(Outcomes(cells), ("camera", "lighting"), "camera+lighting")
    assert report.simultaneous == "camera+lighting"
    assert [single.axis for single in report.all.singles] == ["camera", "lighting"]
    assert (report.all.conjunction, report.all.c) == (2, 1)


def test_restriction_to_states_that_succeed_without_a_shift() -> None:
    rows = {"a": ["11101", "11100", "01111"], "b": ["0111.", "1111e", "00001"]}
    report = compound(table(rows), AXES, clean="clean")
    assert report.nominal is not None
    assert (report.complete, report.clean_known) == (6, 4)
    assert (report.all.n, report.all.b, report.all.c) == (6, 2, 2)
    assert (report.nominal.n, report.nominal.b, report.nominal.c) == (3, 1, 1)


def test_losses_are_matched_to_the_configurations_whose_clean_outcome_is_known() -> None:
    rows = {"a": ["01111", "11101", "0000e"], "b": ["00000", "11111"]}
    losses = compound(table(rows), AXES, clean="clean").losses
    assert losses is not None
    assert (losses.reference, losses.successes, losses.rollouts, losses.n) == ("clean", 3, 4, 4)
    camera = losses.conditions[0]
    assert camera.points.value == 3 / 4 - 2 / 4
    assert camera.relative.value == pytest.approx(1 / 3)


def test_losses_against_a_nominal_pass_resample_its_tasks_with_the_others() -> None:
    outcomes = table({"a": ["1111", "0111"], "b": ["0000", "0000"]})
    nominal = {("libero", "a"): (50, 50), ("libero", "b"): (30, 50)}
    losses = compound(outcomes, AXES, nominal=nominal, replicates=2000).losses
    assert losses is not None
    assert (losses.reference, losses.rollouts, losses.s.value) == ("nominal", 100, 0.8)
    assert losses.conditions[0].points.value == pytest.approx(0.8 - 0.25)
    # Drawn twice, task a gives 1 and b gives .6: the ends of the interval, as each has P = 1/4.
    assert (losses.s.low, losses.s.high) == (0.6, 1.0)
    assert losses.conditions[0].points.low == pytest.approx(0.5)
    assert losses.conditions[0].points.high == pytest.approx(0.6)


def test_a_nominal_pass_over_other_tasks_is_refused() -> None:
    with pytest.raises(ValueError, match="over other tasks: 'a'"):
        compound(table({"a": ["1111"]}), AXES, nominal={("libero", "b"): (1, 2)})


def test_policies_and_levels_over_the_same_tasks_share_their_replicates() -> None:
    first = compound(simulated(5), SIX, clean="clean").all
    cells = simulated(5).tasks
    flipped = Outcomes(
        {
            task: {
                x: {name: not outcome for name, outcome in found.items()}
                for x, found in rows.items()
            }
            for task, rows in cells.items()
        }
    )
    second = compound(flipped, SIX, clean="clean").all
    assert first.s_sim.low is not None
    assert second.s_sim.high == pytest.approx(1 - first.s_sim.low)


@pytest.mark.parametrize(
    "axes, name", [(("camera",), "c"), (("camera", "camera"), "c"), (("camera", "c"), "c")]
)
def test_what_is_no_compound_is_refused(axes: tuple[str, ...], name: str) -> None:
    with pytest.raises(ValueError, match="no compound"):
        compound(table({"a": ["1111"]}), axes, name)


def test_no_task_is_refused_and_so_is_an_outcome_that_is_none() -> None:
    with pytest.raises(ValueError, match="no task"):
        compound(Outcomes({}), AXES)
    broken = {("libero", "a"): {0: dict.fromkeys([*AXES, "simultaneous"], 2)}}
    with pytest.raises(ValueError, match="neither a success nor a failure"):
        complete_cases(Outcomes(broken), [*AXES, "simultaneous"])  # type: ignore[arg-type]


def test_a_cell_that_is_there_twice_is_refused() -> None:
    cell = (("libero", "a"), 3, "camera", True)
    with pytest.raises(ValueError, match="two outcomes of a e03 camera"):
        Outcomes.of([cell, cell])


def test_one_task_has_rates_and_no_interval() -> None:
    found = compound(table({"a": ["1111", "1110"]}), AXES).all
    assert found.r_e == Estimate(0.5, None, None)


def test_the_papers_eighteen_cells_take_a_fraction_of_a_second() -> None:
    cells = [simulated(k, tasks=40) for k in range(18)]
    compound(cells[0], SIX)
    start = time.process_time()
    for outcomes in cells:
        compound(outcomes, SIX)
    # 0.08 to 0.2 s measured; the bound is wide because the clock of a shared machine is not a
    # stop-watch.
    assert time.process_time() - start < 1.5
