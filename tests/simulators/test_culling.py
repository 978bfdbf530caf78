"""What may be visible is never called invisible; what is far out of view is."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_vla_shift.simulators.culling import Boxes, Face, Rectangle, View

Vector = NDArray[np.float64]

WIDTH, HEIGHT = 64, 48
seeds = st.integers(0, 2**32 - 1)


def turn(rng: np.random.Generator) -> Vector:
    """A rotation matrix."""
    matrix, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    matrix *= np.sign(np.linalg.det(matrix))
    return matrix


def view(rng: np.random.Generator) -> View:
    """A camera near the origin, wide or narrow, its picture not quite centred."""
    left, right, bottom, top = rng.uniform(0.1, 1.2, 4) * [-1, 1, -1, 1]
    # Rows right, up, forward are left-handed: forward is away from the picture.
    frame = turn(rng) * np.array([[1], [1], [-1]])
    return View(rng.normal(size=3), frame, left, right, bottom, top, 0.02, WIDTH, HEIGHT)


def boxes(rng: np.random.Generator, count: int = 200) -> tuple[Boxes, Vector]:
    """Boxes around the origin, and points of each of them (n, 60, 3)."""
    axes = np.stack([turn(rng) for _ in range(count)])
    half = rng.uniform(0.001, 0.6, (count, 3))
    center = rng.normal(size=(count, 3)) * 2
    points = center[:, None] + (rng.uniform(-1, 1, (count, 60, 3)) * half[:, None]) @ np.swapaxes(
        axes, 1, 2
    )
    return Boxes(center, axes, half), points


def pixels(camera: View, points: Vector) -> Vector:
    """(..., 3): column, row (from below) and depth of points; columns are NaN where undrawn."""
    seen = (points - camera.eye) @ camera.frame.T
    depth = np.where(seen[..., 2] > camera.near, seen[..., 2], np.nan)
    column = (seen[..., 0] / depth - camera.left) / (camera.right - camera.left) * WIDTH
    row = (seen[..., 1] / depth - camera.bottom) / (camera.top - camera.bottom) * HEIGHT
    return np.stack([column, row, depth], axis=-1)


def within(found: Vector, part: Rectangle) -> NDArray[np.bool_]:
    columns = (found[..., 0] >= part.left) & (found[..., 0] <= part.left + part.width)
    rows = (found[..., 1] >= part.bottom) & (found[..., 1] <= part.bottom + part.height)
    return columns & rows


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_a_box_with_a_point_in_the_picture_may_be_visible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    camera, (all_boxes, points) = view(rng), boxes(rng)
    for part in (Rectangle(0, 0, WIDTH, HEIGHT), Rectangle(5, 7, 20, 9)):
        seen = within(pixels(camera, points), part).any(axis=1)
        touched = camera.region(part).touch(all_boxes)
        assert not (seen & ~touched).any()
    whole = camera.region().touch(all_boxes)
    assert np.array_equal(whole, camera.region(Rectangle(0, 0, WIDTH, HEIGHT)).touch(all_boxes))


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_a_box_seen_in_a_mirror_is_found(seed: int) -> None:
    """A point's image is in the picture and the line to it crosses the mirror: it is seen."""
    rng = np.random.default_rng(seed)
    camera, (all_boxes, points) = view(rng), boxes(rng)
    mirror = Face(rng.normal(size=3), turn(rng), rng.uniform(0.2, 2, 2))
    height = mirror.height(camera.eye)
    part = camera.rectangle(mirror.corners)
    normal = mirror.axes[:, 2]
    above = (points - mirror.center) @ normal
    images = points - 2 * above[..., None] * normal
    share = height / (height + above)
    crossing = (camera.eye + share[..., None] * (images - camera.eye)) - mirror.center
    on_mirror = (np.abs(crossing @ mirror.axes[:, :2]) < mirror.half).all(axis=-1)
    found = pixels(camera, images)
    in_picture = within(found, Rectangle(0, 0, WIDTH, HEIGHT))
    # The mirror itself is drawn there only beyond the near plane.
    drawn = pixels(camera, mirror.center + crossing)[..., 2] > camera.near
    seen = (on_mirror & in_picture & drawn & (above > 0)).any(axis=1) & (height > 0)
    if part is None:
        assert not seen.any()
        return
    assert within(found, part)[on_mirror & in_picture & drawn & (above > 0) & (height > 0)].all()
    touched = mirror.mirrored(camera.region(part)).touch(all_boxes)
    assert not (seen & ~touched).any()


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_a_box_before_or_beside_a_wall_may_be_visible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    camera, (all_boxes, points) = view(rng), boxes(rng)
    forward = camera.frame[2]
    axes = np.stack([camera.frame[0], camera.frame[1], -forward], axis=1)
    wall = Face(camera.eye + 1.5 * forward, axes, rng.uniform(0.5, 4, 2))
    before = ((points - wall.center) @ wall.axes[:, 2]) > 0
    crossing = pixels(camera, points)
    in_picture = within(crossing, Rectangle(0, 0, WIDTH, HEIGHT))
    beside = ~covered(camera, wall, points)
    seen = (in_picture & (before | beside)).any(axis=1)
    assert not (seen & ~camera.region(wall=wall).touch(all_boxes)).any()


def covered(camera: View, wall: Face, points: Vector) -> NDArray[np.bool_]:
    """Whether the line from the eye to a point goes through the wall."""
    height = wall.height(camera.eye)
    below = (points - wall.center) @ wall.axes[:, 2]
    share = height / np.where(below < height, height - below, np.nan)
    crossing = camera.eye + share[..., None] * (points - camera.eye) - wall.center
    inside = np.all(np.abs(crossing @ wall.axes[:, :2]) <= wall.half, axis=-1) & (share <= 1)
    return np.asarray(inside, dtype=np.bool_)


def straight() -> View:
    """From the origin along x, z up, 90 degrees."""
    frame = np.array([[0, -1, 0], [0, 0, 1], [1, 0, 0.0]])
    return View(np.zeros(3), frame, -1, 1, -1, 1, 0.05, 100, 100)


def box(*center: float) -> Boxes:
    return Boxes(np.array([center]), np.eye(3)[None], np.full((1, 3), 0.1))


def test_what_is_behind_beside_and_under_the_view_is_left_out() -> None:
    region = straight().region()
    assert region.touch(box(2, 0, 0)).all()
    for place in ((-0.3, 0, 0), (2, 2.5, 0), (2, -2.5, 0), (2, 0, 2.5), (2, 0, -2.5)):
        assert not region.touch(box(*place)).any(), place


def test_only_images_of_what_is_before_a_mirror_are_seen_in_it() -> None:
    camera = straight()
    floor = Face(np.array([2.0, 0.0, -1.0]), np.eye(3), np.array([0.3, 0.3]))
    part = camera.rectangle(floor.corners)
    assert part is not None
    region = floor.mirrored(camera.region(part))
    assert region.touch(box(3, 0, -0.5)).all(), "stands beyond the mirror"
    assert not region.touch(box(3, 0, -1.5)).any(), "is under it"
    assert not region.touch(box(2, 3, 0)).any(), "its image is beside it"
    assert not camera.region(part).touch(box(3, 0, 0)).any(), "is over it in the picture"


def test_a_wall_ends_a_view_that_it_fills_and_no_other() -> None:
    camera = straight()
    towards = np.stack([camera.frame[0], camera.frame[1], -camera.frame[2]], axis=1)
    wide = Face(np.array([2.0, 0, 0]), towards, np.array([3.0, 3.0]))
    narrow = Face(np.array([2.0, 0, 0]), towards, np.array([3.0, 1.0]))
    assert not camera.region(wall=wide).touch(box(3, 0, 0)).any()
    assert camera.region(wall=wide).touch(box(1, 0, 0)).all()
    assert camera.region(wall=narrow).touch(box(3, 0, 0)).all()
    middle = Rectangle(40, 40, 20, 20)
    assert not camera.region(middle, narrow).touch(box(3, 0, 0)).any()


def test_a_mirror_partly_behind_the_camera_touches_the_pixels_that_it_touches() -> None:
    camera = straight()
    across = Face(np.array([0.0, 0.0, -0.5]), np.eye(3), np.array([1.0, 0.2]))
    part = camera.rectangle(across.corners)
    assert part is not None
    assert part.bottom == 0
    assert part.bottom + part.height == 27, "its far edge is 26.8 degrees down, 25 pixels, and two"
    behind = Face(np.array([-2.0, 0.0, -0.5]), np.eye(3), np.array([1.0, 0.2]))
    assert camera.rectangle(behind.corners) is None
