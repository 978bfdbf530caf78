"""A LeRobot checkpoint in this process, as a policy."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from pytest_vla_shift.policies import mapping
from pytest_vla_shift.policies.agreement import Row, SimulatorSide, side_by_side
from pytest_vla_shift.policies.fitting import profile_rows
from pytest_vla_shift.policies.lerobot_features import ACTION
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.profile import MappingError, Profile
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.lerobot_checkpoint import Loaded, Tensor
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

Mode = Literal["chunk", "step"]

CHUNKED = frozenset(
    {
        "act",
        "eo1",
        "evo1",
        "fastwam",
        "groot",
        "molmoact2",
        "pi0",
        "pi05",
        "pi0_fast",
        "smolvla",
        "vla_jepa",
        "wall_x",
        "xvla",
    }
)
"""Policies whose ``select_action`` is a queue of what ``predict_action_chunk`` gives, and nothing
more: read in lerobot 0.6.1. Any other one is asked at every step, as lerobot-eval asks all."""

MUTE = frozenset({"act", "diffusion", "gaussian_actor", "tdmpc", "vqbet"})
"""Policies that read no instruction."""


def mode_of(loaded: Loaded) -> Mode:
    """How a checkpoint is to be asked: for chunks only where no observation between is missed."""
    keeps = (
        cast("int", loaded.says("n_obs_steps", 1)) > 1
        or loaded.says("temporal_ensemble_coeff") is not None
        or loaded.says("type") not in CHUNKED
    )
    return "step" if keeps else "chunk"


@dataclass(frozen=True, slots=True)
class LeRobotChoices:
    """What a LeRobot policy is, beside its checkpoint.

    Attributes:
        name: what ``--vla-policy`` was given.
        revision: of the adapter, the library and the arguments, for the key.
        profile: with the pictures and sizes that the checkpoint takes.
        rows: the checkpoint against the profile.
        mode: ``chunk`` asks ``predict_action_chunk`` and executes ``n_action_steps`` of it;
            ``step`` asks ``select_action`` at every control step.
        seeded, language: for the spec.
    """

    name: str
    revision: str
    profile: Profile
    rows: tuple[Row, ...]
    mode: Mode
    seeded: bool
    language: bool


class LeRobotPolicy:
    """A checkpoint that is asked here. Tried once when it is made.

    Args:
        loaded: the checkpoint.
        choices: what it is.

    Raises:
        UsageError: checkpoint and profile do not agree, or the trial fails.
    """

    def __init__(self, loaded: Loaded, choices: LeRobotChoices) -> None:
        self._loaded = loaded
        self._choices = choices
        self._agree()
        self._spec = self._declare(self._try())
        self._begin()

    @property
    def spec(self) -> PolicySpec:
        """As the checkpoint declares it."""
        return self._spec

    @property
    def profile(self) -> Profile:
        """How its observations and actions are laid out."""
        return self._choices.profile

    def unsupported(self, task_suite: str, task: str) -> str | None:  # noqa: ARG002
        """None: no checkpoint says which tasks it knows."""
        return None

    def contract(self, side: SimulatorSide) -> Sequence[Row]:
        """The checkpoint and its profile against a suite and its simulator."""
        rows = profile_rows(self.profile, side, self._spec.replan)
        return [*self._choices.rows, *rows]

    def reset(self, episode: EpisodeInfo, seed: int) -> None:  # noqa: ARG002
        """Empty its queues. What it draws comes from torch's generators, which the rollout owns."""
        self._begin()

    def act(self, observation: Observation) -> NDArray[np.float64]:
        """(T, 7): a chunk, or one action where it is asked at every step."""
        chunk = self._ask(observation)
        if self._choices.mode == "step" and len(chunk) != 1:
            raise MappingError(f"select_action gave {len(chunk)} actions, not one")
        return chunk

    def close(self) -> None:
        """Nothing to free that Python does not."""

    def _begin(self) -> None:
        self._loaded.model.reset()
        self._loaded.before.reset()
        self._loaded.after.reset()

    def _ask(self, observation: Observation) -> NDArray[np.float64]:
        loaded, profile = self._loaded, self.profile
        sent = mapping.payload(profile, observation)
        arrays = {key: value for key, value in sent.items() if isinstance(value, np.ndarray)}
        with loaded.inference():
            frame = loaded.before(loaded.prepare(arrays, observation.instruction))
            if self._choices.mode == "step":
                raw = _array(loaded.after(loaded.model.select_action(frame)))
                found = raw if raw.ndim != 2 else raw[:, None]
            else:
                found = _array(loaded.after(loaded.model.predict_action_chunk(frame)))
        if found.ndim != 3 or len(found) != 1:
            raise MappingError(f"it gave actions of shape {list(found.shape)} for one observation")
        return mapping.actions(profile, {ACTION: found[0]})

    def _agree(self) -> None:
        choices = self._choices
        if all(row.fits for row in choices.rows):
            return
        raise UsageError(
            f"policy {choices.name!r}: the checkpoint and profile {choices.profile.name!r} do not"
            " agree:\n"
            + side_by_side(choices.rows, "checkpoint", f"profile {choices.profile.name}")
        )

    def _try(self) -> int:
        """How many actions it answers a plain observation with."""
        self._begin()
        try:
            return len(self.act(probe_observation(self.profile)))
        except Exception as error:
            raise UsageError(
                f"policy {self._choices.name!r} cannot answer a trial observation"
                f" ({EPISODE.instruction!r}) of profile {self.profile.name!r}:"
                f" {type(error).__name__}: {error}"
            ) from error

    def _declare(self, tried: int) -> PolicySpec:
        choices, loaded = self._choices, self._loaded
        steps = cast("int", loaded.says("n_action_steps", tried))
        chunked = choices.mode == "chunk"
        return PolicySpec(
            name=choices.name,
            revision=choices.revision,
            cameras=self.profile.cameras,
            action_dim=self.profile.action_dim,
            chunk=tried,
            replan=min(tried, steps) if chunked else 1,
            seeded=choices.seeded,
            language=choices.language,
            stateless=chunked,
            # What lies where, and who may be asked for it: the profile's digest, the kind of device
            # and the commit are in the revision.
            located=("profile", "device", "online"),
        )


class LeRobotSessions(LeRobotPolicy):
    """One whose queues can be had once for each rollout, beside the weights that all share."""

    def session(self) -> LeRobotSessions:
        """The same weights with queues, histories and processors of their own.

        Raises:
            UsageError: the checkpoint holds what cannot be copied.
        """
        loaded = self._loaded
        # Parameters stand for themselves; everything else, buffers too, is copied with what it
        # refers to: the postprocessor may read the state that the preprocessor saw.
        memo = {id(parameter): parameter for parameter in loaded.model.parameters()}
        try:
            model, before, after = copy.deepcopy((loaded.model, loaded.before, loaded.after), memo)
        except Exception as error:
            raise UsageError(
                f"policy {self._choices.name!r} cannot serve several rollouts at once:"
                f" {type(error).__name__}: {error}"
            ) from error
        other = object.__new__(LeRobotSessions)
        other._loaded = replace(loaded, model=model, before=before, after=after)
        other._choices, other._spec = self._choices, self._spec
        other._begin()
        return other


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().float().cpu().numpy()
