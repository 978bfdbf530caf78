"""What is said of a compound: the terminal's table, the Markdown, and Allure's results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.reporting import compounds
from pytest_vla_shift.reporting.allure_writer import write_aggregates
from pytest_vla_shift.reporting.summary import markdown, write_summary
from pytest_vla_shift.reporting.tables import render
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.statistics.pairs import PlannedPair
from pytest_vla_shift.statistics.report import RunReport, build_report
from tests.reporting.runs import FACTS
from tests.statistics.build import add, planned, record

AXES = ("actuation", "camera", "robot_pose")
TASKS = ("pick", "place", "push", "pull")


def run(*, drop: bool = False, boundary: bool = False) -> RunReport:
    """Four tasks of six configurations, three axes and all at once, at two levels."""
    rng = np.random.default_rng(3)
    cells: list[PlannedPair] = []
    records: dict[str, RolloutRecord] = {}
    for task in TASKS:
        for episode in range(6):
            add(records, record(task, episode, "clean", bool(rng.random() < 0.9)))
            for level in ("L1", "L2"):
                for axis in (*AXES, "simultaneous"):
                    condition = f"{axis}-{level}"
                    axes = AXES if axis == "simultaneous" else ()
                    cells.append(planned(task, episode, condition, axes=axes))
                    rate = 0.0 if boundary and axis == "simultaneous" else 0.75
                    won = bool(rng.random() < rate)
                    add(records, record(task, episode, condition, won))
    if drop:
        add(records, record("pick", 0, "camera-L2", error="worker lost"))
        del records[planned("pull", 5, "simultaneous-L2").shifted_key]
    return build_report(FACTS, cells, records, resamples=500)


def test_the_terminal_fits_and_its_numbers_are_the_reports() -> None:
    report = run()
    (suite,) = report.suites
    text = render(report)
    assert max(map(len, text.splitlines())) <= 80
    (one,) = [item for item in suite.compounds if item.level == "L1"]
    # The first such line is of the pairs.
    line = [row for row in text.splitlines() if row.startswith("simultaneous L1")][1]
    rates = one.report.all
    assert rates.b + rates.c > 0
    assert line.split()[-3:] == [
        f"{value:.3f}"[1:] for value in (rates.b / 24, rates.c / 24, (rates.b + rates.c) / 24)
    ]


def test_a_level_is_never_cut_away() -> None:
    (suite,) = run().suites
    lines = compounds.terminal(suite.compounds, 70)
    assert [line.split()[1] for line in lines[2:4]] == ["L1", "L2"]
    assert lines[2].startswith("sim")


def test_what_is_incomplete_is_counted_and_its_reason_named() -> None:
    text = " ".join(render(run(drop=True)).split())
    assert "simultaneous L2: 2 of 24 configurations are incomplete and in no rate of it" in text
    assert "missing 1, worker lost 1" in text


def test_a_rate_near_its_boundary_is_marked_and_explained() -> None:
    text = render(run(boundary=True))
    assert "simultaneous L1 24!" in text
    assert "! Scnj or Ssim is within 5 points of 0 or 1" in text
    assert "24!" not in render(run())
    assert "within 5 points" not in render(run())


def test_the_markdown_names_the_configurations_behind_b_and_c() -> None:
    report = run()
    (suite,) = report.suites
    text = markdown(report)
    for item in suite.compounds:
        for name, places in (
            ("Emergent failures", item.report.emergent),
            ("Compensated successes", item.report.compensated),
        ):
            if not places:
                continue
            (line,) = [
                r for r in text.splitlines() if r.startswith(f"{name} of {compounds.label(item)}:")
            ]
            assert line.count("`") == 2 * len(places)
            assert f"`{places[0][0]}-{places[0][1]}-e{places[0][2]:02d}`" in line
    assert "### Compounds on nominally successful configurations" in text
    assert "### Success lost against clean" in text


def test_a_run_without_compounds_says_nothing_of_them(tmp_path: Path) -> None:
    report = build_report(FACTS, [planned("pick", 0, "camera-L1")], {}, resamples=10)
    assert report.suites[0].compounds == ()
    assert "compound" not in render(report).lower()
    assert "Compounds" not in markdown(report)


def test_a_compound_without_its_single_axes_has_no_statistics() -> None:
    cells = [planned("pick", 0, "simultaneous-L1", axes=AXES)]
    cells += [planned("pick", 0, "camera-L1"), planned("pick", 0, "actuation-L1")]
    report = build_report(FACTS, cells, {}, resamples=10)
    assert report.suites[0].compounds == ()
    (note,) = [n for n in report.notes if "compound table" in n]
    assert note == (
        "demo: simultaneous L1 has no compound table: robot_pose alone is not in this run."
    )


def test_an_interval_without_width_is_not_shown_as_certainty() -> None:
    cells: list[PlannedPair] = []
    records: dict[str, RolloutRecord] = {}
    for task in TASKS:
        for episode in range(6):
            add(records, record(task, episode, "clean", True))
            for axis in (*AXES, "simultaneous"):
                axes = AXES if axis == "simultaneous" else ()
                cells.append(planned(task, episode, f"{axis}-L1", axes=axes))
                add(records, record(task, episode, f"{axis}-L1", True))
    text = render(build_report(FACTS, cells, records, resamples=10))
    (line,) = [row for row in text.splitlines() if row.startswith("simultaneous L1 24!")]
    assert "+.000 * " in line
    assert "* No width in the bootstrap" in text


def test_the_json_has_every_statistic(tmp_path: Path) -> None:
    _, path = write_summary(tmp_path, run(drop=True))
    (suite,) = json.loads(path.read_text())["suites"]
    one, two = suite["compounds"]
    assert (one["axis"], one["level"], two["level"]) == ("simultaneous", "L1", "L2")
    rates = one["report"]["all"]
    assert rates["i"]["value"] == pytest.approx(rates["r_c"]["value"] - rates["r_e"]["value"])
    assert two["report"]["dropped_kinds"] == [["missing", 1], ["worker lost", 1]]


def test_allure_has_a_result_for_each_compound(tmp_path: Path) -> None:
    report = run()
    assert write_aggregates(tmp_path, report) == 8 + 2
    found = {
        result["name"]: result
        for result in (json.loads(p.read_text()) for p in tmp_path.glob("*-result.json"))
    }
    result = found["compound simultaneous L1"]
    assert result["status"] == "passed"
    assert result["statusDetails"]["message"].startswith("I ")
    assert "emergent failures" in result["statusDetails"]["message"]
    assert "| simultaneous L1 |" in result["description"]
    assert result["historyId"] != found["dSR simultaneous L1"]["historyId"]


def test_another_policy_seed_is_told_rate_by_rate() -> None:
    rng = np.random.default_rng(5)
    cells: list[PlannedPair] = []
    records: dict[str, RolloutRecord] = {}
    for task in TASKS:
        for episode in range(6):
            for replicate in (0, 1):
                clean = again(record(task, episode, "clean", True), replicate)
                add(records, clean)
                for axis in (*AXES, "simultaneous"):
                    axes = AXES if axis == "simultaneous" else ()
                    won = bool(rng.random() < 0.7)
                    item = again(record(task, episode, f"{axis}-L1", won), replicate)
                    add(records, item)
                    cell = planned(task, episode, f"{axis}-L1", axes=axes)
                    cells.append(
                        replace(
                            cell,
                            cell=f"{cell.cell}-r{replicate}",
                            replicate=replicate,
                            clean_key=clean.key,
                            shifted_key=item.key,
                        )
                    )
    report = build_report(FACTS, cells, records, resamples=100)
    (suite,) = report.suites
    assert [(c.level, c.replicate) for c in suite.compounds] == [("L1", 0), ("L1", 1)]
    (found,) = suite.replications
    assert (found.report.first, found.report.second) == tuple(c.report.all for c in suite.compounds)
    text = render(report)
    assert max(map(len, text.splitlines())) <= 80
    assert "run again (replicate 1), simultaneous L1: Re " in text
    assert "### Run again (replicate 1): simultaneous L1" in markdown(report)


def again(item: RolloutRecord, replicate: int) -> RolloutRecord:
    return replace(item, key=f"{item.key} r{replicate}", replicate=replicate)


def test_what_is_beyond_the_papers_stands_under_its_own_name() -> None:
    (suite,) = run().suites
    assert [b.condition for b in suite.beyond] == [c.condition for c in suite.conditions]
    text = markdown(run())
    assert "### Beyond the papers" in text
    assert "over the 8 shifted conditions read together" in text
    for found, item in zip(suite.beyond, suite.conditions, strict=True):
        assert found.holm is not None
        assert item.mcnemar is not None
        assert item.mcnemar <= found.holm
