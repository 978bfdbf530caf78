"""Pictures with things left out are robosuite's own, bit for bit, and things are left out."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

pytest.importorskip("libero.libero")

import mujoco

from pytest_vla_shift.protocol.observation import Episode
from tests.simulators import libero_support as support
from tests.simulators.libero_support import BOWL, CAMERAS, MILK

if TYPE_CHECKING:
    from pytest_vla_shift.simulators.libero_picture import Painter
    from pytest_vla_shift.simulators.libero_world import World

SIZE = 64
PLATE = Episode(
    "libero_spatial", "pick_up_the_black_bowl_next_to_the_plate_and_place_it_on_the_plate", 1
)
MOKA = Episode("libero_10", "KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it", 2)

MIRROR = "flat_stove_1_base_vis"


def theirs(camera: str, height: int = SIZE, width: int = SIZE) -> NDArray[np.uint8]:
    """What robosuite draws, upright."""
    world = support.world_of(support.simulator())
    world.env.sim._render_context_offscreen.gl_ctx.make_current()
    picture: NDArray[np.uint8] = world.env.sim.render(
        width=width, height=height, camera_name=camera
    )
    return picture[::-1]


@functools.lru_cache(maxsize=1)
def painter(world: World) -> Painter:
    """The last world's: to measure its meshes takes a quarter of a second."""
    from pytest_vla_shift.simulators.libero_picture import Painter

    return Painter(world.model)


def ours(camera: str, height: int = SIZE, width: int = SIZE) -> NDArray[np.uint8]:
    """The same picture with things left out, on a GPU, too."""
    world = support.world_of(support.simulator())
    return painter(world).draw(world.env.sim, camera, height, width)[::-1]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """For each pass over the scene: meshes drawn, and whether images in a mirror were asked for."""
    found: list[tuple[int, bool]] = []
    draw = mujoco.mjr_render

    def counted(viewport: mujoco.MjrRect, scn: mujoco.MjvScene, con: mujoco.MjrContext) -> None:
        kinds = [geom.type for geom in scn.geoms[: scn.ngeom]]
        mirrors = bool(scn.flags[mujoco.mjtRndFlag.mjRND_REFLECTION])
        found.append((kinds.count(int(mujoco.mjtGeom.mjGEOM_MESH)), mirrors))
        draw(viewport, scn, con)

    monkeypatch.setattr(mujoco, "mjr_render", counted)
    return found


@pytest.mark.parametrize("episode", [BOWL, MILK, PLATE, MOKA], ids=lambda e: e.task_suite)
def test_pictures_of_a_moving_arm_are_robosuites_own(episode: Episode) -> None:
    sim = support.simulator()
    sim.prepare(episode)
    support.settle(sim)
    for chunk in support.chunks():
        sim.step(chunk)
        for camera in CAMERAS:
            assert np.array_equal(ours(camera), theirs(camera)), camera


def test_so_are_pictures_of_another_shape() -> None:
    support.simulator().prepare(BOWL)
    for camera in CAMERAS:
        assert np.array_equal(ours(camera, 48, 100), theirs(camera, 48, 100)), camera


@pytest.mark.parametrize("shift", ["camera_orientation", "base", "illumination"])
def test_so_are_pictures_of_a_shifted_scene(shift: str) -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    sim.apply([support.intervention(shift)])
    support.settle(sim)
    for camera in CAMERAS:
        assert np.array_equal(ours(camera), theirs(camera)), camera


coordinates = st.floats(-1, 1, allow_nan=False)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    place=st.tuples(coordinates, coordinates, coordinates),
    aim=st.tuples(coordinates, coordinates, coordinates),
    roll=coordinates,
    fovy=st.floats(20, 100),
)
def test_so_are_pictures_from_anywhere(
    place: tuple[float, float, float],
    aim: tuple[float, float, float],
    roll: float,
    fovy: float,
) -> None:
    """From around, over, under and within the scene of the stove, which mirrors."""
    sim = support.simulator()
    sim.prepare(BOWL)
    world = support.world_of(sim)
    camera = world.env.sim.model.camera_name2id("agentview")
    mirror = world.data.geom_xpos[world.model.geom(MIRROR).id]
    eye = mirror + np.multiply(place, [0.8, 0.8, 0.6]) + [0, 0, 0.4]
    back = eye - (mirror + np.multiply(aim, 0.3))
    back /= max(np.linalg.norm(back), 1e-6)
    side = np.cross([roll, 0.1, 1.0], back)
    side /= max(np.linalg.norm(side), 1e-6)
    world.data.cam_xpos[camera] = eye
    world.data.cam_xmat[camera] = np.stack([side, np.cross(back, side), back], axis=1).ravel()
    world.model.cam_fovy[camera] = fovy
    assert np.array_equal(ours("agentview"), theirs("agentview"))


def test_a_wrist_camera_draws_no_arm_behind_it_and_no_mirror_where_there_is_none(
    passes: list[tuple[int, bool]],
) -> None:
    support.simulator().prepare(MILK)
    theirs("robot0_eye_in_hand")
    ours("robot0_eye_in_hand")
    (all_meshes, _), *own = passes
    assert len(own) == 1
    drawn, mirror = own[0]
    assert drawn < 0.6 * all_meshes
    assert not mirror


def test_a_mirror_in_the_picture_is_drawn_with_little_else(
    passes: list[tuple[int, bool]],
) -> None:
    support.simulator().prepare(BOWL)
    theirs("agentview", 256, 256)
    ours("agentview", 256, 256)
    (all_meshes, _), (direct, without), (again, mirror) = passes
    assert (without, mirror) == (False, True)
    assert direct <= all_meshes
    assert again < 0.3 * all_meshes


def test_what_casts_shadows_is_drawn_though_it_is_out_of_view(
    passes: list[tuple[int, bool]],
) -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    support.world_of(sim).model.light_castshadow[:] = 1
    for camera in CAMERAS:
        assert np.array_equal(ours(camera), theirs(camera)), camera
    assert len(set(passes)) == 1, "every pass draws the same: all of it"


def test_the_scene_is_left_as_it_was() -> None:
    """Whoever draws it next, by robosuite's own calls, gets all of it."""
    sim = support.simulator()
    sim.prepare(BOWL)
    for camera in CAMERAS:
        ours(camera)
        scene = support.world_of(sim).env.sim._render_context_offscreen.scn
        kinds = {geom.type for geom in scene.geoms[: scene.ngeom]}
        assert int(mujoco.mjtGeom.mjGEOM_LABEL) not in kinds
        assert scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] == 1


def test_where_a_gpu_draws_nothing_is_left_out(
    monkeypatch: pytest.MonkeyPatch, passes: list[tuple[int, bool]]
) -> None:
    support.simulator().prepare(BOWL)
    world = support.world_of(support.simulator())
    wrist = CAMERAS[1]
    ours(wrist)
    fewer = passes[-1][0]
    passes.clear()
    monkeypatch.setattr(world, "renderer", lambda: "NVIDIA H200/PCIe/SSE2")
    monkeypatch.setattr(world, "_looked", False)
    monkeypatch.setattr(world, "_painter", None)
    world.render(wrist, SIZE, SIZE)
    assert [mirrors for _, mirrors in passes] == [True]
    assert passes[0][0] > fewer
