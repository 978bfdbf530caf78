"""A suite written for other tasks is the same protocol."""

from __future__ import annotations

from dataclasses import fields

import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.suite import load_suite, parse_suite
from pytest_vla_shift.protocol.suite_file import with_tasks
from tests.protocol.test_suite import SUITE

DIFFERS = {
    "name",
    "title",
    "source",
    "text",
    "tasks",
    "episodes",
    "nominal",
    "horizons",
    "screening",
    "protocol_digest",
}

KETCHUP = ("libero_object", "pick_up_the_ketchup_and_place_it_in_the_basket")
STOVE = ("libero_goal", "turn_on_the_stove")


def test_everything_but_name_and_tasks_is_kept() -> None:
    suite = load_suite("robocasa_shift_on_libero")
    horizons = {"libero_object": 280, "libero_goal": 300}
    text = with_tasks(
        suite, "mine", 'A "quoted" title', [KETCHUP, STOVE], horizons, comment=("why", "")
    )
    assert text.startswith("# why\n#\nschema = 1\n")
    written = parse_suite(text, "mine.toml")
    assert written.tasks == (STOVE, KETCHUP)
    assert written.horizons == horizons
    assert set(written.episodes.values()) == {tuple(range(20))}
    assert (written.name, written.title) == ("mine", 'A "quoted" title')
    for field in fields(suite):
        if field.name not in DIFFERS:
            assert getattr(written, field.name) == getattr(suite, field.name), field.name


def test_presets_and_shared_scales_survive() -> None:
    scaled = """
[axes.actuation]
sigma = { gain = 0.1 }
presets = [{ gain = 1.0, lag = -0.25 }, { gain = 0.1, lag = 1e-7 }, { gain = 0.0, lag = 3.0 }]
L1 = { radius = 2.0 }
L2 = { radius = 4.0 }
"""
    suite = parse_suite(SUITE + scaled, "s.toml")
    text = with_tasks(suite, "other", "Other", [("toy", "up")], {"toy": 9})
    assert parse_suite(text, "o.toml").axes == suite.axes


def test_what_cannot_be_kept_is_refused() -> None:
    uneven = SUITE.replace(
        "[axes]", '[[tasks]]\nsuite = "toy"\ntasks = ["up"]\nepisodes = "5"\nhorizon = 60\n[axes]'
    )
    suite = parse_suite(uneven, "s.toml")
    with pytest.raises(UsageError, match="its tasks have different episodes"):
        with_tasks(suite, "other", "Other", [("toy", "up")], {"toy": 9})
    with pytest.raises(UsageError, match="must be lower-case"):
        with_tasks(parse_suite(SUITE, "s"), "Other", "Other", [("toy", "up")], {"toy": 9})
    with pytest.raises(UsageError, match=r"no \[\[tasks\]\] block"):
        with_tasks(parse_suite(SUITE, "s"), "other", "Other", [], {})
