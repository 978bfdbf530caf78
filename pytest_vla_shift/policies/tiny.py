"""``tiny``: a small network that sees, in the package: no GPU, no server, no download.

It looks through two cameras, feels where its hand is and reads the instruction. Nothing of what it
is given is privileged, so that every shift of what is seen, said or done reaches it.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import math
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies import tiny_inputs, tiny_words
from pytest_vla_shift.policies.agreement import Row
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.policies.tiny_network import CHUNK, GRIPPER, MOTION, Network
from pytest_vla_shift.protocol.errors import PolicyError, UsageError
from pytest_vla_shift.protocol.identity import stable_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pytest_vla_shift.policies.agreement import SimulatorSide
    from pytest_vla_shift.policies.tiny_network import Answer
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

TRAINED = ("libero_object", "libero_spatial", "libero_goal")
"""Task suites with tasks that it was shown."""

PROPRIO = ("eef_pos", "eef_quat", "gripper_qpos")
"""What :func:`~.tiny_inputs.proprio` reads."""

UNSAID = ((0, 0), (0, 0))
"""Where position and rotation are, of a simulator that does not say."""

WEIGHTS = "weights/tiny.onnx"
"""Within this package's folder of policies."""


class Tiny:
    """Chunks of eight actions. Without a temperature nothing is random, and no seed matters.

    Each lane has a session of its own, and all share one network. Batches are not taken: on one
    core a batch costs as much as its parts, and a network run on several observations at once may
    round each of them otherwise than alone.

    Args:
        temperature: of sampling, 0 or more. Above 0 a motion is the network's mean plus so many of
            its standard deviations times a normal number, and the gripper is drawn from its logits
            divided by it. Every decision has a generator of its own, made of the rollout's seed and
            the decision's number.
        weights: an ONNX file of the same inputs and outputs in place of the package's own.
        checkpoint: the same, from ``--vla-checkpoint``.

    Raises:
        UsageError: onnxruntime or pillow is missing, the temperature is no such number, or the
            file is refused.
    """

    def __init__(
        self,
        temperature: str | float = "0",
        weights: str | None = None,
        checkpoint: str | None = None,
    ) -> None:
        if weights is not None and checkpoint is not None:
            raise UsageError(
                "tiny: weights are given twice: --vla-policy-arg=weights and --vla-checkpoint"
            )
        self._temperature = _temperature(temperature)
        self._network = Network(_path(weights if weights is not None else checkpoint))
        self._spec = PolicySpec(
            name="tiny",
            revision=_revision(self._network.digest),
            cameras=tiny_inputs.CAMERAS,
            action_dim=MOTION + 1,
            chunk=CHUNK,
            replan=CHUNK,
            seeded=self._temperature > 0.0,
            language=True,
            located=("weights",),
        )
        self._seed: int | None = None
        self._decision = 0

    @property
    def spec(self) -> PolicySpec:
        """Two cameras, the sentence, seven numbers an action, eight actions a decision."""
        return self._spec

    @property
    def parameters(self) -> int:
        """How many numbers its file holds."""
        return self._network.numbers

    def session(self) -> Tiny:
        """Another one with a rollout of its own; the network is shared."""
        other = copy.copy(self)
        other._seed, other._decision = None, 0
        return other

    def unsupported(self, task_suite: str, task: str) -> str | None:  # noqa: ARG002
        """Why it cannot be asked for a task: it was shown no task of that suite."""
        if task_suite in TRAINED:
            return None
        return (
            f"tiny was trained on tasks of {', '.join(TRAINED)} and on none of {task_suite!r}: that"
            " it fails there would say nothing about a shift"
        )

    def contract(self, side: SimulatorSide) -> Sequence[Row]:
        """What it sees and does against a suite and its simulator."""
        offered, seen = f"{side.height} x {side.width}", side.cameras
        least = tiny_inputs.SIZE
        sized = side.height == side.width >= least
        rows = [
            Row(
                f"image {camera}",
                f"square, {least} x {least} or more",
                offered if camera in seen else f"not there; has {', '.join(seen) or 'none'}",
                camera in seen and sized,
            )
            for camera in tiny_inputs.CAMERAS
        ]
        told = side.proprio
        absent = [name for name in PROPRIO if told and name not in told]
        rows.append(
            Row(
                "proprioception",
                ", ".join(PROPRIO),
                f"no {', '.join(absent)}" if absent else ", ".join(told) or "does not say",
                not absent,
            )
        )
        parts = [f"{side.meaning((index,))} {index}" for index in (0, 3, 6)]
        rows.append(
            Row(
                "action",
                "7 numbers in [-1, 1]: position 0, rotation 3, gripper 6",
                f"{side.action_dim} numbers in [{side.action_low:g}, {side.action_high:g}]:"
                f" {', '.join(parts)}",
                (side.action_dim, side.action_low, side.action_high) == (MOTION + 1, -1.0, 1.0)
                and (side.position, side.rotation) in (((0, 3), (3, 6)), UNSAID),
            )
        )
        return rows

    def reset(self, episode: EpisodeInfo, seed: int) -> None:  # noqa: ARG002
        """Begin a rollout. Of what it is told nothing is used: ``act`` reads the sentence."""
        self._seed, self._decision = seed, 0

    def act(self, observation: Observation) -> NDArray[np.float64]:
        """The next eight actions, (8, 7) in [-1, 1].

        Raises:
            PolicyError: called before ``reset``; a picture, a vector or the sentence is missing or
                of no form that it can read; or the network's answer is not finite.
        """
        if self._seed is None:
            raise PolicyError("act before reset: there is no rollout yet")
        answer = self._network.answer(
            tiny_inputs.pictures(observation),
            tiny_inputs.proprio(observation),
            tiny_words.token_ids(observation.instruction, self._network.vocabulary),
        )
        number, self._decision = self._decision, self._decision + 1
        if self._temperature == 0.0:
            return most_likely(answer)
        rng = np.random.default_rng(stable_seed("tiny", self._seed, number))
        return drawn(answer, self._temperature, rng)

    def close(self) -> None:
        """Nothing to free."""


def most_likely(answer: Answer) -> NDArray[np.float64]:
    """(8, 7): the means, clipped, and the gripper's likeliest command."""
    return _actions(answer.mean, answer.gripper.argmax(axis=-1))


def drawn(answer: Answer, temperature: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """(8, 7) drawn at a temperature above 0; two draws of ``rng``, whatever the answer."""
    normal = rng.standard_normal(answer.mean.shape)
    uniform = rng.random(len(answer.gripper))
    # From the largest logit on, so that a small temperature makes zeros of the others, not NaN.
    with np.errstate(over="ignore"):
        motion = answer.mean + temperature * (answer.scale * normal)
        below = (answer.gripper - answer.gripper.max(axis=-1, keepdims=True)) / temperature
    heaped = np.exp(below).cumsum(axis=-1)
    chosen = (uniform[:, None] * heaped[:, -1:] >= heaped[:, :-1]).sum(axis=-1)
    return _actions(motion, chosen)


def _actions(motion: NDArray[np.float64], gripper: NDArray[np.intp]) -> NDArray[np.float64]:
    commands = np.asarray(GRIPPER)[gripper]
    return np.concatenate([np.clip(motion, -1.0, 1.0), commands[:, None]], axis=-1)


def _temperature(given: str | float) -> float:
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0.0):
        raise UsageError(
            f"--vla-policy-arg=temperature: {given!r} is not a finite number of 0 or more"
        )
    return value


def _path(given: str | None) -> Path:
    if given is not None:
        return Path(given).expanduser()
    # Wheels are unpacked where they are installed, so that it is a file.
    return Path(str(resources.files("pytest_vla_shift.policies"))) / WEIGHTS


def _revision(weights: str) -> str:
    """Whatever could change an answer: weights, our sources, what computes and what resizes."""
    import onnxruntime
    import PIL

    computes = f"onnxruntime {onnxruntime.__version__} pillow {PIL.__version__}"
    return f"weights sha256:{weights[:16]} source {_sources()} {computes}"


@functools.cache
def _sources() -> str:
    digest = hashlib.sha256()
    package = resources.files("pytest_vla_shift.policies")
    for file in sorted(package.iterdir(), key=lambda entry: entry.name):
        if file.name.startswith("tiny") and file.name.endswith(".py"):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return f"sha256:{digest.hexdigest()[:16]}"
