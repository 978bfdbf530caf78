"""Drawing a LIBERO world: the pixels that robosuite draws, without what they do not show.

By software, drawing costs by the vertex, whether it is in the picture or not, and a reflective box
(the flat stove of libero_goal and libero_10) has MuJoCo draw everything twice, the second time
as seen in the box's upper face. So, after MuJoCo has made the scene and before it draws it:

* what lies outside of the view is not drawn (a wrist camera has most of the arm behind it), nor
  what a box hides that fills the view (the table, when the wrist looks down on it);
* the mirrored images are not drawn when the mirror is out of the picture;
* where it is in the picture, this takes two passes: everything in view without a mirror, and the
  mirror with no more than can be seen in it or over it, of which the pixels around it are taken.

The pixels are the same, bit for bit, and not just nearly: what is drawn is drawn by the same calls
in the same order. A geom left out gets the type of a text label, for which ``mjr_render`` (MuJoCo
3.3.7, ``render_gl3.c``) sets all of the OpenGL state that it always sets, but draws nothing; it
keeps its place, and so does everything after it (of equal depths the last one drawn is seen). The
mirror is switched by the scene's flag and not by its reflectance: MuJoCo draws a reflective box
first, blended, with or without that flag, and the next reflective box would become the mirror.

Only meshes are left out, which cost most; boxes, planes, sites and decoration are always drawn.
Nothing is left out where geoms could show outside of their bounds (shadows, wireframes) or
where this module does not know the view (stereo, orthographic).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from pytest_vla_shift.simulators.culling import Boxes, Face, Rectangle, View

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from robosuite.utils.binding_utils import MjRenderContextOffscreen, MjSim

    from pytest_vla_shift.protocol.observation import Image, Vector

# As numbers: comparing with members of MuJoCo's enumerations takes microseconds.
_PLANE, _BOX = int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_BOX)
_MESH, _HIDDEN = int(mujoco.mjtGeom.mjGEOM_MESH), int(mujoco.mjtGeom.mjGEOM_LABEL)
_OBJECT, _DECORATION = int(mujoco.mjtObj.mjOBJ_GEOM), int(mujoco.mjtCatBit.mjCAT_DECOR)

_FLAG = mujoco.mjtRndFlag
_SHADOW = int(_FLAG.mjRND_SHADOW)

_REFLECTION = int(_FLAG.mjRND_REFLECTION)

# Flags that this module relies on; the others change colours, or what is behind everything.
_KNOWN_FLAGS = {
    int(_FLAG.mjRND_WIREFRAME): 0,
    _REFLECTION: 1,
    int(_FLAG.mjRND_SEGMENT): 0,
    int(_FLAG.mjRND_IDCOLOR): 0,
    int(_FLAG.mjRND_CULL_FACE): 1,
}

# Below this MuJoCo takes a geom for transparent (render_gl3.c), and mirrors nothing in it.
_OPAQUE = 0.995

# An eye so far behind a face's plane is certainly behind it.
_BEHIND_M = 1e-3

# Measured by software: what a pass costs beside its meshes, in triangles that cost as much, and a
# triangle's image in a mirror against the triangle. They decide how to draw, never what.
_PASS, _IMAGE = 30_000.0, 0.6

_CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
_UPPER = 2  # of _faces

# Into how many parts the bounds of a large mesh are split, and how many triangles are worth it.
_PARTS, _SMALLEST_PART = 64, 400


@dataclass(frozen=True)
class _Plan:
    """What to draw. Masks are over the model's geoms.

    Attributes:
        direct: may be in view.
        mirrored: may be seen in the mirror or over it; None: there is no mirror in the picture.
        part: pixels that the mirror can touch; None like ``mirrored``.
    """

    direct: NDArray[np.bool_]
    mirrored: NDArray[np.bool_] | None = None
    part: Rectangle | None = None


class Painter:
    """Draws one model, whose meshes may not change any more."""

    def __init__(self, model: mujoco.MjModel) -> None:
        """Measure the meshes; a quarter of a second of CPU."""
        meshes = np.flatnonzero(model.geom_type == _MESH)
        self._meshes = meshes[model.geom_dataid[meshes] >= 0]
        self._dataid = model.geom_dataid.copy()
        self._cost = np.zeros(model.ngeom)
        self._cost[self._meshes] = model.mesh_facenum[self._dataid[self._meshes]]
        bounds = {mesh: _mesh_bounds(model, mesh) for mesh in set(self._dataid[self._meshes])}
        parts = [bounds[mesh] for mesh in self._dataid[self._meshes]]
        self._geom = np.repeat(self._meshes, [len(part) for part in parts])
        low, high = np.concatenate([*parts, np.zeros((0, 2, 3))]).transpose(1, 0, 2)
        self._center, self._half = (low + high) / 2, (high - low) / 2

    def draw(self, sim: MjSim, camera: str, height: int, width: int) -> Image:
        """(height, width, 3) uint8 RGB, lowest row first, as ``sim.render`` gives it.

        Args:
            sim: robosuite's simulation of the model, with a context for drawing.
            camera: a camera's name.
            height: pixels.
            width: pixels.
        """
        context = sim._render_context_offscreen
        # robosuite assumes that its last context is current; with two worlds alive it is not.
        context.gl_ctx.make_current()
        _enlarge(context, height, width)
        context.cam.type = mujoco.mjtCamera.mjCAMERA_FIXED
        context.cam.fixedcamid = sim.model.camera_name2id(camera)
        model, data, scene = sim.model._model, sim.data._data, context.scn
        everything = int(mujoco.mjtCatBit.mjCAT_ALL)
        mujoco.mjv_updateScene(
            model, data, context.vopt, context.pert, context.cam, everything, scene
        )
        picture = np.empty((height, width, 3), dtype=np.uint8)
        plan = self._plan(model, data, scene, height, width)
        if plan is None:
            _render(context, height, width)
        elif plan.mirrored is None or plan.part is None:
            _render(context, height, width, plan.direct, mirror=False)
        elif self._one_pass_is_cheaper(scene, plan.direct, plan.mirrored):
            _render(context, height, width, plan.direct | plan.mirrored)
        else:
            _render(context, height, width, plan.direct, mirror=False)
            mujoco.mjr_readPixels(picture, None, mujoco.MjrRect(0, 0, width, height), context.con)
            _render(context, height, width, plan.mirrored)
            _paste(context, picture, plan.part)
            return picture
        mujoco.mjr_readPixels(picture, None, mujoco.MjrRect(0, 0, width, height), context.con)
        return picture

    def _plan(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        scene: mujoco.MjvScene,
        height: int,
        width: int,
    ) -> _Plan | None:
        """None: draw everything."""
        view = _view(scene, height, width)
        flat = [geom for geom in scene.geoms[: scene.ngeom] if geom.type in (_PLANE, _BOX)]
        flat = [geom for geom in flat if geom.rgba[3] >= _OPAQUE]
        # MuJoCo mirrors in the first opaque box or plane that reflects. A plane's own rules
        # (endless, seen from behind) are not worth knowing: LIBERO has no plane that reflects.
        reflective = next((geom for geom in flat if geom.reflectance > 0), None)
        known_mirror = reflective is None or reflective.type == _BOX
        if view is None or not known_mirror or not np.array_equal(model.geom_dataid, self._dataid):
            return None
        axes = data.geom_xmat[self._geom].reshape(-1, 3, 3)
        center = data.geom_xpos[self._geom] + np.einsum("nij,nj->ni", axes, self._center)
        boxes = Boxes(center, axes, self._half)
        wall = _wall([geom for geom in flat if geom.type == _BOX], view)
        direct = self._shown(view.region(wall=wall).touch(boxes))
        mirror = None if reflective is None else _faces(reflective)[_UPPER]
        if mirror is None or mirror.height(view.eye) < -_BEHIND_M:
            return _Plan(direct)
        part = view.rectangle(mirror.corners)
        if part is None:
            return _Plan(direct)
        images = mirror.mirrored(view.region(part)).touch(boxes)
        return _Plan(direct, self._shown(images | view.region(part, wall).touch(boxes)), part)

    def _shown(self, touched: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(ngeom,) from which of the boxes may be visible."""
        shown = np.ones(len(self._dataid), dtype=np.bool_)
        shown[self._meshes] = False
        shown[self._geom[touched]] = True
        return shown

    def _one_pass_is_cheaper(
        self, scene: mujoco.MjvScene, direct: NDArray[np.bool_], mirrored: NDArray[np.bool_]
    ) -> bool:
        shown = [geom.objid for geom in scene.geoms[: scene.ngeom] if _is_of_model(geom)]
        cost, seen, again = self._cost[shown], direct[shown], mirrored[shown]
        one = (1 + _IMAGE) * cost[seen | again].sum()
        two = cost[seen].sum() + (1 + _IMAGE) * cost[again].sum() + _PASS
        return bool(one <= two)


def _mesh_bounds(model: mujoco.MjModel, mesh: int) -> Vector:
    """(n, 2, 3) least and greatest coordinates of parts of a mesh, in its own frame, metres.

    A part is a bunch of near triangles. Several boxes are much smaller than one where a mesh is
    wide here and narrow there, as the robot's pedestal is.
    """
    start, first = model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]
    vertices = model.mesh_vert[start : start + model.mesh_vertnum[mesh]]
    corners = vertices[model.mesh_face[first : first + model.mesh_facenum[mesh]]]
    middle = corners.mean(axis=1)
    parts = [np.arange(len(corners))]
    while len(parts) < _PARTS and len(corners) > len(parts) * _SMALLEST_PART:
        halves = []
        for part in parts:
            axis = np.ptp(middle[part], axis=0).argmax()
            cut = len(part) // 2
            halves += np.split(part[np.argpartition(middle[part, axis], cut)], [cut])
        parts = halves
    faces = [corners[part] for part in parts]
    bounds: Vector = np.array([(f.min(axis=(0, 1)), f.max(axis=(0, 1))) for f in faces], np.float64)
    return bounds


def _enlarge(context: MjRenderContextOffscreen, height: int, width: int) -> None:
    """Make the context's buffer large enough, as robosuite does."""
    if width > context.con.offWidth or height > context.con.offHeight:
        size = context.model.vis.global_
        context.update_offscreen_size(max(width, size.offwidth), max(height, size.offheight))


def _view(scene: mujoco.MjvScene, height: int, width: int) -> View | None:
    """The scene's view; None where geoms may show outside of their bounds or it is not known."""
    flags = scene.flags
    lights = scene.lights[: scene.nlight]
    if (
        any(flags[flag] != value for flag, value in _KNOWN_FLAGS.items())
        or (flags[_SHADOW] and any(light.castshadow for light in lights))
        or scene.stereo != mujoco.mjtStereo.mjSTEREO_NONE
        or scene.enabletransform
        or scene.nflex
        or scene.nskin
    ):
        return None
    camera = mujoco.mjv_averageCamera(scene.camera[0], scene.camera[1])
    near = float(camera.frustum_near)
    across = 0.5 * width / height * (camera.frustum_top - camera.frustum_bottom)
    known_width = not camera.frustum_width or np.isclose(camera.frustum_width, across, rtol=1e-5)
    if camera.orthographic or not near > 0 or not known_width:
        return None
    forward = np.array(camera.forward, dtype=np.float64)
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, camera.up)
    right /= np.linalg.norm(right)
    return View(
        eye=np.array(camera.pos, dtype=np.float64),
        frame=np.stack([right, np.cross(right, forward), forward]),
        left=(camera.frustum_center - across) / near,
        right=(camera.frustum_center + across) / near,
        bottom=camera.frustum_bottom / near,
        top=camera.frustum_top / near,
        near=near,
        width=width,
        height=height,
    )


def _faces(box: mujoco.MjvGeom) -> list[Face]:
    """The faces of a box: towards x, y, z, -x, -y and -z."""
    size = np.array(box.size, dtype=np.float64)
    axes = np.array(box.mat, dtype=np.float64).reshape(3, 3)
    center = np.array(box.pos, dtype=np.float64)
    faces = []
    for sign in (1, -1):
        for order in ([1, 2, 0], [2, 0, 1], [0, 1, 2]):
            turned = axes[:, order] * [1, sign, sign]
            out = sign * size[order[2]] * axes[:, order[2]]
            faces.append(Face(center + out, turned, size[order[:2]]))
    return faces


def _wall(boxes: list[mujoco.MjvGeom], view: View) -> Face | None:
    """The face that probably hides most: of the box that is wide in view and near."""
    if not boxes:
        return None
    size = np.array([box.size for box in boxes], dtype=np.float64)
    axes = np.array([box.mat for box in boxes], dtype=np.float64).reshape(-1, 3, 3)
    away = np.array([box.pos for box in boxes], dtype=np.float64) - view.eye
    corners = away[:, None] + (_CORNERS * size[:, None]) @ axes.transpose(0, 2, 1)
    points = corners @ view.frame.T
    depth = np.maximum(points[..., 2], view.near)
    width = np.ptp(np.clip(points[..., 0] / depth, view.left, view.right), axis=1)
    height = np.ptp(np.clip(points[..., 1] / depth, view.bottom, view.top), axis=1)
    ahead = points[..., 2].max(axis=1) > view.near
    best = np.argmax(width * height * ahead / np.sum(away**2, axis=1))
    # What is too near is not drawn, and hides nothing; a plane further away than that is drawn.
    far_enough = [f for f in _faces(boxes[best]) if f.height(view.eye) > view.blind + _BEHIND_M]
    return max(far_enough, key=lambda face: float(np.prod(face.half)), default=None)


def _is_of_model(geom: mujoco.MjvGeom) -> bool:
    """Whether it is a geom of the model, and not something that decorates one."""
    return bool(geom.objtype == _OBJECT and geom.category != _DECORATION)


def _is_measured(geom: mujoco.MjvGeom) -> bool:
    """Whether it is a mesh as the model has it, and not its convex hull (whose number is odd)."""
    return _is_of_model(geom) and geom.type == _MESH and geom.dataid % 2 == 0


def _render(
    context: MjRenderContextOffscreen,
    height: int,
    width: int,
    shown: NDArray[np.bool_] | None = None,
    *,
    mirror: bool = True,
) -> None:
    """Draw the scene and leave it as it was.

    Args:
        context: robosuite's.
        height: pixels.
        width: pixels.
        shown: over the model's geoms, what to draw of them; all of them if None.
        mirror: draw the mirrored images, too.
    """
    scene = context.scn
    hidden = []
    for geom in scene.geoms[: scene.ngeom]:
        if shown is not None and _is_measured(geom) and not shown[geom.objid]:
            hidden.append((geom, geom.type))
            geom.type = _HIDDEN
    scene.flags[_REFLECTION] = mirror
    try:
        mujoco.mjr_render(mujoco.MjrRect(0, 0, width, height), scene, context.con)
    finally:
        scene.flags[_REFLECTION] = 1
        for geom, kind in hidden:
            geom.type = kind


def _paste(context: MjRenderContextOffscreen, picture: Image, part: Rectangle) -> None:
    """Replace a part of the picture by what was drawn last."""
    pixels = np.empty((part.height, part.width, 3), dtype=np.uint8)
    where = mujoco.MjrRect(part.left, part.bottom, part.width, part.height)
    mujoco.mjr_readPixels(pixels, None, where, context.con)
    rows = slice(part.bottom, part.bottom + part.height)
    picture[rows, part.left : part.left + part.width] = pixels
