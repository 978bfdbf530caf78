"""Success by level and by task, from outcomes that can be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_vla_shift.reporting.levels import by_axis, shape, shape_table, success_table
from pytest_vla_shift.statistics.report import SuiteReport, build_report
from tests.reporting.runs import FACTS, FF, FS, SF, SS
from tests.statistics.build import add, record, world


def suite() -> SuiteReport:
    """Light falls, camera rises once, sound stays; one pair of light L2 has an error."""
    cells, records = world(
        {
            "light-L1": {"pick": [SS, SS, SS, FF], "place": [SS, SS, SS, SS]},
            "light-L2": {"pick": [SF, SS, SS, FF], "place": [SF, SS, SS, SS]},
            "light-L3": {"pick": [SF, SF, SF, FF], "place": [SF, SF, SF, SF]},
            "camera-L2": {"pick": [SS, SS, SS, FS], "place": [SS, SS, SS, SF]},
            "camera-L1": {"pick": [SF, SS, SS, FF], "place": [SF, SF, SS, SS]},
            "sound-L1": {"pick": [SS, SS, SS, FF], "place": [SS, SS, SS, SS]},
            "sound-L2": {"pick": [SS, SS, SS, FF], "place": [SS, SS, SS, SS]},
        }
    )
    lost = record("place", 0, "light-L2", error="worker lost")
    records[lost.key] = lost
    (found,) = build_report(FACTS, cells, records, resamples=1000).suites
    return found


def rows(text: str) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in text.splitlines()]
    return {name: cells for name, *cells in lines if name != "---"}


def test_a_row_has_the_levels_of_its_axis_in_order() -> None:
    found = rows(shape_table(suite()))
    assert found["condition"] == [
        "clean",
        "L1",
        "L2",
        "L3",
        "from level to level",
        "interval above 0",
    ]
    clean, *cells, how, above = found["light"]
    # Seven clean successes of eight; the pair in error takes one of each away.
    assert clean == "6/7, 7/8"
    assert [cell.partition(",")[0] for cell in cells] == ["7/8", "5/7", "0/8"]
    assert cells[0].endswith("*")  # no pair changed: an interval without width is not certainty
    assert cells[2].startswith("0/8, +.875 ")
    assert (how, above) == ("falls", "L3")
    clean, *cells, how, above = found["camera"]
    assert (clean, cells[2], how) == ("7/8", "-", "rises from L1 to L2")
    assert [cell.split(" [")[0] for cell in cells[:2]] == ["4/8, +.375", "7/8, +.000"]
    assert found["sound"][-2:] == ["stays", "at no level"]


@pytest.mark.parametrize(
    "levels,told",
    [(("L1", "L2", "L3"), "falls"), (("L1",), "-"), (("L1", "L3"), "falls")],
)
def test_the_shape_is_of_the_levels_that_were_measured(levels: tuple[str, ...], told: str) -> None:
    light = by_axis(suite().conditions)["light"]
    assert shape([item for item in light if item.level in levels]) == told


def test_a_level_that_stays_is_not_called_a_fall() -> None:
    axes = by_axis(suite().conditions)
    assert shape([*axes["sound"], axes["light"][2]]) == "falls or stays"


def test_a_level_that_shifts_nothing_is_marked() -> None:
    cells, records = world({"language-L1": {"pick": [SS, SS]}, "light-L1": {"pick": [SS, SS]}})
    for episode in range(2):
        deaf = record("pick", episode, "language-L1")
        add(records, replace(deaf, identities={"language": "it reads nothing"}))
    (found,) = build_report(FACTS, cells, records, resamples=1000).suites
    table = rows(shape_table(found))
    assert table["language"][1].startswith("2/2 =, +.000")
    assert table["light"][1].startswith("2/2, +.000")


def test_every_task_has_its_successes() -> None:
    found = rows(success_table(suite()))
    assert found["task"] == ["clean", "camera L1 L2", "light L1 L2 L3", "sound L1 L2"]
    assert found["pick"] == ["3/4", "2/4 4/4", "3/4 2/4 0/4", "3/4 3/4"]
    assert found["place"] == ["4/4, 3/3", "2/4 3/4", "4/4 3/3 0/4", "4/4 4/4"]
