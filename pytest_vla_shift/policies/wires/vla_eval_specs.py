"""What a vla-eval server declares of its actions and observations, against a profile.

A declaration is a map of names to ``{name, dims, format}``, with ``range`` and ``accepts`` in some
(vla_eval.specs). The format ``raw`` says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.agreement import Row
from pytest_vla_shift.policies.wires.protocol import WireError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.profile import ActionMap, Profile, Transform

MOST_SPECS = 100

GRIPPER = 6
"""The component of an action that moves the gripper, in LIBERO and in RoboCasa."""

GRIPPERS: Mapping[Transform, str] = {
    "sign": "binary_close_positive",
    "identity": "binary_close_positive",
    "half": "binary_close_01",
    "open01": "0 closes, 1 opens",
}

WIDTHS = {"position": 3, "rotation": 3, "gripper": 1, "base_motion": 4, "control_mode": 1}

FORMATS = {
    "position": "delta_xyz",
    "rotation": "axis_angle",
    "base_motion": "base_velocity3_torso1",
    "control_mode": "base_mode_01",
}

CALLS_THEM_EULER = ("GR00TModelServer",)
"""Servers that say Euler angles whatever their checkpoint gives. GR00T's LIBERO checkpoints call
the components of the rotation vector roll, pitch and yaw."""

STATES: Mapping[tuple[str, ...], str] = {
    ("eef_pos", "eef_axis_angle_short", "gripper_qpos"): "eef_pos3_axisangle3_gripper2",
    ("eef_pos", "eef_axis_angle_rounded", "gripper_qpos"): "eef_pos3_axisangle3_gripper2",
    ("eef_pos", "eef_axis_angle", "gripper_qpos"): "eef_pos3_axisangle3_gripper2",
}

PICTURE, WORDS, UNSAID = "rgb_hwc_uint8", "language", "raw"


@dataclass(frozen=True, slots=True)
class Spec:
    """One declaration.

    Attributes:
        dims: how many numbers; 0 for what is none or is not said.
        format: the convention's name.
        range: least and greatest, or None.
        accepts: formats that whoever declares it can convert.
    """

    dims: int
    format: str
    range: tuple[float, float] | None
    accepts: tuple[str, ...]

    def __str__(self) -> str:
        text = self.format if not self.dims else f"{self.format}, {_many(self.dims)}"
        return text if self.range is None else f"{text} in [{self.range[0]:g}, {self.range[1]:g}]"


def specs(hello: Mapping[str, object], key: str) -> dict[str, Spec]:
    """The declarations under ``key`` of a hello; none if it has none.

    Raises:
        WireError: they are nonsense.
    """
    declared = hello.get(key, {})
    if not isinstance(declared, Mapping) or len(declared) > MOST_SPECS:
        raise WireError(f"its {key} is no map of declarations: {declared!r:.200}")
    return {str(name): _spec(key, raw) for name, raw in declared.items()}


def action_rows(
    profile: Profile, declared: Mapping[str, Spec], gripper: Transform | None, server: str
) -> tuple[Profile, list[Row]]:
    """The profile with the gripper as declared or as the user says; and the comparison.

    Args:
        profile: to compare with.
        declared: the server's ``action_spec``.
        gripper: the user's word.
        server: the server's kind.
    """
    if gripper is not None:
        profile = _regripped(profile, gripper)
    elif "gripper" in declared and declared["gripper"].format == "binary_close_01":
        profile = _regripped(profile, "half")
    rows = [_action(profile, name, spec, server) for name, spec in declared.items()]
    return profile, rows


def observation_rows(profile: Profile, declared: Mapping[str, Spec]) -> list[Row]:
    """What the server says that it is given, against what it will be given."""
    pictures = [name for name, spec in declared.items() if spec.format == PICTURE]
    rows: list[Row] = []
    if pictures:
        rows.append(
            Row(
                "pictures",
                f"{len(pictures)}: {', '.join(pictures)}",
                f"{len(profile.images)}: {', '.join(i.key for i in profile.images) or 'none'}",
                len(pictures) <= len(profile.images),
            )
        )
    ours = {
        state.key: STATES.get(tuple(part.quantity for part in state.parts), "")
        for state in profile.states
    }
    for name, spec in declared.items():
        if spec.format in (PICTURE, WORDS):
            continue
        formats = [text for text in ours.values() if text]
        # A state that is declared raw and is not asked for is one that it can do without.
        fits = spec.format == UNSAID or any(
            text in (spec.accepts or (spec.format,)) for text in formats
        )
        rows.append(
            Row(
                f"observation {name}",
                str(spec),
                ", ".join(formats) or ", ".join(ours) or "no state is sent",
                fits,
            )
        )
    return rows


def declared_actions(profile: Profile) -> dict[str, object]:
    """``action_spec`` of a server of ours."""
    names = _parts(profile)
    if profile.action_dim != sum(WIDTHS[name] for name in names):
        return {"actions": {"name": "actions", "dims": profile.action_dim, "format": UNSAID}}
    return {
        name: {
            "name": name,
            "dims": WIDTHS[name],
            "format": GRIPPERS[_gripper(profile)] if name == "gripper" else FORMATS[name],
        }
        for name in names
    }


def declared_observations(profile: Profile) -> dict[str, object]:
    """``observation_spec`` of a server of ours."""
    declared: dict[str, object] = {"language": {"name": "language", "dims": 0, "format": WORDS}}
    for image in profile.images:
        name = image.key.rpartition("/")[2]
        declared[name] = {"name": "image", "dims": 0, "format": PICTURE}
    for state in profile.states:
        text = STATES.get(tuple(part.quantity for part in state.parts))
        if text is not None and state.key == "states":
            declared["state"] = {"name": "state", "dims": state.width, "format": text}
    return declared


def _action(profile: Profile, name: str, spec: Spec, server: str) -> Row:
    if name in WIDTHS and name not in _parts(profile):
        return Row(f"action {name}", str(spec), "not there", fits=False)
    width = WIDTHS.get(name, profile.action_dim)
    convention = FORMATS.get(name, "")
    if name == "gripper":
        convention = GRIPPERS[_gripper(profile)]
    formats = [UNSAID, convention]
    if name == "rotation" and server in CALLS_THEM_EULER:
        formats.append("euler_xyz")
    ours = f"{convention}, {_many(width)}" if convention else _many(width)
    fits = spec.format in formats and spec.dims in (0, width)
    if name == "gripper" and spec.format == "continuous_01":
        # The name leaves open which end closes, so that the user has to say.
        fits = _gripper(profile) in ("open01", "half") and spec.dims in (0, width)
        if not fits:
            ours += (
                ". Let the server turn it (groot: invert_gripper: true), or say"
                " --vla-policy-arg=gripper=open01 if its 1 opens, half if it closes"
            )
    if name == "position" and spec.range is not None:
        low = min(part.low for part in profile.actions if 0 in part.to)
        high = max(part.high for part in profile.actions if 0 in part.to)
        ours += f" in [{low:g}, {high:g}]"
        fits = fits and low <= spec.range[0] and spec.range[1] <= high
    return Row(f"action {name}", str(spec), ours, fits)


def _many(count: int) -> str:
    return "1 number" if count == 1 else f"{count} numbers"


def _parts(profile: Profile) -> list[str]:
    """Of an arm's action; of a mobile manipulator's."""
    return list(WIDTHS) if profile.action_dim == sum(WIDTHS.values()) else list(WIDTHS)[:3]


def _gripper(profile: Profile) -> Transform:
    return next((part.transform for part in profile.actions if GRIPPER in part.to), "identity")


def _regripped(profile: Profile, transform: Transform) -> Profile:
    return replace(
        profile,
        actions=tuple(
            _gripping(part, transform) if part.to == (GRIPPER,) else part
            for part in profile.actions
        ),
    )


def _gripping(part: ActionMap, transform: Transform) -> ActionMap:
    low = -1.0 if transform in ("sign", "identity") else 0.0
    return replace(part, transform=transform, low=low, high=1.0)


def _spec(key: str, raw: object) -> Spec:
    if not isinstance(raw, Mapping):
        raise WireError(f"a declaration of its {key} is no map: {raw!r:.200}")
    dims, form = raw.get("dims"), raw.get("format")
    limits, accepts = raw.get("range"), raw.get("accepts", [])
    if (
        type(dims) is not int
        or not isinstance(form, str)
        or not isinstance(accepts, list)
        or not (limits is None or _is_range(limits))
    ):
        raise WireError(f"a declaration of its {key} is malformed: {raw!r:.200}")
    return Spec(
        dims,
        form,
        None if limits is None else (float(limits[0]), float(limits[1])),
        tuple(str(text) for text in accepts),
    )


def _is_range(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(number) in (int, float) for number in value)
    )
