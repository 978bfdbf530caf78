"""What a vla-eval server's hello asks for, against a profile; and profiles' keys as nested maps.

vla-eval's own harness starts its benchmark with the server's ``observation_params`` as far as the
evaluation's own configuration does not say otherwise, and warns where ``action_spec`` or
``observation_spec`` differ from the benchmark's. Here what differs is refused, and what the user
says wins in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.agreement import Row
from pytest_vla_shift.policies.profile import MappingError
from pytest_vla_shift.policies.wires.protocol import WireError
from pytest_vla_shift.policies.wires.vla_eval_specs import (
    MOST_SPECS,
    action_rows,
    observation_rows,
    specs,
)
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.profile import ImageMap, Profile, StateMap, Transform

WRIST, STATE, LONG = "send_wrist_image", "send_state", "quat_no_antipodal"

GOVERNED: Mapping[str, str] = {"images/wrist": WRIST, "states": STATE, "controller_states": STATE}
"""Keys of a profile -> which parameter decides whether they are sent."""

SHORT_TO_LONG = {"eef_axis_angle_short": "eef_axis_angle_rounded"}

TAKES_WRIST_UNASKED = ("GR00TModelServer",)
"""Servers that do not ask for the wrist's picture and fill a black one in where it is missing."""

ELSEWHERE = ("max_episode_steps", "success_mode", "deterministic_episodes", "ep_len")
"""Parameters of other benchmarks than LIBERO and RoboCasa."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the user says, and the server then does not decide.

    Attributes:
        send_wrist_image, send_state, quat_no_antipodal: as in vla-eval's configurations; None for
            what the server asks for.
        gripper: how the gripper's number is read; None for what the server declares.
        overrule: items of the comparison that count as fitting whatever the server declares.
        trial_suite: which suite the trial before the first episode is announced as.
    """

    send_wrist_image: bool | None = None
    send_state: bool | None = None
    quat_no_antipodal: bool | None = None
    gripper: Transform | None = None
    overrule: tuple[str, ...] = ()
    trial_suite: str | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What comes of it.

    Attributes:
        profile: as the server wants it.
        rows: what could be compared.
        warnings: what the user should know and that refuses nothing.
    """

    profile: Profile
    rows: tuple[Row, ...]
    warnings: tuple[str, ...]


def terms(profile: Profile, hello: Mapping[str, object], said: Said) -> Terms:
    """The profile as a server's hello and the user want it.

    Args:
        profile: the user's.
        hello: payload of the server's hello.
        said: what the user says.

    Raises:
        WireError: the hello is nonsense.
        UsageError: ``said.overrule`` names what is not compared.
    """
    params = hello.get("observation_params", {})
    if not isinstance(params, Mapping) or len(params) > MOST_SPECS:
        raise WireError(f"its observation_params are no map of parameters: {params!r:.200}")
    server = str(hello.get("model_server", ""))
    seen, given = specs(hello, "observation_spec"), specs(hello, "action_spec")
    pictures = sum(spec.format == "rgb_hwc_uint8" for spec in seen.values())
    state = any(spec.format == "eef_pos3_axisangle3_gripper2" for spec in seen.values())
    unasked = {WRIST: pictures > 1 or server in TAKES_WRIST_UNASKED, STATE: state, LONG: False}
    wanted = {name: _wanted(name, params, said, unasked[name]) for name in (WRIST, STATE, LONG)}

    fitted = _angles(profile, params, said, wanted[LONG])
    fitted = replace(
        fitted,
        images=tuple(i for i in fitted.images if wanted.get(GOVERNED.get(i.key, ""), True)),
        states=tuple(s for s in fitted.states if wanted.get(GOVERNED.get(s.key, ""), True)),
    )
    rows = [_sent(name, params, profile, fitted) for name in (WRIST, STATE)]
    rows.append(_angle_row(params, fitted))
    found, warnings = _others(params)
    rows += found
    fitted, found = action_rows(fitted, given, said.gripper, server)
    rows += found
    rows += observation_rows(fitted, seen)
    if server == "GR00TModelServer" and any(
        s.key == "states" and s.width == 8 for s in fitted.states
    ):
        warnings.append(
            "vla-eval's GR00T server (0.8.0) takes any state of 8 numbers for SimplerEnv's: it"
            " moves the fourth behind the seventh and inverts the last, which makes nonsense of"
            " LIBERO's. --vla-policy=gr00t talks to GR00T's own server instead"
        )
    return Terms(fitted, _overruled(rows, said.overrule), tuple(warnings))


def nested(payload: Mapping[str, object]) -> dict[str, object]:
    """``{"images/wrist": x}`` as ``{"images": {"wrist": x}}``; the order stays.

    Raises:
        MappingError: a key is a map and a value at once.
    """
    whole: dict[str, object] = {}
    for key, value in payload.items():
        *path, last = key.split("/")
        into = whole
        for name in path:
            below = into.setdefault(name, {})
            if not isinstance(below, dict):
                raise MappingError(f"{key!r} lies within {name!r}, which is sent itself")
            into = below
        if last in into:
            raise MappingError(f"{key!r} is sent, and something within it")
        into[last] = value
    return whole


def flat(profile: Profile, payload: Mapping[str, object]) -> dict[str, NDArray[np.generic] | str]:
    """What ``payload`` has of the keys of ``profile``: the inverse of :func:`nested`."""
    import numpy as np

    found: dict[str, NDArray[np.generic] | str] = {}
    keys = [image.key for image in profile.images] + [state.key for state in profile.states]
    for key in [*keys, profile.instruction]:
        value: object = payload
        for name in key.split("/"):
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, np.ndarray | str):
            found[key] = value
    return found


def _wanted(name: str, params: Mapping[str, object], said: Said, unasked: bool) -> bool:
    user = getattr(said, name)
    if user is not None:
        return bool(user)
    if name not in params:
        return unasked
    return _truth(name, params[name])


def _truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise WireError(f"its {name} is {value!r:.100}, neither true nor false")
    return value


def _angles(profile: Profile, params: Mapping[str, object], said: Said, to_two_pi: bool) -> Profile:
    """The rotation vectors of ``states`` as asked for; as the profile has them if nobody asks."""
    if said.quat_no_antipodal is None and LONG not in params:
        return profile
    change = SHORT_TO_LONG if to_two_pi else {v: k for k, v in SHORT_TO_LONG.items()}
    return replace(
        profile,
        states=tuple(
            _renamed(state, change) if state.key == "states" else state for state in profile.states
        ),
    )


def _renamed(state: StateMap, change: Mapping[str, str]) -> StateMap:
    return replace(
        state,
        parts=tuple(
            replace(part, quantity=change.get(part.quantity, part.quantity)) for part in state.parts
        ),
    )


def _sent(name: str, params: Mapping[str, object], before: Profile, after: Profile) -> Row:
    what = "picture of the wrist" if name == WRIST else "state"
    asked = f"{name}: {_word(params, name)}"
    if name == WRIST:
        there, known = any(map(_of_wrist, after.images)), any(map(_of_wrist, before.images))
    else:
        there, known = bool(after.states), bool(before.states)
    ours = "sent" if there else "not sent" if known else "not in the profile"
    return Row(what, asked, ours, known or params.get(name) is not True)


def _of_wrist(image: ImageMap) -> bool:
    """By the wire's name, which is what is governed; or else by what robosuite calls the camera."""
    return GOVERNED.get(image.key) == WRIST or image.camera.endswith("eye_in_hand")


def _angle_row(params: Mapping[str, object], profile: Profile) -> Row:
    kinds = sorted(
        {
            part.quantity
            for state in profile.states
            for part in state.parts
            if state.key == "states" and "axis_angle" in part.quantity
        }
    )
    return Row(
        "rotation in states",
        f"{LONG}: {_word(params, LONG)}",
        ", ".join(kinds) or "none",
        fits=True,
    )


def _others(params: Mapping[str, object]) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    warnings: list[str] = []
    for name, value in params.items():
        text = f"{value!r:.100}"
        if name in (WRIST, STATE, LONG):
            continue
        if name == "absolute_action":
            absolute = _truth(name, value)
            rows.append(
                Row(
                    name,
                    "poses in the world" if absolute else "changes of the pose",
                    "changes of the pose: a checkpoint that gives those can be run",
                    not absolute,
                )
            )
        elif name in ("seed", "env_seed"):
            rows.append(Row(name, text, "the suite's env_seed", fits=True))
            warnings.append(
                f"the server asks for {name} {text}: what counts here is the suite's env_seed"
            )
        elif name == "max_steps":
            rows.append(Row(name, text, "the suite's horizon", fits=True))
            warnings.append(f"the server asks for {name} {text}: the suite's horizon counts here")
        elif name == "send_video_history":
            rows.append(Row(name, text, "the present pictures alone", not _truth(name, value)))
        elif name == "control_mode":
            rows.append(Row(name, text, "another benchmark's", fits=False))
        elif name in ELSEWHERE:
            rows.append(Row(name, text, "another benchmark's: nothing is done", fits=True))
        else:
            rows.append(Row(name, text, "not known: nothing is done", fits=True))
            warnings.append(f"the server asks for {name} {text}, which is not known here")
    return rows, warnings


def _word(params: Mapping[str, object], name: str) -> str:
    return str(params[name]).lower() if name in params else "not said"


def _overruled(rows: Iterable[Row], items: tuple[str, ...]) -> tuple[Row, ...]:
    listed = list(rows)
    unknown = [item for item in items if item not in {row.item for row in listed}]
    if unknown:
        raise UsageError(
            f"--vla-policy-arg=overrule: nothing is compared that is called {unknown[0]!r}, but"
            f" {', '.join(row.item for row in listed)}"
        )
    return tuple(
        replace(row, ours=f"{row.ours} (overruled)", fits=True)
        if row.item in items and not row.fits
        else row
        for row in listed
    )
