"""Writes the shipped presets of LIBERO-CTRL: ten directions an axis.

Run it to see that the file in the package, protocol/presets/libero_ctrl.toml, is what this script
writes: ``python -m scripts.libero_ctrl_presets | diff - FILE``.

The paper fixes the radius of each level and says that "the ten perturbation presets differ in
direction"; it prints none. Ours are arrangements whose smallest angle is known, each turned or
shuffled by a documented seed:

* camera and lighting (5 coordinates of both signs): five perpendicular axes, each in both senses,
  turned at random (uniformly over rotations), 90 degrees. More than six points in five dimensions
  cannot all be further apart than that.
* robot pose (6 coordinates of both signs): six perpendicular axes, four of them in both senses, 90
  degrees. The other two lead up, and the four are nearly level: what stands on LIBERO's tables
  reaches up to the hand, and presets that go down at L3 touch something in one task or another.
* sensor (4 coordinates that cannot be negative): each alone and each pair in equal parts, 45
  degrees.
* actuation (gain of both signs, 4 coordinates that cannot be negative): each pair of those four in
  equal parts, and each of them with gain, up or down in turn, 60 degrees. Every coordinate is in
  four presets.
* directions in space that are no part of the severity (a bias's, a misalignment's axis): the
  corners of a bicapped square antiprism, turned at random, 65.5 degrees. Motion blur's angle: 0 to
  162 degrees in steps of 18, shuffled.
* language: paraphrase j.

The seeds of the turned arrangements are the smallest that keep every preset from being nearly one
coordinate alone (:data:`LARGEST`), and with which every configuration can be posed at L3: for the
camera that is :data:`STEEPEST`; for the robot pose, that in none of the 400 configurations any part
of the arm comes within 1 cm of anything, before or after the objects have settled, or is hit by
what settles (in LIBERO's living rooms things first spring up from the table). The camera and
lighting have five coordinates each and so the same list of seeds; they take different ones.
benchmarks/libero_ctrl_feasibility.py poses them all.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.shifts.actuation import AXIS, BIAS, Actuation
from pytest_vla_shift.shifts.camera_pose import CameraPose
from pytest_vla_shift.shifts.lighting import Lighting
from pytest_vla_shift.shifts.robot_pose import RobotPose
from pytest_vla_shift.shifts.sensor import ANGLE, Sensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Points = NDArray[np.float64]
    Preset = dict[str, float]

COUNT = 10
DECIMALS = 9

SEEDS = {
    "camera": 21,
    "lighting": 2,
    "robot_pose": 153,
    "sensor": 0,
    "actuation": 0,
    "bias": 0,
    "misalignment": 1,
    "motion": 0,
}
"""Of NumPy's PCG64. Changing one makes another protocol."""

HEADER = """\
# LIBERO-CTRL's presets, frozen: the j-th preset of an axis, from 0, goes with a task's j-th
# configuration at every level, so that levels share a direction. Unit vectors over an axis's
# normalised coordinates; sensor's motion_angle_deg, and actuation's bias_* and axis_* (unit vectors
# in space), are no part of the severity. scripts/libero_ctrl_presets.py writes this file and says
# how the presets are spread; a test compares.
"""

LARGEST = 0.8
"""The most of a turned preset that may lie in one coordinate: 0.64 of its squared severity."""

STEEPEST = 0.6
"""The most of a camera preset that may lie in elevation: 22.9 degrees at L3. LIBERO's flattest
camera stands at 31.9 degrees, so that a full step down of 38.2 would bring it below the floor."""


LEVEL = 0.1
"""The most of a robot preset's radius by which it may go down: 2.1 cm at L3."""


def cross_polytope(dimensions: int, seed: int) -> Points:
    """(10, D) unit vectors: five perpendicular axes in both senses, turned and shuffled.

    The Q of a matrix of standard normals, with the signs that make it unique, is uniform over
    rotations and reflections.
    """
    rng = np.random.default_rng(seed)
    q, r = np.linalg.qr(rng.standard_normal((dimensions, dimensions)))
    axes = (q * np.sign(np.diag(r))).T[: COUNT // 2]
    return rng.permutation(np.concatenate([axes, -axes]))


def hand_frame(seed: int) -> Points:
    """(10, 6) unit vectors over x, y, z, rx, ry, rz: six perpendicular axes, turned at random.

    Two of its axes lead up, in one sense only; the other four, in both senses, are nearly level
    (:data:`LEVEL`). No two are nearer than 90 degrees.
    """
    rng = np.random.default_rng(seed)
    heights = rng.uniform(-LEVEL, LEVEL, 4)
    up = np.sqrt(0.5 * (1.0 - heights @ heights))
    columns = np.column_stack([[up, up, *heights], rng.standard_normal((6, 5))])
    q, r = np.linalg.qr(columns)
    z, x, y, rx, ry, rz = (q * np.sign(np.diag(r))).T
    frame = np.column_stack([x, y, z, rx, ry, rz])
    return rng.permutation(np.concatenate([frame, -frame[2:]]))


def alone_and_in_pairs(seed: int) -> Points:
    """(10, 4) unit vectors: each coordinate alone, and each pair in equal parts; shuffled."""
    alone = np.eye(4)
    pairs = [(alone[i] + alone[k]) / np.sqrt(2.0) for i, k in combinations(range(4), 2)]
    return np.random.default_rng(seed).permutation(np.concatenate([alone, pairs]))


def pairs_with_gain(seed: int) -> Points:
    """(10, 5) unit vectors over a two-sided coordinate and four others: pairs in equal parts.

    The six pairs of the others, and each of them with the first, whose sign alternates; shuffled.
    """
    gain, *others = np.eye(5)
    pairs = [a + b for a, b in combinations(others, 2)]
    pairs += [other + (-1) ** i * gain for i, other in enumerate(others)]
    return np.random.default_rng(seed).permutation(np.array(pairs) / np.sqrt(2.0))


def antiprism(seed: int) -> Points:
    """(10, 3) unit vectors: two poles and two rings of four, turned and shuffled.

    With the rings at arccos(sqrt(2) - 1) from their poles, a pole is as far from its ring as the
    rings are from each other: 65.5 degrees. The best that ten points can do is 66.1.
    """
    rng = np.random.default_rng(seed)
    height = np.sqrt(2.0) - 1.0
    width = np.sqrt(1.0 - height**2)
    corners = [(0.0, 0.0, 1.0), (0.0, 0.0, -1.0)]
    for i in range(8):
        side = 1.0 if i % 2 else -1.0
        corners.append(
            (width * np.cos(i * np.pi / 4), width * np.sin(i * np.pi / 4), side * height)
        )
    q, r = np.linalg.qr(rng.standard_normal((3, 3)))
    return rng.permutation(np.array(corners) @ (q * np.sign(np.diag(r))).T)


def smallest_angle(points: Points) -> float:
    """Degrees between the nearest two of unit vectors, (N, D)."""
    cosines = points @ points.T
    np.fill_diagonal(cosines, -1.0)
    return float(np.degrees(np.arccos(np.clip(cosines.max(), -1.0, 1.0))))


def presets() -> dict[str, list[Preset]]:
    """Axis -> its ten presets, in the order of the configurations."""
    angles = np.random.default_rng(SEEDS["motion"]).permutation(180.0 * np.arange(COUNT) / COUNT)
    sensor = _named(tuple(Sensor.scales), alone_and_in_pairs(SEEDS["sensor"]))
    return {
        "camera": _named(tuple(CameraPose.scales), cross_polytope(5, SEEDS["camera"])),
        "lighting": _named(tuple(Lighting.scales), cross_polytope(5, SEEDS["lighting"])),
        "robot_pose": _named(tuple(RobotPose.scales), hand_frame(SEEDS["robot_pose"])),
        "sensor": [
            {**preset, ANGLE: float(angle)} for preset, angle in zip(sensor, angles, strict=True)
        ],
        "actuation": [
            {**preset, **bias, **axis}
            for preset, bias, axis in zip(
                _named(tuple(Actuation.scales), pairs_with_gain(SEEDS["actuation"])),
                _named(BIAS, antiprism(SEEDS["bias"])),
                _named(AXIS, antiprism(SEEDS["misalignment"])),
                strict=True,
            )
        ],
        "language": [{"paraphrase": float(j)} for j in range(COUNT)],
    }


def text() -> str:
    """The file: a comment, and a table a preset."""
    blocks = [HEADER]
    for axis, rows in presets().items():
        for row in rows:
            cells = "\n".join(f"{name} = {_number(value)}" for name, value in row.items())
            blocks.append(f"[[{axis}]]\n{cells}\n")
    return "\n".join(blocks)


def _named(names: tuple[str, ...], points: Points) -> list[Preset]:
    return [dict(zip(names, map(float, point), strict=True)) for point in points]


def _number(value: float) -> str:
    # Nine decimals of a unit vector in up to six coordinates: its norm is 1 to within 2e-9.
    return str(round(value, DECIMALS) + 0.0)


if __name__ == "__main__":
    print(text(), end="")
