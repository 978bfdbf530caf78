"""From a goal predicate to a plan: pick and place, drawers, the stove, pushing.

A plan is a generator of actions that ends when it believes that it is done or has lost its
object; the policy then starts it again from what it sees, until the rollout is over.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.scripted_grasps import (
    GRASPS,
    HANDLES,
    KNOB,
    KNOB_ON,
    Grasp,
    category,
)
from pytest_vla_shift.policies.scripted_room import RIM_OPENING, rim_hold, rim_pose, slide
from pytest_vla_shift.policies.scripted_skills import (
    CLOSE,
    HOLD,
    OPEN,
    Script,
    action,
    grip,
    move,
    over,
    shift,
)
from pytest_vla_shift.policies.scripted_world import DOWN, World, hand_rotation

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vla_shift.protocol.observation import Vector

_DOWN = np.array(DOWN)
_UP = -_DOWN
DRAWER = re.compile(r"(.*)_(top|middle|bottom)_region")


def plan(world: World, predicate: tuple[str, ...], instruction: str) -> Script:
    """The plan for one goal predicate, for example ``("on", "bowl_1", "plate_1")``."""
    name, *arguments = predicate
    if name in ("on", "in") and len(arguments) == 2:
        if instruction.lower().startswith("push"):
            return push(world, arguments[0], arguments[1])
        return pick_and_place(world, arguments[0], arguments[1])
    if name == "open" and len(arguments) == 1:
        return open_drawer(world, arguments[0])
    if name == "turnon" and len(arguments) == 1:
        return turn_on(world, arguments[0])
    return nothing(world)


def nothing(world: World) -> Script:
    """Stay where it is."""
    world.note = "nothing to do"
    position, hand = world.eef.copy(), world.hand.copy()
    yield action(world, position, hand, HOLD)
    return False


def grasp_pose(world: World, name: str, grasp: Grasp) -> tuple[Vector, Vector]:
    """Where the hand holds ``name`` from above, not at a rim: (grip site, hand rotation)."""
    position = world.point(name, np.array(grasp.point, dtype=np.float64))
    closing = np.array([0.0, 1.0, 0.0])
    body = world.rotation(name)
    up = body @ np.array(grasp.up)
    if abs(up[2]) < 0.7:  # it has fallen over: across its length
        closing = np.cross(up, _UP)
    elif grasp.closing:
        lines = [body @ np.array(line, dtype=np.float64) for line in grasp.closing]
        closing = next((line for line in lines if abs(line[2]) < 0.5), lines[0])
    return position, hand_rotation(_DOWN, closing, world.hand)


def holding(world: World, name: str, grasp: Grasp) -> Callable[[], tuple[Vector, Vector]]:
    """Where the hand will hold ``name``: chosen now, and followed as the object moves."""
    if grasp.rim:
        angle, lean = rim_hold(world, name, grasp)
        return lambda: rim_pose(world, name, grasp, angle, lean)
    aside = slide(world, name, grasp, *grasp_pose(world, name, grasp))

    def hold() -> tuple[Vector, Vector]:
        position, hand = grasp_pose(world, name, grasp)
        return position + aside, hand

    return hold


def approach_and_grip(world: World, name: str, grasp: Grasp) -> Script:
    """Come to ``name`` from above and close the fingers on it."""
    hold = holding(world, name, grasp)

    def hover() -> tuple[Vector, Vector]:
        position, hand = hold()
        return position - hand[:, 2] * 0.09, hand

    width = RIM_OPENING if grasp.rim else None
    world.note = f"over {name}"
    yield from over(world, hover, 0.0, OPEN, tolerance=0.008, opening=width)
    world.note = f"down to {name}"
    yield from move(world, hold, OPEN, tolerance=0.006, patience=30, opening=width)
    world.note = f"grip {name}"
    return (yield from grip(world, CLOSE))


def pick(world: World, name: str) -> Script:
    """Grasp ``name`` from above and lift it a little. False if it did not come along."""
    yield from approach_and_grip(world, name, GRASPS.get(category(name), Grasp((0, 0, 0))))
    before = world.position(name)[2]
    world.note = f"lift {name}"
    yield from shift(world, -world.hand[:, 2] * 0.08, CLOSE)
    if world.position(name)[2] > before + 0.02:
        return True
    world.note = f"missed {name}"
    yield from grip(world, OPEN)
    return False


def place(world: World, name: str, target: Vector, height: float, cruise: float) -> Script:
    """Carry ``name`` so that its origin is at ``target``, then let go.

    Args:
        world: the present observation.
        name: the object in the hand.
        target: (3,) where its origin shall be released.
        height: metres of free way above the target while coming down.
        cruise: lowest world z of its origin while it is carried far from the target.
    """
    hand = world.hand.copy()
    held = world.position(name) - world.eef

    def slipped() -> bool:
        return float(np.linalg.norm(world.position(name) - world.eef - held)) > 0.05

    def hand_for(point: Vector) -> tuple[Vector, Vector]:
        return world.eef + (point - world.position(name)), hand

    up = np.array([0, 0, height])
    world.note = f"carry {name}"
    rise = cruise + world.eef[2] - world.position(name)[2]
    above = target + up
    yield from over(world, lambda: hand_for(above), rise, CLOSE, tolerance=0.015, lost=slipped)
    if slipped():
        world.note = f"dropped {name}"
        yield from grip(world, OPEN)
        return False
    world.note = f"lower {name}"
    yield from move(world, lambda: hand_for(target), CLOSE, tolerance=0.01, patience=20)
    world.note = f"release {name}"
    yield from grip(world, OPEN)
    world.note = f"leave {name}"
    yield from shift(world, np.array([0, 0, 0.12]), OPEN, patience=15)
    return True


def pick_and_place(world: World, name: str, target: str) -> Script:
    """``(on name target)`` or ``(in name target)``."""
    drawer = DRAWER.fullmatch(target)
    opened = drawer is not None and f"{drawer[1]}_{drawer[2]}_level" in world.joints()
    if opened and drawer is not None:
        yield from open_drawer(world, target)
    if not (yield from pick(world, name)):
        return False
    if opened and drawer is not None:  # it may stand under the open drawer
        pull = world.rotation(drawer[1]) @ np.array(HANDLES[f"{drawer[2]}_region"].pull)
        yield from shift(world, pull * 0.12, CLOSE)
    grasp = GRASPS.get(category(name), Grasp((0, 0, 0)))
    spot, height = release_point(world, target, grasp)
    cruise = max(spot[2] + height, float(world.position(name)[2]))
    return (yield from place(world, name, spot, height, cruise))


def release_point(world: World, target: str, grasp: Grasp) -> tuple[Vector, float]:
    """Where the origin of what is carried is let go over ``target``, and the free way above."""
    spot = world.position(target).copy()
    if target.endswith("contain_region"):
        # over the basket's walls (0.14 m): the fingers need not go in
        spot[2] += 0.04 + grasp.bottom
        return spot, 0.08
    if category(target) == "plate":
        spot[2] += 0.010 + grasp.bottom
    elif category(target) == "akita_black_bowl":
        spot[2] += 0.035 + grasp.bottom
    elif target.endswith("cook_region"):
        spot[2] += 0.03 + grasp.bottom
    elif target.endswith("top_side"):
        spot[2] += 0.006 + grasp.bottom
    elif target.startswith("wine_rack"):
        spot += np.array([0, 0, 0.02])
    else:  # a drawer: over its front, 0.03 m above the region's middle
        spot[2] += grasp.bottom - 0.02
        return spot, 0.10
    return spot, 0.06


def open_drawer(world: World, region: str) -> Script:
    """Pull the drawer of ``<cabinet>_<level>_region`` by its handle."""
    level = "_".join(region.rsplit("_", 2)[-2:])
    cabinet = region[: -len(level) - 1]
    handle = HANDLES[level]
    joint = f"{cabinet}_{handle.joint}"
    if world.joint(joint) <= handle.open_at:
        return True
    body = world.rotation(cabinet)
    pull = body @ np.array(handle.pull)
    tilt = math.radians(70)
    approach = -pull * math.sin(tilt) + _DOWN * math.cos(tilt)
    closing = _UP * math.sin(tilt) - pull * math.cos(tilt)
    hand = hand_rotation(approach, closing, world.hand)

    def bar(back: float) -> Vector:
        slid = np.array(handle.point) - np.array(handle.pull) * world.joint(joint)
        at: Vector = world.point(cabinet, slid) - approach * back
        return at

    world.note = f"before {joint}"
    yield from move(world, lambda: (bar(0.12), hand), OPEN, tolerance=0.02, patience=60)
    world.note = f"at {joint}"
    yield from move(world, lambda: (bar(0.0), hand), OPEN, tolerance=0.008, patience=25)
    world.note = f"grip {joint}"
    yield from grip(world, CLOSE)
    world.note = f"pull {joint}"
    for _ in range(60):
        if world.joint(joint) <= handle.open_at:
            break
        yield action(world, bar(0.0) + pull * 0.05, hand, CLOSE)
    world.note = f"leave {joint}"
    yield from grip(world, OPEN)
    yield from shift(world, -approach * 0.08, OPEN, patience=15)
    return world.joint(joint) <= handle.open_at


def turn_on(world: World, stove: str) -> Script:
    """Hold the stove's knob by its ridge and turn it."""
    body = world.rotation(stove)

    def at(height: float, angle: float) -> tuple[Vector, Vector]:
        across = body @ np.array([-math.sin(angle), math.cos(angle), 0.0])
        point = world.point(stove, np.array(KNOB)) + np.array([0, 0, height])
        return point, hand_rotation(_DOWN, across, world.hand)

    angle = world.joint(f"{stove}_button")
    world.note = f"over {stove}"
    yield from over(world, lambda: at(0.10, angle), world.position(stove)[2] + 0.2, OPEN)
    world.note = f"down to {stove}"
    yield from move(world, lambda: at(0.0, angle), OPEN, tolerance=0.008, patience=30)
    world.note = f"grip {stove}"
    yield from grip(world, CLOSE)
    world.note = f"turn {stove}"
    for _ in range(30):
        now = world.joint(f"{stove}_button")
        if now >= KNOB_ON:
            break
        position, hand = at(0.0, now + 0.4)
        yield action(world, position, hand, CLOSE)
    world.note = f"leave {stove}"
    yield from grip(world, OPEN)
    yield from shift(world, np.array([0, 0, 0.1]), OPEN)
    return True


def push(world: World, name: str, target: str) -> Script:
    """Slide ``name`` over the table to ``target``, held at its rim and not lifted."""
    grasp = GRASPS.get(category(name), Grasp((0, 0, 0)))
    yield from approach_and_grip(world, name, grasp)
    hand = world.hand.copy()
    world.note = f"push {name}"

    def there() -> tuple[Vector, Vector]:
        to_go = (world.position(target) - world.position(name)) * np.array([1, 1, 0])
        return world.eef + to_go, hand

    yield from move(world, there, CLOSE, tolerance=0.01, patience=80, slow=0.8)
    world.note = f"leave {name}"
    yield from grip(world, OPEN)
    yield from shift(world, np.array([0, 0, 0.1]), OPEN)
    return True
