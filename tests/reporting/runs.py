"""Runs to report on: small enough to check by hand, with every oddity that a report must show."""

from __future__ import annotations

from pytest_vla_shift.statistics.report import RunFacts, RunReport, build_report
from tests.statistics.build import add, planned, record, world

FACTS = RunFacts(
    run="night",
    policy="scripted",
    policy_revision="sha256:12ab",
    privileged=False,
    seeded=True,
    versions={"mujoco": "3.3.7"},
    protocols={"demo": "a1b2c3"},
)

SS, SF, FS, FF = (True, True), (True, False), (False, True), (False, False)


def odd_run(facts: RunFacts = FACTS) -> RunReport:
    """Null without a change; camera L1 with a change both ways; camera L2 with an error, a gap
    and a success that the milestones contradict."""
    cells, records = world(
        {
            "null": {"pick": [SS, SS, SS, FF], "place": [SS, SS, SS, SS]},
            "camera-L1": {"pick": [SS, SF, SS, FS], "place": [SS, SS, SF, SS]},
            "camera-L2": {"pick": [SF, SF, SS, FF], "place": [SF, SS, SF, SS]},
        }
    )
    add(
        records,
        record("pick", 0, "camera-L2", False, depth=(0, 4)),
        record("pick", 1, "camera-L2", False, depth=(4, 4), disagreement=True),
        record("place", 0, "camera-L2", error="worker lost"),
    )
    del records[planned("place", 2, "camera-L2").shifted_key]
    return build_report(facts, cells, records, resamples=1000)


def clean_run(suite: str = "demo", axis: str = "camera") -> RunReport:
    """Nothing odd: a null condition and one axis, every cell reported."""
    cells, records = world(
        {"null": {"pick": [SS, SF, FS, FF]}, f"{axis}-L1": {"pick": [SS, SF, SF, FF]}}, suite
    )
    for episode, was in enumerate((True, True, False, False)):
        add(records, record("pick", episode, "clean", was, suite=suite))
    add(records, record("pick", 2, f"{axis}-L1", False, suite=suite))
    return build_report(FACTS, cells, records, resamples=1000)
