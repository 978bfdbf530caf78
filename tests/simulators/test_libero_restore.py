"""An episode is the same, bit for bit, whatever happened before it and however it is drawn."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("libero.libero")

from pytest_vla_shift.protocol.errors import SimulatorError
from tests.simulators import libero_support as support
from tests.simulators.libero_support import BOWL, MILK

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def trace() -> support.Trace:
    """The episode as it went the first time."""
    sim = support.simulator()
    sim.prepare(BOWL)
    return support.rollout(sim)


def test_twice_in_one_process_gives_the_same_fingerprint_states_and_pixels(
    trace: support.Trace,
) -> None:
    sim = support.simulator()
    first = sim.prepare(BOWL).fingerprint
    assert support.rollout(sim) == trace
    assert sim.prepare(BOWL).fingerprint == first
    assert len(set(trace.states)) == len(set(trace.pictures)) == 4, "the rollout moves"


def test_rendering_at_every_step_gives_the_same_states_and_pixels_as_at_chunk_boundaries(
    trace: support.Trace,
) -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    assert support.rollout(sim, every_step=True) == trace


@pytest.mark.parametrize("shift", sorted(support.SHIFTS))
def test_a_shifted_episode_in_between_leaves_no_trace(shift: str, trace: support.Trace) -> None:
    sim = support.simulator()
    first = sim.prepare(BOWL).fingerprint
    assert sim.apply([support.intervention(shift)])
    assert support.rollout(sim) != trace
    assert sim.prepare(BOWL).fingerprint == first
    support.settle(sim)
    assert support.state_digest(sim) == trace.states[0]


def test_other_episodes_and_tasks_in_between_leave_no_trace(trace: support.Trace) -> None:
    sim = support.simulator()
    first = sim.prepare(BOWL).fingerprint
    for other in (replace(BOWL, index=49), MILK, replace(BOWL, index=0)):
        assert sim.prepare(other).fingerprint != first
        sim.step(np.concatenate(list(support.chunks())))
        np.random.random(5)  # and whatever the caller draws from the global generator
    assert sim.prepare(BOWL).fingerprint == first
    assert support.rollout(sim) == trace


PROCESS = """
import json, logging

def refused(*_, **__):
    raise PermissionError("/tmp/robosuite.log")

logging.FileHandler = refused
from tests.simulators import libero_support as support

sim = support.simulator()
fingerprint = sim.prepare(support.BOWL).fingerprint
trace = support.rollout(sim)
print(json.dumps([dict(fingerprint), trace.states, trace.pictures, trace.predicates]))
"""


def test_two_processes_give_the_same_states_and_pixels_and_end_cleanly(
    trace: support.Trace,
) -> None:
    """Also: nothing else on standard output, no log file, no complaint of EGL without close."""
    done = subprocess.run(
        [sys.executable, "-c", PROCESS], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    fingerprint, *rest = json.loads(done.stdout)
    assert support.Trace(*rest) == trace
    assert support.simulator().prepare(BOWL).fingerprint == fingerprint


ORIGINAL = """
import json, os, sys
import numpy as np
from libero.libero import get_libero_path
from libero.libero.envs import OffScreenRenderEnv
from tests.simulators import libero_support as support

folder, task = support.BOWL.task_suite, support.BOWL.task
env = OffScreenRenderEnv(
    bddl_file_name=os.path.join(get_libero_path("bddl_files"), folder, task + ".bddl"),
    camera_names=["agentview"], camera_heights=64, camera_widths=64,
)
states = np.load(
    os.path.join(get_libero_path("init_states"), folder, task + ".pruned_init.npz")
)["states"]
env.seed(7)
env.reset()
env.set_init_state(states[support.BOWL.index])
for _ in range(10):
    env.step([0, 0, 0, 0, 0, 0, -1])
digests = []
for chunk in (None, *support.chunks()):
    for action in () if chunk is None else chunk:
        env.step(action)
    pictures = [
        env.sim.render(width=64, height=64, camera_name=c)[::-1] for c in support.CAMERAS
    ]
    digests.append([support.digest(env.get_sim_state()), support.digest(*pictures)])
env.close()
print(json.dumps(digests), file=sys.stderr)
"""


def test_states_and_pixels_are_those_of_liberos_own_environment(trace: support.Trace) -> None:
    """Hard reset, observables on, robosuite rendering a camera at every step: the customary way."""
    done = subprocess.run(
        [sys.executable, "-c", ORIGINAL], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    original = json.loads(done.stderr.splitlines()[-1])
    sim = support.simulator()
    sim.prepare(BOWL)
    support.settle(sim)
    states = [_flat_state()]
    for chunk in support.chunks():
        sim.step(chunk)
        states.append(_flat_state())
    assert [state for state, _ in original] == states
    assert [picture for _, picture in original] == trace.pictures


def _flat_state() -> str:
    data = support.world_of(support.simulator()).data
    return support.digest(np.concatenate([[data.time], data.qpos, data.qvel]))


def test_the_environment_seed_decides_where_fixtures_stand() -> None:
    sim, other = support.simulator(), support.another(env_seed=0)
    try:
        ours, theirs = sim.prepare(BOWL).fingerprint, other.prepare(BOWL).fingerprint
    finally:
        other.close()
    differing = {name for name in ours if ours[name] != theirs[name]}
    assert "model.body_pos" in differing
    assert "state.qpos" not in differing


def test_two_worlds_alive_at_once_do_not_draw_into_each_others_context(
    trace: support.Trace,
) -> None:
    sim, other = support.simulator(), support.another(env_seed=7)
    sim.prepare(BOWL)
    try:
        other.prepare(MILK)
        picture = other.observe(("agentview",)).images["agentview"]
        assert support.rollout(sim) == trace
        again = other.observe(("agentview",)).images["agentview"]
        assert np.array_equal(picture, again)
    finally:
        other.close()
    sim.prepare(BOWL)
    assert support.rollout(sim) == trace


@pytest.mark.parametrize("index", [0, 7, 49])
def test_the_state_after_prepare_is_the_released_one(index: int) -> None:
    from libero.libero import get_libero_path

    file = Path(get_libero_path("init_states"), BOWL.task_suite, f"{BOWL.task}.pruned_init.npz")
    released = np.load(file, allow_pickle=False)["states"][index]
    sim = support.simulator()
    sim.prepare(replace(BOWL, index=index))
    data = support.world_of(sim).data
    assert np.array_equal(np.concatenate([[data.time], data.qpos, data.qvel]), released)


def test_a_state_that_is_wiped_after_it_was_written_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """lerobot#2402: the reset came last, and every episode began at the reset's own state."""
    sim = support.simulator()
    sim.prepare(BOWL)
    env = support.world_of(sim).env
    monkeypatch.setattr(env, "_post_process", env.sim.reset)
    with pytest.raises(SimulatorError, match="initial state 5 was restored wrongly"):
        sim.prepare(BOWL)
    with pytest.raises(SimulatorError, match="no episode is prepared"):
        sim.observe()


def test_a_state_of_another_task_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    world = support.world_of(sim)
    monkeypatch.setattr(world, "states", world.states[:, :-1])
    with pytest.raises(SimulatorError, match="does not fit the model"):
        sim.prepare(BOWL)


def test_pickled_initial_states_are_refused_and_not_executed(tmp_path: Path) -> None:
    from pytest_vla_shift.simulators.libero_world import _initial_states

    hostile = tmp_path / "hostile.npz"
    np.savez(hostile, states=np.array([_Hostile()], dtype=object))
    with pytest.raises(SimulatorError, match="not an archive of initial states"):
        _initial_states(hostile)
    honest = tmp_path / "honest.npz"
    np.savez(honest, states=np.ones((2, 3)))
    assert np.array_equal(_initial_states(honest), np.ones((2, 3)))


class _Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return _explode, ("executed",)


def _explode(word: str) -> None:
    raise AssertionError(word)


def test_preparing_and_stepping_render_nothing_and_observing_renders_what_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import mujoco

    drawn: list[str] = []

    def count(name: str) -> None:
        call = getattr(mujoco, name)

        def counted(*args: object, **kwargs: object) -> None:
            drawn.append(name)
            call(*args, **kwargs)

        monkeypatch.setattr(mujoco, name, counted)

    count("mjv_updateScene")  # once for a picture
    count("mjr_render")  # at least once
    sim = support.simulator()
    sim.prepare(BOWL)
    support.settle(sim)
    sim.step(next(support.chunks()))
    sim.observe(privileged=True)
    assert drawn == []
    sim.observe(("agentview",))
    assert drawn.count("mjv_updateScene") == 1
    assert "mjr_render" in drawn
    sim.observe(support.CAMERAS)
    assert drawn.count("mjv_updateScene") == 3


def test_preparing_another_episode_of_the_same_task_costs_little_cpu() -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    before = time.process_time()
    for index in range(5):
        sim.prepare(replace(BOWL, index=index))
    assert (time.process_time() - before) / 5 < 0.4


def test_the_callers_random_state_is_left_alone() -> None:
    np.random.seed(123)
    expected = np.random.random(3)
    np.random.seed(123)
    support.simulator().prepare(replace(MILK, index=1))
    support.simulator().prepare(BOWL)
    assert np.array_equal(np.random.random(3), expected)
