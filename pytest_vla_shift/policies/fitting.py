"""A profile against a suite and its simulator, item by item: the rows of the contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.agreement import Row
from pytest_vla_shift.policies.profile import QUANTITIES
from pytest_vla_shift.policies.quantities import source_of

if TYPE_CHECKING:
    from pytest_vla_shift.policies.agreement import SimulatorSide
    from pytest_vla_shift.policies.profile import (
        ActionMap,
        ImageMap,
        Profile,
        StateMap,
        StatePart,
    )

ORIENTATION = {
    "upright": "upright",
    "mirrored": "left and right swapped",
    "rotate_180": "rotated by 180 degrees",
}

RESIZE = {
    "none": "",
    "pad": ", resized and padded",
    "stretch": ", stretched",
    "openvla": ", made smaller and cropped as OpenVLA's evaluation does",
}

TRANSFORM = {
    "identity": "as it is",
    "sign": "below 0: -1, else +1",
    "open01": "1 opens, 0 closes",
    "half": "below 0.5: -1, else +1",
}

ANGLE = {
    "eef_axis_angle": "angle to 2 pi",
    "eef_axis_angle_rounded": "angle to 2 pi, float32",
    "eef_axis_angle_short": "angle to pi",
    "controller_axis_angle_short": "angle to pi",
}


def profile_rows(profile: Profile, side: SimulatorSide, replan: int | None = None) -> list[Row]:
    """Every item of ``profile`` that a suite and its simulator have a say in.

    Args:
        profile: as the policy's server wants it.
        side: of the suite and its simulator.
        replan: how many actions are executed, if that is not the profile's number.
    """
    rows = [_simulator(profile, side)]
    rows += [_image(image, side) for image in profile.images]
    rows += [_state(state, side) for state in profile.states]
    rows.append(
        Row(
            "action",
            numbers(profile.action_dim),
            numbers(side.action_dim),
            profile.action_dim == side.action_dim,
        )
    )
    rows += [_action(part, side) for part in profile.actions]
    executed = profile.replan if replan is None else replan
    rows.append(Row("chunk", f"{executed} actions a decision", "any number", fits=True))
    return rows


def span(numbers: Iterable[int]) -> str:
    """``0 to 2``, ``0`` or ``0, 2, 1``."""
    listed = list(numbers)
    if len(listed) > 1 and listed == list(range(listed[0], listed[-1] + 1)):
        return f"{listed[0]} to {listed[-1]}"
    return ", ".join(map(str, listed))


def part_text(part: StatePart) -> str:
    """``eef_pos``, or ``eef_pos[0:2]`` of something that is wider; with its convention."""
    text = part.quantity
    if part.stop - part.start == 1:
        text += f"[{part.start}]"
    elif part.stop - part.start < QUANTITIES[part.quantity]:
        text += f"[{part.start}:{part.stop}]"
    note = ANGLE.get(part.quantity)
    return text if note is None else f"{text} ({note})"


def state_text(state: StateMap) -> str:
    """``float32, 8 numbers: eef_pos, ...``."""
    return f"{state.dtype}, {numbers(state.width)}: {parts_text(state)}"


def parts_text(state: StateMap) -> str:
    """What it is made of: ``eef_pos, gripper_qpos[0]``."""
    return ", ".join(part_text(part) for part in state.parts)


def numbers(count: int) -> str:
    """``1 number``, ``8 numbers``."""
    return "1 number" if count == 1 else f"{count} numbers"


def action_text(part: ActionMap) -> str:
    """``column 0 in [-1, 1]``, with what becomes of it."""
    columns = f"column{'s' * (len(part.columns) > 1)} {span(part.columns)}"
    how = "" if part.transform == "identity" else f", {TRANSFORM[part.transform]}"
    return f"{columns} in [{part.low:g}, {part.high:g}]{how}"


def image_text(image: ImageMap) -> str:
    """``256 x 256 uint8 RGB, left and right swapped``."""
    size = "any size" if image.size is None else f"{image.size[0]} x {image.size[1]}"
    resize = RESIZE[image.resize]
    return f"{size} uint8 RGB, {ORIENTATION[image.orientation]}{resize}"


def _simulator(profile: Profile, side: SimulatorSide) -> Row:
    names = profile.simulators
    return Row("simulator", ", ".join(names), side.simulator, side.simulator in names)


def _image(image: ImageMap, side: SimulatorSide) -> Row:
    has = (side.height, side.width)
    ours = f"{image.camera} {has[0]} x {has[1]} uint8 RGB, upright"
    if image.camera not in side.cameras:
        ours = f"no {image.camera}; has {', '.join(side.cameras) or 'none'}"
    return Row(
        f"image {image.key}",
        f"{image.camera} {image_text(image)}",
        ours,
        image.camera in side.cameras and (image.size in (None, has) or image.resize != "none"),
    )


def _state(state: StateMap, side: SimulatorSide) -> Row:
    sources = list(dict.fromkeys(source_of(part.quantity) for part in state.parts))
    if not side.proprio:
        return Row(f"state {state.key}", state_text(state), "does not say", fits=True)
    absent = [source for source in sources if source not in side.proprio]
    ours = f"float64 {', '.join(sources)}"
    if absent:
        ours = f"no {', '.join(absent)}; has {', '.join(side.proprio)}"
    return Row(f"state {state.key}", state_text(state), ours, not absent)


def _action(part: ActionMap, side: SimulatorSide) -> Row:
    low, high = side.action_low, side.action_high
    item = f"action {part.key}"
    if max(part.to) >= side.action_dim:
        return Row(item, f"{action_text(part)}, to {span(part.to)}", "not there", fits=False)
    ours = f"{side.meaning(part.to)} ({span(part.to)}) in [{low:g}, {high:g}]"
    fits = True
    if part.transform == "identity":
        # What leaves the range is clipped in silence; what stays far within is in other units.
        fits = (part.low, part.high) == (low, high)
    if side.settle_action and side.meaning(part.to) == "gripper":
        opens = side.settle_action[part.to[0]]
        ours += f", {opens:+g} opens"
        if part.transform == "open01":
            fits = opens == -1.0
    return Row(item, action_text(part), ours, fits)
