"""Motion primitives of the scripted expert: generators that yield one action at a time.

Every primitive closes the loop on the world position of the hand or of the object that it
holds, so a moved robot base or a slipped object is corrected, and every primitive has a limit
on its steps, so that nothing waits for ever. An action is (7,): OSC_POSE deltas in units of
0.05 m and 0.5 rad in the world frame, and the gripper, -1 open, +1 close, 0 as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.scripted_world import World, rotation_vector

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Vector

OPEN, HOLD, CLOSE = -1.0, 0.0, 1.0
METRES, RADIANS = 0.05, 0.5

Script = Generator["Vector", None, bool]
"""Yields actions; returns whether the primitive got where it was going."""


def action(
    world: World, position: Vector, hand: Vector, gripper: float, slow: float = 1.0
) -> Vector:
    """One action towards a pose, (7,) in [-1, 1]; straight, because the vector is scaled whole."""
    move = (position - world.eef) / METRES
    turn = rotation_vector(hand, world.hand) / RADIANS
    move = move * min(1.0, slow / max(float(np.abs(move).max()), 1e-9))
    turn = turn / max(float(np.abs(turn).max()), 1.0)
    return np.concatenate([move, turn, [gripper]])


def move(
    world: World,
    target: Callable[[], tuple[Vector, Vector]],
    gripper: float,
    *,
    tolerance: float = 0.01,
    turn_tolerance: float = 0.15,
    patience: int = 60,
    slow: float = 1.0,
    opening: float | None = None,
) -> Script:
    """Bring the hand to ``target()``, asked again at every step: (position, hand rotation).

    Args:
        world: the present observation.
        target: the pose to reach.
        gripper: the gripper's command meanwhile.
        tolerance: metres within which it has arrived.
        turn_tolerance: radians within which it has arrived.
        patience: steps after which it goes on anyway and returns False.
        slow: largest component of the motion, 1 for full speed.
        opening: metres to bring the fingers to instead of following ``gripper``.
    """
    for _ in range(patience):
        position, hand = target()
        gap = float(np.linalg.norm(position - world.eef))
        turn = float(np.linalg.norm(rotation_vector(hand, world.hand)))
        if gap < tolerance and turn < turn_tolerance:
            return True
        yield action(world, position, hand, preshape(world, gripper, opening), slow)
    return False


def over(
    world: World,
    target: Callable[[], tuple[Vector, Vector]],
    height: float,
    gripper: float,
    *,
    tolerance: float = 0.02,
    patience: int = 80,
    opening: float | None = None,
    lost: Callable[[], bool] = lambda: False,
) -> Script:
    """Travel to ``target()`` without passing below ``height`` (world z) while far from it.

    The way is up, across and down, with the corners cut: the lowest height allowed falls with
    the distance that is left. It ends, and returns False, as soon as ``lost()`` holds: a target
    that follows an object in the hand would lead anywhere once the object has dropped.
    """

    def waypoint() -> tuple[Vector, Vector]:
        position, hand = target()
        left = float(np.linalg.norm(position[:2] - world.eef[:2]))
        lowest = max(position[2], min(height, position[2] + max(left - 0.03, 0.0)))
        via = np.array([position[0], position[1], lowest])
        if world.eef[2] < lowest - 0.04:  # first up: across only as far as it has risen
            via[:2] = world.eef[:2] + (via[:2] - world.eef[:2]) * 0.1
        return via, hand

    def arrived() -> bool:
        position, _ = target()
        return float(np.linalg.norm(position - world.eef)) < tolerance

    for _ in range(patience):
        if lost():
            return False
        position, hand = waypoint()
        turn = float(np.linalg.norm(rotation_vector(hand, world.hand)))
        if arrived() and turn < 0.15:
            return True
        yield action(world, position, hand, preshape(world, gripper, opening))
    return False


def preshape(world: World, gripper: float, opening: float | None) -> float:
    """The command that brings the fingers to ``opening`` metres, or ``gripper`` if that is None.

    The gripper moves at a constant rate by the command's sign alone and stays at 0.
    """
    if opening is None:
        return gripper
    if abs(world.opening - opening) < 0.008:
        return HOLD
    return CLOSE if world.opening > opening else OPEN


def grip(world: World, gripper: float, *, steps: int = 10) -> Script:
    """Stay, and open or close until the fingers stand still."""
    position, hand = world.eef.copy(), world.hand.copy()
    before = world.opening
    for step in range(steps):
        yield action(world, position, hand, gripper)
        if step >= 2 and abs(world.opening - before) < 5e-4:
            return True
        before = world.opening
    return True


def shift(world: World, offset: Vector, gripper: float, *, patience: int = 25) -> Script:
    """Move by ``offset`` (world frame, metres) from here, the hand as it is."""
    position, hand = world.eef + offset, world.hand.copy()
    return (
        yield from move(world, lambda: (position, hand), gripper, tolerance=0.02, patience=patience)
    )
