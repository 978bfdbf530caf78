"""Profiles as files: what is read, what is refused, and what is in their digest."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vla_shift.policies import profile as module
from pytest_vla_shift.policies.profile import (
    QUANTITIES,
    WIRES,
    Profile,
    StatePart,
    find_profile,
    narrowed,
    parse_profile,
    read_profile,
    shipped,
)
from pytest_vla_shift.protocol.errors import UsageError
from tests.policies.shipped_profiles import NAMES

Parsed = dict[str, object]

TEXT = """
schema = 1
title = "A robot"
wire = "openpi"
simulators = ["libero"]
source = "a script"
action_dim = 3
chunk = 8
replan = 4
instruction = "prompt"

[[images]]
key = "image"
camera = "agentview"
orientation = "mirrored"
size = [224, 200]
resize = "pad"

[[images]]
key = "wrist"
camera = "robot0_eye_in_hand"
orientation = "upright"

[[states]]
key = "state"
parts = ["eef_pos", "eef_axis_angle[1:3]", "gripper_qpos[0]"]
dtype = "float64"

[[actions]]
key = "actions"
columns = [0, 1]
to = [1, 0]
low = -1.0
high = 1.0

[[actions]]
key = "actions"
columns = [2]
to = [2]
transform = "open01"
low = 0
high = 1

[constants]
unnorm_key = "libero_goal"
"""


def parsed() -> Parsed:
    return tomllib.loads(TEXT)


GRIPPER: Parsed = {
    "key": "actions",
    "columns": [2],
    "to": [2],
    "transform": "open01",
    "low": 0.0,
    "high": 1.0,
}


def parse(changed: Parsed) -> Profile:
    return parse_profile(changed, "mine", "mine.toml")


def test_every_key_is_read() -> None:
    found = parse(parsed())
    assert (found.name, found.title, found.wire, found.source) == (
        "mine",
        "A robot",
        "openpi",
        "a script",
    )
    assert (found.action_dim, found.chunk, found.replan) == (3, 8, 4)
    first, second = found.images
    assert (first.orientation, first.size, first.resize) == ("mirrored", (224, 200), "pad")
    assert (second.orientation, second.size, second.resize) == ("upright", None, "none")
    (state,) = found.states
    assert state.parts == (
        StatePart("eef_pos", 0, 3),
        StatePart("eef_axis_angle", 1, 3),
        StatePart("gripper_qpos", 0, 1),
    )
    assert (state.width, state.dtype) == (6, "float64")
    moved, gripper = found.actions
    assert (moved.columns, moved.to, moved.transform) == ((0, 1), (1, 0), "identity")
    assert (gripper.transform, gripper.low, gripper.high) == ("open01", 0.0, 1.0)
    assert dict(found.constants) == {"unnorm_key": "libero_goal"}
    assert found.cameras == ("agentview", "robot0_eye_in_hand")
    assert found.action_widths == {"actions": 3}


def change(*path: str | int, to: object) -> Callable[[Parsed], None]:
    def apply(data: Parsed) -> None:
        place: object = data
        for step in path[:-1]:
            place = place[step]  # type: ignore[index]
        if to is None:
            del place[path[-1]]  # type: ignore[attr-defined]
        else:
            place[path[-1]] = to  # type: ignore[index]

    return apply


REFUSED: dict[str, tuple[Callable[[Parsed], None], str]] = {
    "schema": (change("schema", to=2), "schema must be 1"),
    "wire": (change("wire", to="grpc"), "'wire' must be one of gr00t, openpi"),
    "no chunk": (change("chunk", to=None), "'chunk' is missing"),
    "replan": (change("replan", to=9), "'replan' must be an integer .* at most 8"),
    "simulators": (change("simulators", to=[]), "'simulators' must be"),
    "unknown key": (change("replans", to=4), "unknown key 'replans'"),
    "unknown in image": (
        change("images", 0, "rotate", to=True),
        r"\[\[images\]\] no. 1: unknown key 'rotate'",
    ),
    "orientation": (
        change("images", 1, "orientation", to="flipped"),
        r"no. 2: 'orientation' must be one of upright, mirrored, rotate_180",
    ),
    "no orientation": (change("images", 0, "orientation", to=None), "'orientation' is missing"),
    "size": (change("images", 0, "size", to=[224]), "'size' must be a list of 2 whole numbers"),
    "no pixels": (change("images", 0, "size", to=[0, 224]), "'size' must be at least 1 x 1"),
    "too large": (
        change("images", 0, "size", to=[224, 4097]),
        "'size' must be at most 4096 x 4096",
    ),
    "resize to what": (change("images", 0, "size", to=None), "'resize' needs a 'size'"),
    "quantity": (change("states", 0, "parts", to=["eef"]), "'eef' is not like eef_pos"),
    "part": (change("states", 0, "parts", to=["eef_pos[3]"]), "out of the 3 numbers of eef_pos"),
    "empty part": (change("states", 0, "parts", to=["eef_pos[1:1]"]), "out of the 3 numbers"),
    "no parts": (change("states", 0, "parts", to=[]), "'parts' must be a list with something"),
    "dtype": (change("states", 0, "dtype", to="float16"), "'dtype' must be one of float32"),
    "state twice": (change("states", 0, "key", to="image"), "'image' would be sent twice"),
    "prompt twice": (change("instruction", to="state"), "'state' would be sent twice"),
    "constant twice": (change("constants", to={"wrist": "x"}), "'wrist' would be sent twice"),
    "constant": (change("constants", to={"n": 3}), "'n' must be a non-empty string"),
    "no actions": (change("actions", to=None), r"there are no \[\[actions\]\]"),
    "a gap": (change("actions", 1, "to", to=[1]), r"must fill each of the 3 .* fill \[0, 1, 1\]"),
    "beyond": (change("actions", 1, "to", to=[3]), r"must fill each of the 3 .* fill \[0, 1, 3\]"),
    "column": (change("actions", 1, "columns", to=[3]), r"must have each column read once"),
    "columns": (change("actions", 0, "columns", to=[0]), "as many 'columns' as 'to'"),
    "negative": (change("actions", 0, "columns", to=[-1, 0]), "'columns' must be a list of whole"),
    "truth": (change("actions", 1, "columns", to=[True]), "'columns' must be a list of whole"),
    "range": (change("actions", 0, "low", to=1.0), "'low' below 'high'"),
    "nan": (change("actions", 0, "low", to=float("nan")), "'low' must be a finite number"),
    "transform": (change("actions", 1, "transform", to="flip"), "'transform' must be one of"),
    "a range for open01": (
        change("actions", 1, "low", to=-1.0),
        r"\[\[actions\]\] no. 2: 'open01' is for numbers with 'low' 0 and 'high' 1, not -1 and 1",
    ),
    "a range for half": (
        change("actions", 1, to=GRIPPER | {"transform": "half", "high": 255.0}),
        "no. 2: 'half' is for numbers with 'low' 0 and 'high' 1, not 0 and 255",
    ),
    "a range for sign": (
        change("actions", 1, to=GRIPPER | {"transform": "sign"}),
        "no. 2: 'sign' is for numbers with 'low' below 0 and 'high' above 0, not 0 and 1",
    ),
    "a range below 0 for sign": (
        change("actions", 1, to=GRIPPER | {"transform": "sign", "low": -1.0, "high": 0.0}),
        "no. 2: 'sign' is for numbers with 'low' below 0 and 'high' above 0, not -1 and 0",
    ),
    # Each of these would take gigabytes to compare.
    "endless actions": (change("action_dim", to=10**12), "'action_dim' .* at most 4096"),
    "endless columns": (
        change("actions", 1, "columns", to=[10**12]),
        "'columns' must be a list of whole numbers below 4096",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_and_placed(case: str) -> None:
    apply, message = REFUSED[case]
    data = parsed()
    apply(data)
    with pytest.raises(UsageError, match=message) as refused:
        parse(data)
    assert str(refused.value).startswith("mine.toml")


OF_WIRES: dict[str, tuple[str, Callable[[Parsed], None], str]] = {
    "gr00t, image": (
        "gr00t-libero",
        change("images", 0, "key", to="image"),
        "'image' must begin with 'video.'",
    ),
    "gr00t, state": (
        "gr00t-libero",
        change("states", 0, "key", to="x"),
        "'x' must begin with 'state.'",
    ),
    "gr00t, action": (
        "gr00t-libero",
        change("actions", 0, "key", to="x"),
        "'x' must begin with 'action.'",
    ),
    "openvla": (
        "openvla-libero",
        change("actions", 1, "key", to="gripper"),
        "'gripper'.* must have key = 'actions'",
    ),
    "lerobot": (
        "lerobot-libero",
        change("actions", 0, "key", to="actions"),
        "'actions'.* must have key = 'action'",
    ),
    "vla-eval, actions": (
        "vla-eval-libero",
        change("actions", 0, "key", to="motion"),
        "'motion', 'actions': .* one array",
    ),
    "vla-eval, within": (
        "vla-eval-libero",
        change("states", 0, "key", to="images"),
        "'images/agentview' lies within 'images', which is sent itself",
    ),
}


@pytest.mark.parametrize("case", OF_WIRES)
def test_names_that_a_wire_has_no_place_for_are_refused_as_they_are_read(
    case: str,
) -> None:
    shipped_name, apply, message = OF_WIRES[case]
    data = tomllib.loads(
        (Path(module.__file__).parent / f"profiles/{shipped_name}.toml").read_text()
    )
    assert parse(data).wire == data["wire"]
    apply(data)
    with pytest.raises(UsageError, match=message) as refused:
        parse(data)
    assert str(refused.value).startswith("mine.toml: ")


CHANGES: dict[str, Callable[[Parsed], None]] = {
    "orientation": change("images", 0, "orientation", to="rotate_180"),
    "order of images": lambda data: data["images"].reverse(),  # type: ignore[attr-defined]
    "part": change("states", 0, "parts", to=["eef_pos", "eef_axis_angle_short[1:3]"]),
    "dtype": change("states", 0, "dtype", to="float32"),
    "transform": change("actions", 1, "transform", to="half"),
    "range": change("actions", 0, "high", to=0.5),
    "order of actions": change("actions", 0, "to", to=[0, 1]),
    "replan": change("replan", to=8),
    "constant": change("constants", "unnorm_key", to="libero_10"),
    "instruction": change("instruction", to="task"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_whatever_could_change_a_number_changes_the_digest(case: str) -> None:
    data = parsed()
    CHANGES[case](data)
    assert parse(data).digest != parse(parsed()).digest


def test_what_is_for_people_does_not_change_the_digest() -> None:
    found = parse(parsed())
    assert replace(found, title="Another", source="elsewhere").digest == found.digest


def test_pictures_of_other_cameras_are_left_out() -> None:
    found = narrowed(parse(parsed()), ("robot0_eye_in_hand", "birdview"))
    assert [image.key for image in found.images] == ["wrist"]
    assert found.digest != parse(parsed()).digest


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_profile_is_found_with_and_without_its_wire(name: str) -> None:
    found = read_profile(name)
    assert found.name == name
    assert find_profile(name, found.wire) == found
    assert name.startswith(f"{found.wire}-")
    assert find_profile(name.removeprefix(f"{found.wire}-"), found.wire) == found
    assert name in shipped(found.wire)


def test_every_shipped_profile_is_listed_once_under_its_wire() -> None:
    assert sorted(name for wire in WIRES for name in shipped(wire)) == shipped() == list(NAMES)


def test_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    assert find_profile(str(path), "openpi") == parse(parsed())
    with pytest.raises(UsageError, match="is for the wire 'openpi', not for 'gr00t'"):
        find_profile(str(path), "gr00t")


def test_what_is_no_profile_is_refused_with_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown profile 'franka'\. Shipped for gr00t: gr00t-l"):
        find_profile("franka", "gr00t")
    with pytest.raises(UsageError, match=r"profile '.*/none\.toml' cannot be read"):
        find_profile(str(tmp_path / "none.toml"), "gr00t")
    for content, message in ((b"schema = ", "is no TOML"), (b"\xff", "cannot be read")):
        path = tmp_path / "broken.toml"
        path.write_bytes(content)
        with pytest.raises(UsageError, match=message):
            find_profile(str(path), "gr00t")


def test_a_shipped_file_needs_what_every_file_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = copy.deepcopy(TEXT).replace("schema = 1", "schema = 3")
    (tmp_path / "openpi-odd.toml").write_text(data)
    monkeypatch.setattr(module, "_FOLDER", tmp_path)
    with pytest.raises(UsageError, match="profile openpi-odd: schema must be 1"):
        find_profile("odd", "openpi")


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_profile_says_where_it_was_read_and_uses_what_there_is(name: str) -> None:
    found = read_profile(name)
    assert len(found.source) > 10
    used = {part.quantity for state in found.states for part in state.parts}
    assert used <= set(QUANTITIES)
