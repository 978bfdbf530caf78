"""Where the hand has room: rough solids of the hand against rough solids of the scene."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.scripted_grasps import FIXTURES, ROUND, category
from pytest_vla_shift.policies.scripted_world import World, hand_rotation

if TYPE_CHECKING:
    from pytest_vla_shift.policies.scripted_grasps import Grasp
    from pytest_vla_shift.protocol.observation import Vector

_SWEEP = (0.0, 0.05, 0.10, 0.15)
"""Metres back along the approach at which the hand is tried: it has to get there."""

RIM_OPENING = 0.046
"""Metres between the fingers when they come to a rim: wide open, they would not fit beside it."""

_TILTS = (0.0, 0.5)
"""Radians by which the hand may lean outwards over a rim."""


@functools.cache
def _hand_points() -> Vector:
    """(N, 3) points of wrist, palm and fingers in the hand's frame, grip site at the origin.

    The Panda's collision meshes: a palm 208 mm wide that ends 31 mm behind the grip site,
    fingers that reach 10 mm beyond it and are 27 mm thick, and behind the palm the wrist, which
    turns against the hand and is taken as round.
    """
    palm = itertools.product((-0.035, 0.0, 0.035), np.linspace(-0.104, 0.104, 7), (-0.031, -0.08))
    fingers = itertools.product((-0.012, 0.012), (-0.050, -0.023, 0.023, 0.050), (-0.02, 0.010))
    wrist = [
        (radius * math.cos(angle), radius * math.sin(angle), z)
        for radius, z in ((0.05, -0.13), (0.08, -0.18), (0.08, -0.23))
        for angle in np.arange(8) * math.pi / 4
    ]
    return np.array([*palm, *fingers, *wrist])


def rim_hold(world: World, name: str, grasp: Grasp) -> tuple[float, float]:
    """At which point of its rim to hold ``name``, and how far the hand leans outwards.

    Returns:
        The point's angle about the object's centre, in the world, and the lean, both radians.
    """
    if name in world.rims:
        return world.rims[name]
    best, cost = (0.0, 0.0), math.inf
    for hold, price in rim_prices(world, name, grasp).items():
        if price < cost - 1e-9:
            best, cost = hold, price
    return best


def rim_prices(world: World, name: str, grasp: Grasp) -> dict[tuple[float, float], float]:
    """What speaks against holding ``name`` at each of sixteen points, upright and leaning.

    That the hand hits something, turns, or reaches out: with the arm stretched, the elbow stops
    at its joint's limit and the hand no longer goes everywhere.
    """
    home = world.eef if world.home is None else world.home
    prices = {}
    for lean in _TILTS:
        for step in range(16):
            angle = math.pi * (step + 1) / 8 - math.pi
            position, hand = rim_pose(world, name, grasp, angle, lean)
            turn = math.acos(max(-1.0, min(1.0, (float(np.trace(hand.T @ world.hand)) - 1) / 2)))
            far = float(np.linalg.norm((position - home)[:2]))
            # fingers that lean reach down: not below what the object stands on
            deep = float((_hand_points() @ hand.T)[:, 2].min() + position[2])
            sunk = max(0.0, world.position(name)[2] - deep)
            crowded = 0.2 * hits(world, position, hand, ignore=name) + 100.0 * sunk
            prices[angle, lean] = turn + lean + 3.0 * far + crowded
    return prices


def slide(world: World, name: str, grasp: Grasp, position: Vector, hand: Vector) -> Vector:
    """By how much to move a grip across its closing line so that the hand hits least.

    Returns:
        (3,) metres, to be added to the grip site; zero where nothing is in the way.
    """
    across = hand[:, 0]
    steps = (0.0, 0.5, -0.5, 1.0, -1.0) if grasp.slide else (0.0,)
    offsets = [across * grasp.slide * step for step in steps]
    counts = [hits(world, position + offset, hand, ignore=name) for offset in offsets]
    return offsets[counts.index(min(counts))]


def rim_pose(
    world: World, name: str, grasp: Grasp, angle: float, lean: float
) -> tuple[Vector, Vector]:
    """The hand that holds ``name`` at one point of its rim: (grip site, rotation)."""
    out = np.array([math.cos(angle), math.sin(angle), 0.0])
    axis = world.rotation(name)[:, 2]  # a bowl may lean on the edge of a plate
    along = out - axis * float(out @ axis)
    along = along / max(float(np.linalg.norm(along)), 1e-6)
    position = world.position(name) + grasp.rim * along + grasp.point[2] * axis
    approach = -out * math.sin(lean) + np.array([0.0, 0.0, -math.cos(lean)])
    return position, hand_rotation(approach, out, world.hand)


def hits(world: World, position: Vector, hand: Vector, ignore: str) -> int:
    """How many points of the hand are inside something while it comes to a pose.

    Args:
        world: the present observation.
        position: (3,) grip site.
        hand: (3, 3) rotation.
        ignore: what it is about to hold.
    """
    back = [position - hand[:, 2] * distance for distance in _SWEEP]
    points = np.concatenate([_hand_points() @ hand.T + origin for origin in back])
    inside = np.zeros(len(points), dtype=bool)
    for name in world.names():
        kind = category(name)
        if name == ignore:
            continue
        if kind in ROUND:
            radius, low_z, high_z = ROUND[kind]
            offset = points - world.position(name)
            near = np.hypot(offset[:, 0], offset[:, 1]) < radius
            inside |= near & (offset[:, 2] > low_z) & (offset[:, 2] < high_z)
        for low, high, joint, along in FIXTURES.get(kind, ()):
            local = (points - world.position(name)) @ world.rotation(name)
            if joint:
                local = local - np.array(along) * world.joint(f"{name}_{joint}")
            inside |= ((local > low) & (local < high)).all(axis=1)
    return int(inside.sum())
