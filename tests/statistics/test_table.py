"""Long tables: what is read, and what is refused, by line and by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas
import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.statistics import table as module
from pytest_vla_shift.statistics.table import LongRow, read_table
from pytest_vla_shift.statistics.table_grid import Block, blocks

HEADER = "suite,task,episode,axis,level,success\n"
Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str, name: str) -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return written


def test_a_csv_row_is_read_as_it_stands(write: Write) -> None:
    text = (
        "policy,success,level,axis,episode,task,suite,milestones,milestones_done,error,replicate\n"
        "oft,1,L2,camera,7,pick up,libero,4,4,,1\n"
        "oft,,,clean,7,pick up,libero,,,worker lost,\n"
    )
    first, second = read_table(write(text, "t.csv"))
    assert first == LongRow(2, "libero", "pick up", 7, "camera", "L2", True, None, 4, 4, "oft", 1)
    assert first.cell == "oft: libero pick up e07 camera-L2 replicate 1"
    assert (second.success, second.error, second.level) == (None, "worker lost", None)
    assert (second.milestones, second.replicate) == (None, 0)


@pytest.mark.parametrize(
    "text, expected",
    [
        *((text, True) for text in ("1", "true", "True", "TRUE", "1.0")),
        *((text, False) for text in ("0", "false", "False", "0.0")),
    ],
)
def test_ways_to_write_a_success(write: Write, text: str, expected: bool) -> None:
    (row,) = read_table(write(f"{HEADER}s,t,0,clean,,{text}\n", "t.csv"))
    assert row.success is expected


@pytest.mark.parametrize("text", ["2", "-1", "0.5", "yes", "nan", "success", "01", "1,0"])
def test_a_success_that_is_neither_is_named_and_refused(write: Write, text: str) -> None:
    path = write(f'{HEADER}s,t,0,clean,,1\ns,t,1,clean,,"{text}"\n', "t.csv")
    with pytest.raises(UsageError, match=r"t\.csv, line 3: success is .* neither 0 nor 1"):
        read_table(path)


@pytest.mark.parametrize("value", [2, 0.5, "yes", -1])
def test_so_it_is_in_json(write: Write, value: object) -> None:
    row = {"suite": "s", "task": "t", "episode": 0, "axis": "clean", "success": value}
    with pytest.raises(UsageError, match=r"line 1: success is .* neither 0 nor 1"):
        read_table(write(json.dumps(row) + "\n", "t.jsonl"))


def test_json_lines_may_leave_out_what_is_empty(write: Write) -> None:
    text = (
        '{"suite":"s","task":3,"episode":0,"axis":"clean","success":true}\n\n'
        '{"suite":"s","task":3,"episode":0,"axis":"camera","level":2,"success":null,'
        '"error":"policy"}\n'
    )
    clean, camera = read_table(write(text, "t.jsonl"))
    assert (clean.success, clean.level, clean.task) == (True, None, "3")
    assert (camera.line, camera.level, camera.success, camera.error) == (3, "L2", None, "policy")


@pytest.mark.parametrize("level, expected", [("L1", "L1"), ("3", "L3"), ("2.0", "L2")])
def test_ways_to_write_a_level(write: Write, level: str, expected: str) -> None:
    (row,) = read_table(write(f"{HEADER}s,t,0,camera,{level},1\n", "t.csv"))
    assert row.level == expected


def test_a_compound_is_the_same_in_any_order(write: Write) -> None:
    (row,) = read_table(write(f"{HEADER}s,t,0,lighting + camera,L1,1\n", "t.csv"))
    assert (row.axis, row.condition) == ("camera+lighting", "camera+lighting-L1")


@pytest.mark.parametrize(
    "text, level, expected",
    [
        ("Camera", "L1", "camera"),
        ("Robot_Pose", "L1", "robot_pose"),
        ("CLEAN", "", "clean"),
        ("Lighting+camera", "L1", "camera+lighting"),
    ],
)
def test_capitals_make_no_other_axis(write: Write, text: str, level: str, expected: str) -> None:
    (row,) = read_table(write(f"{HEADER}s,t,0,{text},{level},1\n", "t.csv"))
    assert row.axis == expected


def test_byte_order_marks_and_windows_line_ends_are_no_part_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(
        b"\xef\xbb\xbf" + HEADER.replace("\n", "\r\n").encode() + b"s,t,0,clean,,1\r\n"
    )
    assert read_table(path)[0].suite == "s"


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no row"),
        (HEADER, "no row"),
        ("suite,task,episode,axis,level\ns,t,0,clean,\n", "line 1: no column 'success'"),
        ("suite,task,episode,axis,level,sucess\n", "line 1: unknown column 'sucess'; there are"),
        ("suite,suite,task,episode,axis,level,success\n", "column 'suite' is there twice"),
        (f"{HEADER}s,t,0,clean,\n", "line 2: 5 cells under 6 columns"),
        (f'{HEADER}s,t,0,clean,,"1\n', "no CSV"),
        (f"{HEADER},t,0,clean,,1\n", "line 2: 'suite' is empty"),
        (f"{HEADER}s,t,,clean,,1\n", "line 2: 'episode' is empty"),
        (f"{HEADER}s,t,0,,,1\n", "line 2: 'axis' is empty; pandas reads the word null"),
        (f",{HEADER}0,s,t,0,clean,,1\n", "line 1: a column without a name"),
        (f"{HEADER}s,t,1.5,clean,,1\n", "line 2: 'episode' is '1.5', not a whole number"),
        (f"{HEADER}s,t,-1,clean,,1\n", "'episode' is '-1'"),
        (f"{HEADER}s,t,0,camera,,1\n", "line 2: no level for axis 'camera'"),
        (f"{HEADER}s,t,0,clean,L1,1\n", "line 2: 'clean' has no level, not 'L1'"),
        (f"{HEADER}s,t,0,camera,mild,1\n", "level is 'mild', not L1 ... L9"),
        (f"{HEADER}s,t,0,camera+,L1,1\n", "no compound of different axes"),
        (f"{HEADER}s,t,0,camera+camera,L1,1\n", "no compound of different axes"),
        (f"{HEADER}s,t,0,camera+clean,L1,1\n", "clean, null and nominal are no axes"),
        (f"{HEADER}s,t,0,clean+camera,L1,1\n", "line 2: .*clean, null and nominal are no axes"),
        (
            f"{HEADER}s,t,0,camera+simultaneous,L1,1\n",
            "line 2: .*simultaneous is a compound itself",
        ),
        (f"{HEADER}s,t,0,all,L1,1\n", "line 2: no axis can be called 'all'"),
        (f"{HEADER}s,t,0,camera+all,L1,1\n", "line 2: no axis can be called 'all'"),
        (f"{HEADER}s,t,0,camera-pose,L1,1\n", "line 2: 'camera-pose' is no name of an axis"),
        (f"{HEADER}s,t,0,camera & light,L1,1\n", "line 2: 'camera & light' is no name of an axis"),
        (f"{HEADER}s,t,0,clean,,\n", r"line 2 \(s t e00 clean\): no success, and no error"),
    ],
)
def test_what_a_csv_table_cannot_say(write: Write, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_table(write(text, "t.csv"))


@pytest.mark.parametrize(
    "cells, message",
    [
        ("1,3,2,", "3 milestones done of 2"),
        ("1,,2,", "'milestones_done' and 'milestones' go together"),
        ("1,x,2,", "'milestones_done' is 'x', not a whole number"),
        ("1,,,policy", "an error and a success"),
    ],
)
def test_what_a_row_with_more_columns_cannot_say(write: Write, cells: str, message: str) -> None:
    header = HEADER.strip() + ",milestones_done,milestones,error\n"
    with pytest.raises(UsageError, match=message):
        read_table(write(f"{header}s,t,0,clean,,{cells}\n", "t.csv"))


@pytest.mark.parametrize(
    "text, message",
    [
        ("[1, 2]", "not a JSON object"),
        ("3", "not a JSON object"),
        ("{", "no JSON"),
        ('{"suite": NaN}', "no JSON: NaN is no number"),
        ('{"suite": "s", "suite": "t"}', "column 'suite' is there twice"),
        ('{"suite": "s"}', "no column 'task'"),
        ("{}", "no column 'suite'"),
        ('{"suite": {"a": 1}, "task": "t", "episode": 0, "axis": "clean"}', "neither text nor"),
        ('{"suite": "s", "task": "t", "episode": true, "axis": "clean"}', "'episode' is True"),
        ('{"suite": true, "task": "t", "episode": 0, "axis": "clean"}', "which is no name"),
        ("[" * 50_000, "no JSON"),
    ],
)
def test_what_a_json_row_cannot_say(write: Write, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"line 1: .*{message}"):
        read_table(write(text + "\n", "t.jsonl"))


def test_files_that_cannot_be_read_are_usage_errors(tmp_path: Path, write: Write) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_table(tmp_path, "csv")
    with pytest.raises(UsageError, match="say --format csv or --format jsonl"):
        read_table(write(HEADER, "t.parquet"))
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"PAR1\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8 text"):
        read_table(binary)


def test_a_table_that_pandas_wrote_is_read(tmp_path: Path, write: Write) -> None:
    header = HEADER.strip() + ",milestones_done,milestones,error\n"
    text = f"{header}s,t,0,clean,,1,2,2,\ns,t,0,null,,0,1,2,\ns,t,0,camera,L1,,,,lost\n"
    source = write(text, "t.csv")
    frame = pandas.read_csv(source, keep_default_na=False, na_values=[""])
    frame.to_csv(tmp_path / "again.csv", index=False)
    frame.to_json(tmp_path / "again.jsonl", orient="records", lines=True)
    assert ",1.0,2.0,2.0," in (tmp_path / "again.csv").read_text()
    expected = read_table(source)
    assert read_table(tmp_path / "again.csv") == expected
    found = read_table(tmp_path / "again.jsonl")
    assert [replace(row, line=row.line + 1) for row in found] == list(expected)


def test_the_format_may_be_said(write: Write) -> None:
    assert read_table(write(f"{HEADER}s,t,0,clean,,1\n", "t.txt"), "csv")[0].task == "t"


def test_a_file_without_lines_is_not_read_into_memory(write: Write) -> None:
    with pytest.raises(UsageError, match="line 1: longer than 100,000 characters"):
        read_table(write("x" * 300_000, "t.csv"))
    with pytest.raises(UsageError, match="line 1: longer than 100,000 characters"):
        read_table(write("x" * 300_000, "t.jsonl"))


def test_more_rows_than_can_be_held_are_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    rows = "".join(f"s,t,{e},clean,,1\n" for e in range(3))
    with pytest.raises(UsageError, match="more than 2 rows"):
        read_table(write(HEADER + rows, "t.csv"))


# Grids.


def grid(text: str) -> tuple[Block, ...]:
    """Rows as ``suite task episode axis level success``, one a line; ``-`` is empty."""
    rows = []
    for line, words in enumerate(text.strip().splitlines(), 2):
        suite, task, episode, axis, level, success, *rest = words.split()
        rows.append(
            LongRow(
                line,
                suite,
                task,
                int(episode),
                axis,
                None if level == "-" else level,
                {"1": True, "0": False}.get(success),
                None if success in "01" else success,
                replicate=int(rest[0]) if rest else 0,
                policy=rest[1] if len(rest) > 1 else "",
            )
        )
    return blocks(rows, "t.csv")


def test_a_whole_grid_with_two_tasks() -> None:
    (block,) = grid("s a 0 clean - 1\ns a 0 camera L1 0\ns b 4 clean - lost\ns b 4 camera L1 1")
    assert (block.tasks, block.axes) == ((("s", "a"), ("s", "b")), ("camera",))
    assert block.places == (("s", "a", 0), ("s", "b", 4))
    assert block.clean["s", "b", 4].error == "lost"


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "s a 0 clean - 1\ns a 0 camera L1 1\ns a 0 camera L1 0",
            "t.csv, lines 3 and 4: the same cell twice: s a e00 camera-L1",
        ),
        (
            "s a 0 clean - 1\ns a 1 clean - 1\ns a 0 camera L1 1",
            "cells are missing: s a e01 camera-L1. camera-L1 has 1 rows, clean has 2;"
            " of the first one's episode there is line 3",
        ),
        (
            "s a 0 clean - 1\ns a 0 camera L1 1\ns a 1 camera L1 1",
            "cells are missing: s a e01 clean. clean has 1 rows, camera-L1 has 2",
        ),
        (
            "s a 0 camera L1 1",
            "line 2: a shifted row without a clean one: s a e00 camera-L1",
        ),
        (
            "s a 0 nominal - 1\ns a 0 camera L1 1\ns a 1 camera L1 1",
            "line 4: a shifted row without a clean one: s a e01 camera-L1",
        ),
        (
            "s a 0 clean - 1\ns a 0 nominal - 0\ns a 0 camera L1 1",
            "lines 2 and 3: s a e00 clean and s a e00 nominal differ",
        ),
        ("s a 0 clean - 1 1\ns a 0 camera L1 1 1", "replicate 1 of s, and no replicate 0"),
        (
            "s a 0 clean - 1\ns a 0 camera L1 1\ns a 0 camera L2 1 1",
            "line 4: replicates 0 and 1 are not over the same cells:"
            " only one has s a e00 camera-L2",
        ),
    ],
)
def test_what_rows_cannot_say_together(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        grid(text)
    assert message in str(refused.value)


def test_many_missing_cells_are_counted_after_three() -> None:
    rows = [f"s a {e} clean - 1" for e in range(9)] + ["s a 0 camera L1 1"]
    with pytest.raises(UsageError, match="e03 camera-L1 and 5 more"):
        grid("\n".join(rows))


def test_the_nominal_pass_can_be_the_clean_arm() -> None:
    (block,) = grid("s a 0 nominal - 1\ns a 5 nominal - 0\ns a 0 camera L1 1")
    assert block.clean_is_nominal
    assert set(block.clean) == {("s", "a", 0)}
    assert len(block.nominal) == 2


def test_the_nominal_pass_holds_the_clean_rows_too() -> None:
    rows = "s a 0 clean - 1\ns a 0 camera L1 1"
    (block,) = grid(f"{rows}\ns a 5 nominal - 0")
    assert {place[2]: row.success for place, row in block.nominal.items()} == {0: True, 5: False}
    (again,) = grid(f"{rows}\ns a 0 nominal - 1\ns a 5 nominal - 0")
    assert {place[2]: row.success for place, row in again.nominal.items()} == {0: True, 5: False}
    (without,) = grid(rows)
    assert without.nominal == {}


def test_a_row_without_a_policy_beside_rows_with_one_is_refused() -> None:
    with pytest.raises(UsageError, match="line 3: no policy, but line 2 is of 'x': s a e01 clean"):
        grid("s a 0 clean - 1 0 x\ns a 1 clean - 1")


def test_suites_with_the_same_conditions_are_read_together_and_apart() -> None:
    rows = "s a 0 clean - 1\ns a 0 camera L1 1\nt a 0 clean - 1\nt a 0 camera L1 1"
    together, one, two = grid(rows)
    assert (together.suites, together.tasks) == (("s", "t"), (("s", "a"), ("t", "a")))
    assert (one.suites, two.suites) == (("s",), ("t",))
    assert [block.suites for block in grid(rows + "\nt a 0 blur L1 1")] == [("s",), ("t",)]


def test_policies_are_grids_of_their_own() -> None:
    found = grid("s a 0 clean - 1 0 x\ns a 0 clean - 1 0 y\ns a 0 camera L1 1 0 y")
    assert [(block.policy, len(block.conditions)) for block in found] == [("x", 0), ("y", 1)]


def test_a_replicate_may_be_without_a_clean_arm() -> None:
    first, second = grid("s a 0 clean - 1\ns a 0 camera L1 1\ns a 0 camera L1 0 1")
    assert (first.replicate, second.replicate) == (0, 1)
    assert second.clean == {}
