"""The engine: each rollout once, the clean arm shared, errors recorded, bugs not hidden."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.protocol.errors import MissingAsset, SimulatorError, UsageError, WorkerLost
from pytest_vla_shift.protocol.plan import plan
from pytest_vla_shift.rollouts.action_file import UnreadableActions
from pytest_vla_shift.rollouts.replay import ReplayDiffers, replay_frames
from pytest_vla_shift.rollouts.store import Store
from pytest_vla_shift.shifts.protocol import Intervention, Receipt
from tests.fakes import toy_policies
from tests.rollouts.toy import ToyEngine, WatchedToy, cell_of, toy_suite


@pytest.fixture
def made(tmp_path: Path) -> ToyEngine:
    return ToyEngine(tmp_path, toy_suite())


def test_the_clean_rollout_of_an_episode_runs_once_and_is_shared(made: ToyEngine) -> None:
    cells = [cell for cell in plan(made.suite) if cell.episode.index == 0]
    pairs = [made.engine.pair(made.suite, cell) for cell in cells]
    assert len(pairs) == 10
    assert len(made.simulator.prepared) == 12
    assert [pair.executed for pair in pairs] == [2, 1, 1, 1, 1] * 2
    assert len({pair.clean.key for pair in pairs}) == 2
    assert [record.key for record in made.finished] == list(
        dict.fromkeys(
            key
            for pair in pairs
            if pair.shifted is not None
            for key in (pair.clean.key, pair.shifted.key)
        )
    )


def test_a_second_engine_finds_everything_and_runs_nothing(made: ToyEngine, tmp_path: Path) -> None:
    cell = cell_of(made.suite, "base-L3")
    first = made.engine.pair(made.suite, cell)
    assert not made.engine.is_open(made.suite, cell)
    again = ToyEngine(tmp_path, made.suite)
    assert not again.engine.is_open(made.suite, cell)
    second = again.engine.pair(made.suite, cell)
    assert second.executed == 0
    assert (second.clean, second.shifted) == (first.clean, first.shifted)
    assert again.simulator.prepared == []
    assert again.finished == []


def test_what_another_process_ran_meanwhile_is_found_and_not_run_again(tmp_path: Path) -> None:
    suite = toy_suite()
    one, other = ToyEngine(tmp_path, suite), ToyEngine(tmp_path, suite)
    cell = cell_of(suite, "base-L2")
    assert one.engine.pair(suite, cell).executed == 2
    # The other one's store was read before, and knows nothing of it yet.
    assert other.engine.pair(suite, cell).executed == 0
    assert other.simulator.prepared == []


def test_a_record_says_what_was_shifted_and_what_was_executed(made: ToyEngine) -> None:
    pair = made.engine.pair(made.suite, cell_of(made.suite, "base-L3"))
    clean, shifted = pair.clean, pair.shifted
    assert shifted is not None
    assert (clean.success, shifted.success) == (True, False)
    assert (clean.axis, clean.level, clean.receipts, clean.interventions) == (None, None, (), ())
    assert (shifted.axis, shifted.level, shifted.condition) == ("base", "L3", "base-L3")
    assert [field for field, _, _ in shifted.receipts] == ["robot.base_pos", "robot.base_quat"]
    assert shifted.interventions[0]["parameters"] == {"sigma_xy_m": 1.0, "sigma_yaw_deg": 0.0}
    assert shifted.fingerprint == clean.fingerprint
    fields = made.engine.store.fingerprint(clean.fingerprint)
    assert fields is not None
    assert {"instruction", "horizon", "state.hand"} <= set(fields)
    actions = made.engine.store.actions(clean.key)
    assert actions is not None
    assert actions.shape == (clean.steps, 7)
    assert set(made.engine.store.frames(clean.key)) == {"front", "wrist"}
    assert clean.where == {"worker": "main"}
    assert set(clean.timing) == {"wall", "policy"}


def test_an_error_of_the_clean_arm_runs_no_shifted_arm_and_is_not_repeated(
    made: ToyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_FAULTS", "reach_left/0=simerror")
    for condition in ("null", "base-L1"):
        pair = made.engine.pair(made.suite, cell_of(made.suite, condition))
        assert pair.shifted is None
        assert pair.clean.status == "error"
        assert pair.clean.error == ("simulator", "the toy refuses on request")
        assert pair.clean.success is None
        assert pair.clean.stages is None
        assert not pair.clean.stage_disagreement
    assert len(made.finished) == 1


def test_a_new_session_tries_an_error_again(
    made: ToyEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cell = cell_of(made.suite, "null")
    monkeypatch.setenv("TOY_FAULTS", "reach_left/0=missing")
    assert made.engine.pair(made.suite, cell).clean.error == (
        "missing asset",
        "meshes/target_1.obj is not there",
    )
    monkeypatch.delenv("TOY_FAULTS")
    again = ToyEngine(tmp_path, made.suite)
    assert again.engine.is_open(made.suite, cell)
    assert again.engine.pair(made.suite, cell).clean.success is True


class Failing(WatchedToy):
    """A toy that raises ``errors`` in turn when it is prepared, or when it is shifted."""

    errors: list[Exception]
    when_shifted = False

    def prepare(self, episode):  # type: ignore[no-untyped-def]
        prepared = super().prepare(episode)
        if self.errors and not self.when_shifted:
            raise self.errors.pop(0)
        return prepared

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        if self.errors and self.when_shifted:
            raise self.errors.pop(0)
        return super().apply(interventions)


def failing(made: ToyEngine, *errors: Exception) -> tuple[Failing, list[str]]:
    """Let the engine's simulator fail; the second value notes when it is discarded."""
    simulator = Failing(made.simulator._settings)
    simulator.errors = list(errors)
    made.simulator = simulator
    discarded: list[str] = []
    made.engine._simulators.discard = (  # type: ignore[method-assign]
        lambda suite: discarded.append(suite.name)
    )
    return simulator, discarded


def test_a_lost_worker_gets_one_more_chance(made: ToyEngine) -> None:
    simulator, discarded = failing(made, WorkerLost("gone"))
    pair = made.engine.pair(made.suite, cell_of(made.suite, "null"))
    assert (pair.clean.status, pair.clean.attempts) == ("done", 2)
    assert pair.shifted is not None
    assert (pair.shifted.status, pair.shifted.attempts) == ("done", 1)
    assert discarded == ["toy_suite"]
    assert len(simulator.prepared) == 3


def test_a_worker_lost_twice_is_an_error(made: ToyEngine) -> None:
    _, discarded = failing(made, WorkerLost("gone"), WorkerLost("gone again"))
    clean = made.engine.pair(made.suite, cell_of(made.suite, "null")).clean
    assert (clean.status, clean.attempts) == ("error", 2)
    assert clean.error == ("worker lost", "gone again")
    assert discarded == ["toy_suite"] * 2


@pytest.mark.parametrize(
    "error, kind, discards",
    [
        (SimulatorError("odd state"), "simulator", 1),
        (MissingAsset("no mesh"), "missing asset", 0),
        (UsageError("level too large for this scene"), "simulator", 0),
    ],
)
def test_other_errors_are_recorded_at_once(
    made: ToyEngine, error: Exception, kind: str, discards: int
) -> None:
    _, discarded = failing(made, error)
    clean = made.engine.pair(made.suite, cell_of(made.suite, "null")).clean
    assert clean.error == (kind, str(error))
    assert clean.attempts == 1
    assert len(discarded) == discards


def test_a_usage_error_in_the_middle_of_a_run_is_an_error_of_its_cell(made: ToyEngine) -> None:
    simulator, _ = failing(made, UsageError("the base cannot be moved here"))
    simulator.when_shifted = True
    pair = made.engine.pair(made.suite, cell_of(made.suite, "base-L1"))
    assert pair.clean.success is True
    assert pair.shifted is not None
    assert pair.shifted.error == ("simulator", "the base cannot be moved here")
    other = made.engine.pair(made.suite, cell_of(made.suite, "base-L2"))
    assert other.shifted is not None
    assert other.shifted.status == "done"


@pytest.mark.parametrize("bug", [ZeroDivisionError("a bug"), KeyError("bug"), AssertionError()])
def test_a_programming_error_is_raised_and_nothing_is_recorded(
    made: ToyEngine, bug: Exception
) -> None:
    failing(made, bug)
    with pytest.raises(type(bug)):
        made.engine.pair(made.suite, cell_of(made.suite, "null"))
    assert made.finished == []
    assert Store(made.directory, "reader").records() == {}


def test_a_policy_at_fault_is_recorded_and_the_simulator_is_kept(tmp_path: Path) -> None:
    made = ToyEngine(tmp_path, toy_suite(), policy=toy_policies.Raises())
    _, discarded = failing(made)
    clean = made.engine.pair(made.suite, cell_of(made.suite, "null")).clean
    assert clean.error is not None
    assert clean.error[0] == "policy"
    assert "unnorm_key" in clean.error[1]
    assert discarded == []


def test_replayed_frames_show_the_recorded_rollout(made: ToyEngine) -> None:
    cell = cell_of(made.suite, "base-L3")
    shifted = made.engine.pair(made.suite, cell).shifted
    assert shifted is not None
    wanted = made.engine.request(made.suite, cell)
    frames = replay_frames(made.engine, wanted, shifted, camera="front", every=7)
    assert frames.shape == (1 + -(-shifted.steps // 7), 16, 16, 3)
    assert frames.dtype == np.uint8


def test_a_replay_that_is_not_of_the_record_is_told(made: ToyEngine) -> None:
    cell = cell_of(made.suite, "base-L3")
    pair = made.engine.pair(made.suite, cell)
    assert pair.shifted is not None
    wanted, store = made.engine.request(made.suite, cell), made.engine.store

    def replay() -> None:
        assert pair.shifted is not None
        replay_frames(made.engine, wanted, pair.shifted, camera="front", every=4)

    path = store.root / "actions" / f"{pair.shifted.key}.npz"
    other = store.actions(pair.clean.key)
    assert other is not None
    np.savez_compressed(path, actions=other)
    with pytest.raises(ReplayDiffers, match="not those that the record is about"):
        replay()
    path.write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(UnreadableActions):
        replay()
    path.unlink()
    with pytest.raises(ReplayDiffers, match="gone"):
        replay()


def test_a_replay_under_another_request_is_told(made: ToyEngine) -> None:
    pair = made.engine.pair(made.suite, cell_of(made.suite, "base-L3"))
    wanted = made.engine.request(made.suite, cell_of(made.suite, "base-L3"))
    with pytest.raises(ReplayDiffers, match=r"recorded success True at step .*, replayed success"):
        replay_frames(made.engine, wanted, pair.clean, camera="front", every=4)
