"""``vla-shift stats`` as a user meets it: tables in, statistics or a named refusal out."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla_shift.cli import main

COLUMNS = ("suite", "task", "episode", "axis", "level", "success", "milestones_done", "milestones")
AXES = ("camera", "lighting", "sensor")
Row = tuple[str, str, int, str, str, int | str, int | str, int | str]


def rows(seed: int = 0, suites: Sequence[str] = ("goal",), tasks: int = 6) -> list[Row]:
    rng = np.random.default_rng(seed)
    conditions = [("clean", ""), ("null", "")]
    conditions += [(axis, f"L{n}") for n in (1, 2) for axis in (*AXES, "simultaneous")]
    conditions += [("camera+lighting", "L2")]
    out: list[Row] = []
    for suite in suites:
        for task in range(tasks):
            easy = rng.random() * 0.4 + 0.5
            for episode in range(5):
                for axis, level in conditions:
                    success = int(rng.random() < easy)
                    done = 3 if success else int(rng.integers(4))
                    out.append((suite, f"task{task}", episode, axis, level, success, done, 3))
    return out


def write(path: Path, found: Iterable[Sequence[object]], columns: Sequence[str] = COLUMNS) -> Path:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([columns, *found])
    return path


def stats(path: Path, *options: str) -> int:
    return main(["stats", str(path), *options])


def as_json(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert stats(path, "--json", *options) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_tables_fit_a_terminal_and_say_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = rows(suites=("libero_goal", "libero_object"), tasks=4)
    table = [(*row[:3], row[3].replace("sensor", "a_rather_long_name"), *row[4:]) for row in table]
    assert stats(write(tmp_path / "t.csv", table)) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for heading in (
        "== libero_goal + libero_object · 8 tasks, 40 episodes",
        "== libero_goal · 4 tasks, 20 episodes",
        "matched pairs (RoboCasa-Shift)",
        "depth of S>F pairs",
        "against the flip floor",
        "compound simultaneous (LIBERO-CTRL) = a_rather_long_name + camera + lighting",
        "compound camera+lighting (LIBERO-CTRL) = camera + lighting",
    ):
        assert heading in text, heading
    assert "a_rather_long_name L1" in text or "~ L1" in text


def test_json_holds_every_statistic_with_its_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = rows(1)
    report = as_json(write(tmp_path / "t.csv", table), capsys)
    assert (report["kind"], report["rows"], report["errors"]) == ("stats", len(table), 0)
    (block,) = report["blocks"]
    assert (block["suites"], block["tasks"], block["episodes"]) == (["goal"], 6, 30)

    success = {(t, e, a, n): s for _, t, e, a, n, s, _, _ in table}
    done = {(t, e, a, n): d for _, t, e, a, n, _, d, _ in table}
    places = sorted({(t, e) for t, e, _, _ in success})
    camera = next(c for c in block["conditions"] if c["rates"]["condition"] == "camera-L2")
    rates = camera["rates"]
    pairs = [(success[*p, "clean", ""], success[*p, "camera", "L2"]) for p in places]
    for name, pair in {"ss": (1, 1), "sf": (1, 0), "fs": (0, 1), "ff": (0, 0)}.items():
        assert rates[name] == pairs.count(pair)
    assert rates["changed"] == rates["sf"] + rates["fs"]
    assert rates["dsr"] == pytest.approx((rates["sf"] - rates["fs"]) / 30)
    broken = [p for p, pair in zip(places, pairs, strict=True) if pair == (1, 0)]
    depths = [done[*p, "camera", "L2"] for p in broken]
    assert rates["depth"]["progress"] == pytest.approx(sum(map(int, depths)) / 3 / len(depths))
    assert rates["depth"]["first_stage"] == pytest.approx(depths.count(0) / len(depths))
    assert rates["depth"]["complete"] == depths.count(3)
    assert camera["new_tasks"]["method"] == "Student's t on task means"
    assert rates["mcnemar"] <= camera["benjamini_hochberg"] <= camera["holm"]
    null = [success[*p, "clean", ""] != success[*p, "null", ""] for p in places]
    assert (camera["floor"]["pairs"], camera["floor"]["floor"]) == (30, sum(null))

    level = next(c for c in block["compounds"] if (c["axis"], c["level"]) == ("simultaneous", "L2"))
    compound = level["report"]["all"]
    conj = [all(success[*p, axis, "L2"] for axis in AXES) for p in places]
    sim = [bool(success[*p, "simultaneous", "L2"]) for p in places]
    assert compound["b"] == sum(c and not s for c, s in zip(conj, sim, strict=True))
    assert compound["c"] == sum(s and not c for c, s in zip(conj, sim, strict=True))
    assert compound["i"]["value"] == pytest.approx((sum(sim) - sum(conj)) / 30)
    subset = next(c for c in block["compounds"] if c["axis"] == "camera+lighting")
    assert subset["report"]["axes"] == ["camera", "lighting"]
    assert block["no_compound"] == []


def test_the_order_of_rows_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = rows(2, suites=("a", "b"), tasks=3)
    path = write(tmp_path / "t.csv", table)
    before = as_json(path, capsys)
    np.random.default_rng(0).shuffle(table)
    write(path, table)
    assert as_json(path, capsys) == before


def test_csv_and_json_lines_say_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = rows(3)
    lines = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in table]
    other = tmp_path / "t.jsonl"
    other.write_text("\n".join(lines))
    found = as_json(other, capsys)
    expected = as_json(write(tmp_path / "t.csv", table), capsys)
    assert found.pop("source") != expected.pop("source")
    assert found == expected
    renamed = other.rename(tmp_path / "t.txt")
    assert as_json(renamed, capsys, "--format", "jsonl")["rows"] == len(table)


def test_rows_with_an_error_leave_and_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [(*row, "") for row in rows(4)]
    lost = [i for i, row in enumerate(table) if (row[3], row[4], row[2]) == ("camera", "L1", 0)]
    for i in lost:
        table[i] = (*table[i][:5], "", "", "", "worker lost")
    path = write(tmp_path / "t.csv", table, (*COLUMNS, "error"))
    report = as_json(path, capsys)
    assert report["errors"] == len(lost) == 6
    (block,) = report["blocks"]
    by_name = {c["rates"]["condition"]: c["rates"] for c in block["conditions"]}
    camera, lighting = by_name["camera-L1"], by_name["lighting-L1"]
    assert (camera["planned"], camera["pairs"], camera["errors"]) == (30, 24, 6)
    assert (lighting["pairs"], lighting["errors"]) == (30, 0)
    first = next(c for c in block["compounds"] if c["level"] == "L1")["report"]
    assert (first["planned"], first["complete"]) == (30, 24)
    assert first["dropped_kinds"] == [["worker lost", 6]]
    assert stats(path) == 0
    assert "24(6)" in capsys.readouterr().out


def test_a_second_policy_seed_is_compared_with_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [(*row, 0) for row in rows(5)] + [(*row, 1) for row in rows(6)]
    path = write(tmp_path / "t.csv", table, (*COLUMNS, "replicate"))
    first, second = as_json(path, capsys)["blocks"]
    assert (first["replications"], second["replicate"]) == ([], 1)
    found = next(
        r for r in second["replications"] if (r["axis"], r["level"]) == ("simultaneous", "L1")
    )
    one, two = (
        next(
            c["report"]["all"]
            for c in b["compounds"]
            if (c["axis"], c["level"]) == ("simultaneous", "L1")
        )
        for b in (first, second)
    )
    change = {c["rate"]: c for c in found["report"]["changes"]}["r_e"]
    assert (change["first"], change["second"]) == (one["r_e"]["value"], two["r_e"]["value"])
    assert change["change"]["value"] == pytest.approx((two["b"] - one["b"]) / 30)
    assert stats(path) == 0
    text = capsys.readouterr().out
    assert "replicate 0 > replicate 1" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_nominal_pass_is_the_reference_and_can_be_the_clean_arm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [row for row in rows(7) if row[3] != "null"]
    table = [(*row[:3], "nominal" if row[3] == "clean" else row[3], *row[4:]) for row in table]
    more: list[Row] = [
        ("goal", f"task{t}", e, "nominal", "", 1, 3, 3) for t in range(6) for e in range(5, 20)
    ]
    path = write(tmp_path / "t.csv", [*table, *more])
    (block,) = as_json(path, capsys)["blocks"]
    assert (block["clean"], block["nominal"]["rollouts"]) == ("nominal", 120)
    losses = block["compounds"][0]["report"]["losses"]
    assert (losses["reference"], losses["rollouts"], losses["n"]) == ("nominal", 120, 30)
    assert losses["s"]["value"] == block["nominal"]["sr"]
    assert stats(path) == 0
    assert "nominal pass: SR" in capsys.readouterr().out


def test_a_nominal_pass_over_other_states_holds_the_clean_ones_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = rows(7)
    clean = [int(row[5]) for row in table if row[3] == "clean"]
    more: list[Row] = [
        ("goal", f"task{t}", e, "nominal", "", 0, 0, 3) for t in range(6) for e in (5, 6)
    ]
    path = write(tmp_path / "t.csv", [*table, *more])
    (block,) = as_json(path, capsys)["blocks"]
    assert block["nominal"] == {
        **{"rollouts": 42, "errors": 0, "successes": sum(clean), "sr": sum(clean) / 42}
    }
    losses = block["compounds"][0]["report"]["losses"]
    assert (losses["rollouts"], losses["s"]["value"]) == (42, block["nominal"]["sr"])
    assert block["notes"] == []
    write(path, [*table, *more[:-1]])
    assert as_json(path, capsys)["blocks"][0]["notes"] == [
        "nominal pass: unequal numbers of states: 6 of goal task5, and 7 of the others"
    ]
    assert stats(path) == 0
    assert "note: nominal pass: unequal numbers of states: 6 of goal task5" in (
        capsys.readouterr().out.replace("\n  ", " ")
    )
    write(path, [*table, *more, ("goal", "task9", 0, "nominal", "", 0, 0, 3)])
    (block,) = as_json(path, capsys)["blocks"]
    assert "also over tasks that are not compared (goal task9)" in " ".join(block["notes"])
    assert block["compounds"][0]["report"]["losses"]["reference"] == "clean"


def test_the_reference_of_a_replicate_is_the_nominal_pass_of_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [(*row, 0) for row in rows(5)] + [(*row, 1) for row in rows(6)]
    table += [("goal", f"task{t}", 9, "nominal", "", 1, 3, 3, 0) for t in range(6)]
    path = write(tmp_path / "t.csv", table, (*COLUMNS, "replicate"))
    first, second = as_json(path, capsys)["blocks"]
    assert second["nominal"] is None
    losses = [block["compounds"][0]["report"]["losses"] for block in (first, second)]
    assert {(one["reference"], one["rollouts"]) for one in losses} == {("nominal", 36)}
    assert losses[0]["s"] == losses[1]["s"]


def test_what_simultaneous_is_taken_to_shift_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = rows(suites=("a", "b"))
    table = [row for row in table if row[0] == "a" or row[3] not in ("sensor", "camera+lighting")]
    path = write(tmp_path / "t.csv", table)
    assert stats(path) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    flat = text.replace("\n  ", " ")
    said = "simultaneous is taken to shift exactly these axes; name another compound a+b"
    heads = [
        f"compound simultaneous (LIBERO-CTRL) = {axes}\n{said}"
        for axes in ("camera + lighting + sensor", "camera + lighting")
    ]
    assert [flat.count(head) for head in heads] == [1, 1]
    assert flat.count(said) == 2  # not under camera+lighting, which says what it shifts
    note = "a and b are not read together: only a has camera+lighting L2, sensor L1, sensor L2"
    assert f"note: {note}" in flat
    assert as_json(path, capsys)["notes"] == [note]
    write(path, rows(suites=("a", "b")))
    assert as_json(path, capsys)["notes"] == []


def test_levels_without_all_axes_at_once_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = rows(8)
    path = write(tmp_path / "t.csv", [r for r in table if r[3:5] != ("simultaneous", "L2")])
    assert as_json(path, capsys)["blocks"][0]["notes"] == [
        "simultaneous rows at L1 only, none at L2"
    ]
    write(path, [r for r in table if r[3] != "simultaneous"])
    assert as_json(path, capsys)["blocks"][0]["notes"] == [
        "no simultaneous rows: the compounds are of some axes only"
    ]
    write(path, [r for r in table if r[3] in ("clean", *AXES)])
    assert as_json(path, capsys)["blocks"][0]["notes"] == [
        "no simultaneous rows: no compound at all"
    ]
    write(path, [r for r in table if r[3] in ("clean", "camera")])
    assert as_json(path, capsys)["blocks"][0]["notes"] == []


def test_a_compound_without_its_single_axes_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [row for row in rows(8) if (row[3], row[4]) != ("camera", "L2")]
    path = write(tmp_path / "t.csv", table)
    (block,) = as_json(path, capsys)["blocks"]
    assert block["no_compound"] == [
        "camera+lighting L2: no camera L2 to compare it with",
        "simultaneous L2: no camera L2 to compare it with",
    ]
    assert [c["level"] for c in block["compounds"]] == ["L1"]
    assert stats(path) == 0
    assert "no compound table: simultaneous L2" in capsys.readouterr().out


def test_a_table_without_milestones_has_no_depth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "t.csv", [row[:6] for row in rows(9)], COLUMNS[:6])
    assert stats(path) == 0
    assert "depth of S>F pairs" not in capsys.readouterr().out


def test_clean_rows_alone_have_a_success_rate_by_suite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table: list[Row] = [("a", "x", e, "clean", "", int(e < 3), "", "") for e in range(4)]
    table += [("a", "y", e, "clean", "", int(e < 1), "", "") for e in range(2)]
    table += [("b", "z", e, "clean", "", 1, "", "") for e in range(2)]
    path = write(tmp_path / "t.csv", table)
    both, one, two = as_json(path, capsys)["blocks"]
    assert one["clean_rate"] == {"rollouts": 6, "errors": 0, "successes": 4, "sr": 0.625}
    assert two["clean_rate"] == {"rollouts": 2, "errors": 0, "successes": 2, "sr": 1.0}
    assert both["clean_rate"] == {"rollouts": 8, "errors": 0, "successes": 6, "sr": 0.75}
    assert stats(path) == 0
    text = capsys.readouterr().out
    for line in (
        "== a + b · 3 tasks, 8 episodes\nclean: SR .750 (tasks weigh alike), 6 of 8 rollouts",
        "== a · 2 tasks, 6 episodes\nclean: SR .625 (tasks weigh alike), 4 of 6 rollouts",
        "== b · 1 task, 2 episodes\nclean: SR 1.00 (tasks weigh alike), 2 of 2 rollouts",
    ):
        assert line in text


def test_the_legend_says_what_weighs_how(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stats(write(tmp_path / "t.csv", rows(9))) == 0
    text = capsys.readouterr().out.replace("\n  ", " ")
    assert "pooled over configurations, while SRc and SRs weigh tasks alike" in text


def test_a_refusal_is_a_usage_error_that_names_the_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = rows(10)
    gap = next(i for i, row in enumerate(table) if row[1:5] == ("task3", 2, "sensor", "L1"))
    assert stats(write(tmp_path / "t.csv", table[:gap] + table[gap + 1 :])) == 2
    ended = capsys.readouterr()
    assert ended.out == ""
    assert ended.err.startswith("vla-shift stats: ")
    assert "cells are missing: goal task3 e02 sensor-L1" in ended.err
    assert stats(write(tmp_path / "t.csv", [*table, table[gap]])) == 2
    assert f"lines {gap + 2} and {len(table) + 2}: the same cell twice" in capsys.readouterr().err
    assert stats(tmp_path / "none.csv") == 2
    assert "cannot be read" in capsys.readouterr().err
