"""Which boxes a camera can see, directly, past a wall or in a mirror: geometry, no drawing.

Everything here errs to one side: what may be visible counts as visible. A box is called invisible
only if it lies wholly beyond one plane that bounds the view, by more than what single precision
and the snapping of vertices to a fraction of a pixel could bridge. It is the usual test of
oriented boxes against a frustum's planes (Assarsson and Moller, 2000, without their shortcuts):
a box near a corner of the view may pass although nothing of it is seen, which costs time only.
A wall ends the view only where it fills the picture, or the part of it that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Vector

# A renderer works in single precision (1e-7 of a distance) and snaps vertices to 1/256 of a pixel
# (6e-5 of a distance in a picture of 64 pixels at 90 degrees). This is far above both.
_SLACK_M = 1e-3
_SLACK_OF_DISTANCE = 1e-3

_PIXELS_AROUND = 2


@dataclass(frozen=True)
class Boxes:
    """n oriented boxes in the world frame, metres.

    Attributes:
        center: (n, 3).
        axes: (n, 3, 3) rotation matrices; a box's own axes are the columns.
        half: (n, 3) half extents along them.
    """

    center: Vector
    axes: Vector
    half: Vector


@dataclass(frozen=True)
class Rectangle:
    """Pixels, from the lower left corner of the picture, as OpenGL counts them."""

    left: int
    bottom: int
    width: int
    height: int


@dataclass(frozen=True)
class Planes:
    """A convex region of the world: x is in it where ``normal @ x + offset >= 0`` for all k.

    Attributes:
        normal: (k, 3) unit vectors that point inwards.
        offset: (k,) metres.
        eye: (3,) where the distances are measured from that tolerances grow with.
    """

    normal: Vector
    offset: Vector
    eye: Vector

    def touch(self, boxes: Boxes) -> NDArray[np.bool_]:
        """(n,) whether a box may reach into the region."""
        reach = np.einsum("nkj,nj->nk", np.abs(self.normal @ boxes.axes), boxes.half)
        depth = boxes.center @ self.normal.T + self.offset + reach
        far = np.linalg.norm(boxes.center - self.eye, axis=1) + np.linalg.norm(boxes.half, axis=1)
        slack = _SLACK_M + _SLACK_OF_DISTANCE * far
        # A comparison with NaN is false: a box that has one is visible.
        visible: NDArray[np.bool_] = ~np.any(depth < -slack[:, None], axis=1)
        return visible


@dataclass(frozen=True)
class View:
    """A camera's perspective view.

    Attributes:
        eye: (3,) metres, world frame.
        frame: (3, 3) rows: right, up, forward; orthonormal.
        left: tangents of the view's edges; left and bottom are negative where the view is centred.
        right: see ``left``.
        bottom: see ``left``.
        top: see ``left``.
        near: metres; nothing nearer is drawn.
        width: of the picture, pixels.
        height: see ``width``.
    """

    eye: Vector
    frame: Vector
    left: float
    right: float
    bottom: float
    top: float
    near: float
    width: int
    height: int

    @property
    def blind(self) -> float:
        """Metres from the eye within which something in view may be too near to be drawn."""
        return self.near * float(
            np.linalg.norm(
                [1, max(abs(self.left), abs(self.right)), max(abs(self.bottom), abs(self.top))]
            )
        )

    def region(self, part: Rectangle | None = None, wall: Face | None = None) -> Planes:
        """What is drawn into the picture, or into a part of it. No far plane: it culls little.

        Args:
            part: of the picture.
            wall: ends the view if it fills it, and is no nearer than :attr:`blind`.
        """
        left, right, bottom, top = self._edges(part)
        normal = np.array(
            [[1, 0, -left], [-1, 0, right], [0, 1, -bottom], [0, -1, top], [0, 0, 1.0]]
        )
        normal = normal / np.linalg.norm(normal, axis=1, keepdims=True) @ self.frame
        offset = -normal @ self.eye
        offset[4] -= self.near
        end = None if wall is None else wall.end(self.eye, self._rays(part))
        if end is not None:
            normal = np.concatenate([normal, end.normal])
            offset = np.concatenate([offset, end.offset])
        return Planes(normal, offset, self.eye)

    def _rays(self, part: Rectangle | None) -> Vector:
        """(4, 3) unit vectors from the eye through the corners of the picture, or of a part."""
        left, right, bottom, top = self._edges(part)
        rays = np.array([[left, bottom, 1], [right, bottom, 1], [right, top, 1], [left, top, 1.0]])
        turned: Vector = rays / np.linalg.norm(rays, axis=1, keepdims=True) @ self.frame
        return turned

    def _edges(self, part: Rectangle | None) -> tuple[float, float, float, float]:
        """Tangents: left, right, bottom, top."""
        if part is None:
            return self.left, self.right, self.bottom, self.top
        across = (self.right - self.left) / self.width
        along = (self.top - self.bottom) / self.height
        left, bottom = self.left + part.left * across, self.bottom + part.bottom * along
        return left, left + part.width * across, bottom, bottom + part.height * along

    def rectangle(self, corners: Vector) -> Rectangle | None:
        """Pixels that a convex polygon can touch, with some around; None if it touches none.

        Args:
            corners: (k, 3) in turn, world frame, metres.
        """
        points = (corners - self.eye) @ self.frame.T
        ahead = points[:, 2] - self.near
        following, beyond = np.roll(points, -1, axis=0), np.roll(ahead, -1)
        crossing = (ahead > 0) != (beyond > 0)
        share = ahead[crossing] / (ahead[crossing] - beyond[crossing])
        cut = points[crossing] + share[:, None] * (following - points)[crossing]
        cut[:, 2] = self.near
        seen = np.concatenate([points[ahead > 0], cut])
        if not len(seen):
            return None
        x = (seen[:, 0] / seen[:, 2] - self.left) / (self.right - self.left) * self.width
        y = (seen[:, 1] / seen[:, 2] - self.bottom) / (self.top - self.bottom) * self.height
        left, right = _pixels(x, self.width)
        bottom, top = _pixels(y, self.height)
        if left >= right or bottom >= top:
            return None
        return Rectangle(left, bottom, right - left, top - bottom)


@dataclass(frozen=True)
class Face:
    """A flat, opaque rectangle: a mirror, or a wall.

    Attributes:
        center: (3,) metres, world frame.
        axes: (3, 3) columns: the sides' directions, and the normal on the side that counts.
        half: (2,) half lengths of the sides, metres.
    """

    center: Vector
    axes: Vector
    half: Vector

    @property
    def corners(self) -> Vector:
        """(4, 3) in turn."""
        signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
        corners: Vector = self.center + (signs * self.half) @ self.axes[:, :2].T
        return corners

    def height(self, point: Vector) -> float:
        """Metres from the face's plane to a point, positive on the side that counts."""
        return float((point - self.center) @ self.axes[:, 2])

    def mirrored(self, seen: Planes) -> Planes:
        """What is seen as images in a region: the region's own image, as far as it is before us."""
        normal = self.axes[:, 2]
        along = seen.normal @ normal
        images = seen.normal - 2 * along[:, None] * normal
        offset = seen.offset + 2 * along * (self.center @ normal)
        return Planes(
            np.concatenate([images, normal[None]]),
            np.append(offset, -normal @ self.center),
            seen.eye - 2 * self.height(seen.eye) * normal,
        )

    def end(self, eye: Vector, rays: Vector) -> Planes | None:
        """A box around what is before the face in a view that it fills; None if it does not.

        Args:
            eye: (3,) metres, before the face.
            rays: (k, 3) unit vectors whose cone is the view.
        """
        normal, height = self.axes[:, 2], self.height(eye)
        fall = -(rays @ normal)
        if height <= 0 or fall.min() < _SLACK_OF_DISTANCE:
            return None
        far = height / fall
        sides = self.axes[:, :2].T
        hits = (eye + far[:, None] * rays - self.center) @ sides.T
        if np.any(np.abs(hits) > self.half - _SLACK_M - _SLACK_OF_DISTANCE * far[:, None]):
            return None
        points = np.concatenate([hits, (sides @ (eye - self.center))[None]])
        middle = sides @ self.center
        return Planes(
            np.concatenate([normal[None], sides, -sides]),
            np.concatenate(
                [
                    [-normal @ self.center],
                    -middle - points.min(axis=0),
                    middle + points.max(axis=0),
                ]
            ),
            eye,
        )


def _pixels(coordinates: Vector, size: int) -> tuple[int, int]:
    low = np.clip(np.floor(coordinates.min()) - _PIXELS_AROUND, 0, size)
    high = np.clip(np.ceil(coordinates.max()) + _PIXELS_AROUND, 0, size)
    return int(low), int(high)
