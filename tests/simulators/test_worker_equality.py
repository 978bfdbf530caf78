"""Through the process boundary a simulator answers exactly as it does without it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from pytest_vla_shift.protocol.errors import MissingAsset, SimulatorError, UsageError
from pytest_vla_shift.protocol.observation import Episode, Observation
from pytest_vla_shift.shifts.apply import load_shift
from pytest_vla_shift.shifts.protocol import Intervention, Receipt
from pytest_vla_shift.simulators.check import check_simulator
from pytest_vla_shift.simulators.inprocess import InProcessSimulator
from pytest_vla_shift.simulators.launch import describe, open_simulator
from pytest_vla_shift.simulators.protocol import (
    Prepared,
    Simulator,
    SimulatorInfo,
    SimulatorSettings,
    StepResult,
)
from pytest_vla_shift.simulators.remote import RemoteSimulator
from tests.fakes.toy_simulator import INFO, NAME, Toy

SETTINGS = SimulatorSettings(NAME, env_seed=7, cameras=("front", "wrist"), height=20, width=32)
EPISODE = Episode("toy", "reach_right", 4)


@pytest.fixture(scope="module")
def remote() -> Iterator[RemoteSimulator]:
    simulator = RemoteSimulator(SETTINGS, timeout_s=30)
    yield simulator
    simulator.close()


def interventions() -> list[Intervention]:
    levels = {
        "illumination": {"alpha": 0.6},
        "camera_orientation": {"theta_max_deg": 6.0},
        "base": {"sigma_xy_m": 0.05, "sigma_yaw_deg": 5.0},
        "gaussian_blur": {"sigma_px": 2.0},
    }
    rng = np.random.default_rng(11)
    return [
        Intervention(name, name, "L2", level, load_shift(name).draw(rng))
        for name, level in levels.items()
    ]


Trace = list[Prepared | list[Receipt] | Observation | StepResult | bool | dict[str, bool]]


def trace(simulator: Simulator, *, shifted: bool) -> Trace:
    """Everything that a rollout of random actions can see."""
    rng = np.random.default_rng(5)
    seen: Trace = [simulator.prepare(EPISODE)]
    seen.append(simulator.apply(interventions() if shifted else []))
    for cameras in [(), ("wrist",), ("front", "wrist"), ("front",)]:
        seen.append(simulator.observe(cameras, privileged=cameras == ("wrist",)))
        seen.append(simulator.step(rng.uniform(-2, 2, (5, 7)), stop_on_success=len(cameras) < 2))
        seen.append(simulator.success())
        seen.append(dict(simulator.predicates()))
    return seen


def flat(value: object) -> list[object]:
    """Values with arrays as dtype, shape and bytes, so that == means bit for bit."""
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.shape, value.tobytes()]
    if isinstance(value, dict):
        return [[key, flat(item)] for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [flat(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return [[name, flat(getattr(value, name))] for name in value.__dataclass_fields__]
    return [type(value), value]


@pytest.mark.parametrize("shifted", [False, True])
def test_every_answer_is_the_same_bit_for_bit(remote: RemoteSimulator, shifted: bool) -> None:
    through = flat(trace(remote, shifted=shifted))
    assert through == flat(trace(Toy(SETTINGS), shifted=shifted))
    assert shifted != (through == flat(trace(Toy(SETTINGS), shifted=False)))


def test_two_workers_give_the_same_bits(remote: RemoteSimulator) -> None:
    second = RemoteSimulator(SETTINGS, timeout_s=30)
    try:
        assert flat(trace(remote, shifted=True)) == flat(trace(second, shifted=True))
        assert remote.pid != second.pid
    finally:
        second.close()


def test_arrays_of_an_observation_belong_to_the_caller(remote: RemoteSimulator) -> None:
    remote.prepare(EPISODE)
    first = remote.observe(("wrist",))
    kept = first.images["wrist"].copy()
    remote.step(np.ones((12, 7)))
    later = remote.observe(("wrist",))
    assert np.array_equal(first.images["wrist"], kept)
    assert not np.array_equal(later.images["wrist"], kept)
    flags = [image.flags for image in first.images.values()]
    flags += [vector.flags for vector in first.proprio.values()]
    assert all(flag.writeable and flag.c_contiguous for flag in flags)


def test_the_boundary_itself_passes_check_simulator() -> None:
    class Factory:
        def __call__(self, settings: SimulatorSettings) -> RemoteSimulator:
            return RemoteSimulator(settings, timeout_s=30)

        def describe(self) -> SimulatorInfo:
            return INFO

    check_simulator(Factory(), SETTINGS, EPISODE, other=Episode("toy", "reach_left", 1))


def test_info_crosses_and_describe_agrees(remote: RemoteSimulator) -> None:
    assert remote.info == INFO == describe(NAME)
    assert flat(remote.info) == flat(INFO)


@pytest.mark.parametrize(
    "task, error, message",
    [
        ("reach_left_raise", SimulatorError, "ZeroDivisionError: the toy's step failed"),
        ("reach_left_simerror", SimulatorError, "the toy refuses on request"),
        ("reach_left_missing", MissingAsset, r"meshes/target_1\.obj"),
        ("reach_left_badprepare", SimulatorError, "ZeroDivisionError"),
        ("fold_the_towel", SimulatorError, "has no task 'fold_the_towel'"),
    ],
)
@pytest.mark.parametrize("envs", [0, 1])
def test_an_exception_is_the_same_error_with_and_without_a_process(
    remote: RemoteSimulator, task: str, error: type[Exception], message: str, envs: int
) -> None:
    inside = open_simulator(SETTINGS, envs=0, rollout_timeout_s=30)
    assert isinstance(inside, InProcessSimulator)
    simulator = remote if envs else inside
    with pytest.raises(error, match=message) as caught:
        run_into(simulator, task)
    assert type(caught.value) is error
    if envs:
        assert "Traceback (most recent call last)" in caught.value.__notes__[0]


def test_the_worker_survives_ordinary_exceptions(remote: RemoteSimulator) -> None:
    remote.prepare(EPISODE)
    pid = remote.pid
    for task in ("reach_left_raise", "reach_left_missing", "reach_left_badprepare"):
        with pytest.raises(SimulatorError):
            run_into(remote, task)
    with pytest.raises(UsageError, match="episodes 0 to 19"):
        remote.prepare(Episode("toy", "reach_left", 20))
    assert flat(trace(remote, shifted=False)) == flat(trace(Toy(SETTINGS), shifted=False))
    assert remote.pid == pid


def run_into(simulator: Simulator, task: str) -> None:
    simulator.prepare(Episode("toy", task, 0))
    simulator.step(np.zeros((20, 7)), stop_on_success=False)


def test_nan_actions_and_wrong_cameras_are_refused_by_name(remote: RemoteSimulator) -> None:
    remote.prepare(EPISODE)
    with pytest.raises(SimulatorError, match="not all finite"):
        remote.step(np.full((2, 7), np.nan))
    with pytest.raises(SimulatorError, match="overhead"):
        remote.observe(("overhead",))


def test_a_simulator_without_cameras_works() -> None:
    blind = SimulatorSettings(NAME, env_seed=7, cameras=(), height=16, width=16)
    simulator = RemoteSimulator(blind, timeout_s=30)
    try:
        simulator.prepare(EPISODE)
        assert dict(simulator.observe((), privileged=True).images) == {}
    finally:
        simulator.close()


def test_what_the_simulator_prints_goes_nowhere_near_us(
    remote: RemoteSimulator, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(10):
        remote.prepare(Episode("toy", "reach_left_noise", 0))
    assert capfd.readouterr() == ("", "")
