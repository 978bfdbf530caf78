"""A second policy seed: what changes, over which configurations, and how surely."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pytest_vla_shift.statistics.cluster import task_weights
from pytest_vla_shift.statistics.compound import RATES, compound
from pytest_vla_shift.statistics.outcomes import Outcomes
from pytest_vla_shift.statistics.replication import replication
from tests.statistics.test_compound import AXES, SIX, by_hand, simulated, table


def test_nothing_changes_between_an_evaluation_and_itself() -> None:
    outcomes = simulated(1)
    report = replication(outcomes, outcomes, SIX)
    assert report.first == report.second == compound(outcomes, SIX).all
    for change in report.changes:
        assert (change.change.value, change.change.low, change.change.high) == (0.0, 0.0, 0.0)
    assert {a.share.value for a in report.agreement} == {1.0}
    assert report.emergent_both == report.first.b
    assert report.compensated_both == report.first.c


def test_changes_and_their_intervals_are_those_of_the_same_tasks_drawn_twice() -> None:
    first, second = simulated(1), simulated(2)
    report = replication(first, second, SIX, replicates=300)
    tasks = sorted(first.tasks)
    drawn = []
    for row in task_weights(len(tasks), 300):
        chosen = [t for t, w in zip(tasks, row, strict=True) for _ in range(int(w))]
        one, two = by_hand(first, SIX, chosen), by_hand(second, SIX, chosen)
        drawn.append({name: two[name] - one[name] for name in one})
    one, two = by_hand(first, SIX, tasks), by_hand(second, SIX, tasks)
    assert [c.rate for c in report.changes] == [*RATES, *(f"s_{axis}" for axis in SIX)]
    for change in report.changes:
        assert change.first == pytest.approx(one[change.rate])
        assert change.second == pytest.approx(two[change.rate])
        assert change.change.value == pytest.approx(two[change.rate] - one[change.rate])
        bounds = np.quantile([row[change.rate] for row in drawn], [0.025, 0.975])
        found = (change.change.low, change.change.high)
        assert found == pytest.approx(tuple(bounds), abs=1e-12), change.rate


def test_agreement_is_counted_by_configuration() -> None:
    first = table({"a": ["1111", "1110", "0111"], "b": ["1110"]})
    second = table({"a": ["1111", "1110", "1111"], "b": ["1111"]})
    report = replication(first, second, AXES)
    same = {a.condition: (a.same, a.share.value) for a in report.agreement}
    assert same["camera"] == (3, 0.75)
    assert same["language"] == (4, 1.0)
    assert same["simultaneous"] == (3, 0.75)
    assert (report.first.b, report.second.b, report.emergent_both) == (2, 1, 1)
    assert (report.first.c, report.second.c, report.compensated_both) == (1, 0, 0)


def test_only_configurations_that_are_complete_twice_are_compared() -> None:
    first = table({"a": ["1111", "e111", "1110"], "b": ["1111"]})
    second = table({"a": ["1110", "1111", ".111"]})
    report = replication(first, second, AXES)
    assert (report.planned, report.complete) == (4, 1)
    assert report.dropped_kinds == (("missing", 2), ("worker lost", 1))
    assert (report.first.n, report.second.n) == (1, 1)
    json.dumps(report.to_json(), allow_nan=False)


def test_no_compound_and_no_task_are_refused() -> None:
    with pytest.raises(ValueError, match="no compound"):
        replication(simulated(1), simulated(1), SIX[:1])
    with pytest.raises(ValueError, match="no task"):
        replication(Outcomes({}), Outcomes({}), SIX)
