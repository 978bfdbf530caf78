"""A profile: how one checkpoint's observations and actions are laid out, as data.

Profiles are TOML files, shipped in ``policies/profiles`` or a user's own
(``--vla-policy-arg=profile=my.toml``); docs/reference/profiles.md explains every key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, cast

from pytest_vla_shift.policies.profile_checks import check
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.protocol.tables import Table

SCHEMA = 1

WIRES = ("gr00t", "openpi", "vla-eval", "openvla", "lerobot", "in-process")
"""Whose names a profile has. ``in-process`` is for a policy of one's own, ``module:attr``."""

Orientation = Literal["upright", "mirrored", "rotate_180"]
ORIENTATIONS = ("upright", "mirrored", "rotate_180")
"""Of a picture against what a viewer sees. ``mirrored`` swaps left and right: LIBERO's policies
were trained on ``raw[::-1, ::-1]``, and the renderer's raw picture is upside down already, so that
what their scripts call a rotation by 180 degrees is a mirror image of what a viewer sees."""

Resize = Literal["none", "pad", "stretch", "openvla"]
RESIZES = ("none", "pad", "stretch", "openvla")

QUANTITIES: Mapping[str, int] = {
    "eef_pos": 3,
    "eef_quat": 4,
    "eef_axis_angle": 3,
    "eef_axis_angle_rounded": 3,
    "eef_axis_angle_short": 3,
    "controller_pos": 3,
    "controller_quat": 4,
    "controller_axis_angle_short": 3,
    "gripper_qpos": 2,
    "joint_pos": 7,
    "base_pos": 3,
    "base_quat": 4,
    "eef_pos_relative": 3,
    "eef_quat_relative": 4,
}
"""What a state may be made of, and how many numbers it has. Quaternions are xyzw.
``eef_axis_angle`` is robosuite's: the angle goes to 2 pi. ``..._short`` takes the antipodal
quaternion first where that gives the shorter way: the angle stops at pi. That and ``..._rounded``,
robosuite's again, hold values of float32, as vla-eval sends them within a vector of float64."""

Transform = Literal["identity", "sign", "open01", "half"]
TRANSFORMS = ("identity", "sign", "open01", "half")
"""From the wire's number to the simulator's: ``sign`` gives -1 below 0 and else +1; ``open01`` is
1 for open and 0 for close, thresholded at 0.5, and robosuite's -1 opens and +1 closes; ``half``
gives -1 below 0.5 and else +1."""

DTYPES = ("float32", "float64")

LARGEST = 4096
"""Of a picture, in pixels a side, and of an action, in numbers: far more than any model has."""

_PART = re.compile(r"([a-z_]+)(?:\[(\d+)(?::(\d+))?\])?")


class MappingError(ValueError):
    """What is to be mapped does not fit the profile; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class ImageMap:
    """One picture that the policy is given.

    Attributes:
        key: its name on the wire.
        camera: the simulator's camera.
        orientation: of :data:`ORIENTATIONS`.
        size: (height, width) that the policy takes; None for whatever the suite renders.
        resize: how the suite's picture becomes that: ``none`` refuses another size, ``pad`` keeps
            the aspect and pads with black, ``stretch`` does not, ``openvla`` does what that
            model's own evaluation does, with a JPEG and a crop.
    """

    key: str
    camera: str
    orientation: Orientation
    size: tuple[int, int] | None
    resize: Resize


@dataclass(frozen=True, slots=True)
class StatePart:
    """``quantity[start:stop]`` of :data:`QUANTITIES`."""

    quantity: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class StateMap:
    """One vector that the policy is given: its parts, one behind the other."""

    key: str
    parts: tuple[StatePart, ...]
    dtype: str

    @property
    def width(self) -> int:
        """How many numbers it has."""
        return sum(part.stop - part.start for part in self.parts)


@dataclass(frozen=True, slots=True)
class ActionMap:
    """Some components of an action on the wire, and where they go.

    Attributes:
        key: name of the wire's array, (T, W); several maps may read one array.
        columns: which of its columns.
        to: as many components of the simulator's action.
        transform: of :data:`TRANSFORMS`.
        low, high: what the numbers on the wire mean at most; for the contract and for people.
    """

    key: str
    columns: tuple[int, ...]
    to: tuple[int, ...]
    transform: Transform
    low: float
    high: float


@dataclass(frozen=True)
class Profile:
    """What a policy is given and gives; see the module.

    Attributes:
        name: of the file.
        title: for people.
        wire: which adapter understands its keys.
        simulators: whose suites it is for.
        source: where the conventions were read.
        action_dim: width of the simulator's action.
        chunk: the most actions that a reply holds, where the server does not say.
        replan: how many of them are executed, as the policy's own evaluation does.
        images: in the order in which they are sent.
        states: vectors; may be none.
        instruction: the sentence's name on the wire.
        actions: together they fill each of the ``action_dim`` components once.
        constants: texts that are sent with every observation, by name.
    """

    name: str
    title: str
    wire: str
    simulators: tuple[str, ...]
    source: str
    action_dim: int
    chunk: int
    replan: int
    images: tuple[ImageMap, ...]
    states: tuple[StateMap, ...]
    instruction: str
    actions: tuple[ActionMap, ...]
    constants: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """Over everything that could change a number; title and source do not."""
        data = asdict(self)
        return digest({key: data[key] for key in data if key not in ("title", "source")})

    @property
    def cameras(self) -> tuple[str, ...]:
        """The simulator's cameras, in the order of the pictures, each once."""
        return tuple(dict.fromkeys(image.camera for image in self.images))

    @property
    def action_widths(self) -> dict[str, int]:
        """Name of each array of actions on the wire -> its width, in order."""
        widths: dict[str, int] = {}
        for part in self.actions:
            widths[part.key] = max(widths.get(part.key, 0), 1 + max(part.columns))
        return widths


def narrowed(profile: Profile, cameras: Sequence[str]) -> Profile:
    """``profile`` without the pictures of other cameras."""
    return replace(profile, images=tuple(i for i in profile.images if i.camera in cameras))


def shipped(wire: str | None = None) -> list[str]:
    """Names of the profiles that come with the package, sorted; of one wire, or of all."""
    return [name for name in sorted(_names()) if wire in (None, read_profile(name).wire)]


def find_profile(value: str, wire: str) -> Profile:
    """The profile of ``--vla-policy-arg=profile=...``: a shipped name, with or without the wire
    before it (``libero`` for ``gr00t-libero``), or a file.

    Raises:
        UsageError: there is none, it is malformed, or it is for another wire.
    """
    profile = read_profile(value if _is_file(value) else _name(value, wire))
    if profile.wire != wire:
        raise UsageError(f"profile {value!r} is for the wire {profile.wire!r}, not for {wire!r}")
    return profile


def read_profile(value: str) -> Profile:
    """The profile of a shipped name or of a file.

    Raises:
        UsageError: there is none, or it is malformed; says where.
    """
    path = Path(value) if _is_file(value) else _FOLDER / f"{value}.toml"
    if not _is_file(value) and value not in _names():
        raise UsageError(
            f"unknown profile {value!r}. Shipped: {', '.join(sorted(_names()))}; or the path of a"
            " .toml file of your own"
        )
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"profile {value!r} cannot be read: {error}") from error
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"profile {value!r} is no TOML: {error}") from error
    return parse_profile(parsed, path.stem, str(path) if _is_file(value) else f"profile {value}")


def parse_profile(parsed: Mapping[str, object], name: str, where: str) -> Profile:
    """The profile of a parsed file.

    Raises:
        UsageError: a key is missing, unknown or impossible; says which.
    """
    top = Table(parsed, where)
    if top.integer("schema") != SCHEMA:
        raise UsageError(f"{where}: schema must be {SCHEMA}")
    wire = _one_of(top, "wire", WIRES)
    chunk = top.integer("chunk", minimum=1)
    constants = top.table("constants", optional=True)
    profile = Profile(
        name=name,
        title=top.text("title"),
        wire=wire,
        simulators=top.texts("simulators"),
        source=top.text("source"),
        action_dim=top.integer("action_dim", minimum=1, maximum=LARGEST),
        chunk=chunk,
        replan=top.integer("replan", minimum=1, maximum=chunk),
        images=tuple(_image(table) for table in top.tables("images")),
        states=tuple(_state(table) for table in top.tables("states")),
        instruction=top.text("instruction"),
        actions=tuple(_action(table) for table in top.tables("actions")),
        constants={key: constants.text(key) for key in constants.names()},
    )
    top.finish()
    check(profile, where)
    return profile


_FOLDER = Path(__file__).parent / "profiles"


def _is_file(value: str) -> bool:
    return value.endswith(".toml") or "/" in value


def _names() -> set[str]:
    return {path.stem for path in _FOLDER.glob("*.toml")}


def _name(value: str, wire: str) -> str:
    for name in (value, f"{wire}-{value}"):
        if name in _names():
            return name
    raise UsageError(
        f"unknown profile {value!r}. Shipped for {wire}: {', '.join(shipped(wire)) or 'none'}; or"
        " the path of a .toml file of your own"
    )


def _one_of(table: Table, key: str, values: tuple[str, ...], default: str | None = None) -> str:
    value = table.text(key, default)
    if value not in values:
        raise UsageError(f"{table.where}: {key!r} must be one of {', '.join(values)}: {value!r}")
    return value


def _image(table: Table) -> ImageMap:
    key, camera = table.text("key"), table.text("camera")
    orientation = cast("Orientation", _one_of(table, "orientation", ORIENTATIONS))
    resize = cast("Resize", _one_of(table, "resize", RESIZES, "none"))
    size = None
    if "size" in table.names():
        height, width = _integers(table, "size", 2)
        size = (height, width)
    table.finish()
    if size is not None and min(size) < 1:
        raise UsageError(f"{table.where}: 'size' must be at least 1 x 1")
    if size is not None and max(size) > LARGEST:
        raise UsageError(f"{table.where}: 'size' must be at most {LARGEST} x {LARGEST}")
    if size is None and resize != "none":
        raise UsageError(f"{table.where}: 'resize' needs a 'size'")
    return ImageMap(key, camera, orientation, size, resize)


def _state(table: Table) -> StateMap:
    found = StateMap(
        table.text("key"),
        tuple(_part(text, table.where) for text in table.texts("parts")),
        _one_of(table, "dtype", DTYPES),
    )
    table.finish()
    return found


def _part(text: str, where: str) -> StatePart:
    match = _PART.fullmatch(text)
    width = QUANTITIES.get(match[1]) if match else None
    if match is None or width is None:
        raise UsageError(
            f"{where}: {text!r} is not like eef_pos, eef_pos[0] or eef_pos[0:2] of one of"
            f" {', '.join(QUANTITIES)}"
        )
    start = 0 if match[2] is None else int(match[2])
    stop = width if match[2] is None else start + 1 if match[3] is None else int(match[3])
    if not 0 <= start < stop <= width:
        raise UsageError(f"{where}: {text!r} is out of the {width} numbers of {match[1]}")
    return StatePart(match[1], start, stop)


def _action(table: Table) -> ActionMap:
    found = ActionMap(
        table.text("key"),
        _integers(table, "columns", below=LARGEST),
        _integers(table, "to", below=LARGEST),
        cast("Transform", _one_of(table, "transform", TRANSFORMS, "identity")),
        table.number("low"),
        table.number("high"),
    )
    table.finish()
    if len(found.columns) != len(found.to) or not found.low < found.high:
        raise UsageError(f"{table.where}: needs as many 'columns' as 'to', and 'low' below 'high'")
    return found


def _integers(
    table: Table, key: str, count: int | None = None, below: int | None = None
) -> tuple[int, ...]:
    value = table.raw(key)
    if (
        not isinstance(value, list)
        or not value
        or not all(type(v) is int and v >= 0 for v in value)
        or (count is not None and len(value) != count)
        or (below is not None and max(value) >= below)
    ):
        many = "whole numbers" if count is None else f"{count} whole numbers"
        many += "" if below is None else f" below {below}"
        raise UsageError(f"{table.where}: {key!r} must be a list of {many}, not {value!r}")
    return tuple(value)
