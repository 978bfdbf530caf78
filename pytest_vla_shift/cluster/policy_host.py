"""The policy's side of the cluster: an actor with the policy, and seats for rollouts elsewhere."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_vla_shift.cluster.surroundings import Surroundings, node
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.threaded import in_thread
from pytest_vla_shift.protocol import errors
from pytest_vla_shift.protocol.errors import InfrastructureError, PolicyError, UsageError
from pytest_vla_shift.rollouts.desk import Desk, check_lanes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.agreement import Row, SimulatorSide
    from pytest_vla_shift.policies.settings import PolicySettings
    from pytest_vla_shift.policies.threaded import ThreadedPolicy
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation
    from pytest_vla_shift.rollouts.seat import Seat

Kind = TypeVar("Kind", bound="np.generic")
Fault = UsageError | InfrastructureError


@dataclass(frozen=True, slots=True)
class PolicyRecipe:
    """How a policy actor makes its policy.

    Attributes:
        name, args: as ``--vla-policy`` and ``--vla-policy-arg`` say.
        settings: how the policy is reached.
        seats: numbers of the seats that are kept for its own rollouts.
        surroundings: of the process that runs pytest.
    """

    name: str
    args: Mapping[str, str]
    settings: PolicySettings
    seats: tuple[int, ...]
    surroundings: Surroundings


@dataclass(frozen=True, slots=True)
class Opened:
    """A policy is made, or why not. ``place``: node and GPU, for people."""

    spec: PolicySpec | None = None
    place: str = ""
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A policy was reset. ``token`` stands for the rollout at every further question."""

    opened: Opened
    token: str = ""
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An action chunk, or why there is none. ``seconds``: within the policy since the reset."""

    chunk: NDArray[np.float64] | None = None
    seconds: float = 0.0
    fault: Fault | None = None


class PolicyHost:
    """Runs in an actor whose methods are called by several threads of it.

    Nothing is raised: what is wrong is part of an answer, so that it arrives as what it is.

    Ray may start the actor anew after a crash. The policy then knows nothing of the rollouts that
    were under way, and their tokens are refused: a policy that was never reset must not drive.
    """

    def __init__(self, recipe: PolicyRecipe) -> None:
        recipe.surroundings.enter()
        self._recipe = recipe
        self._life = uuid.uuid4().hex
        self._count = itertools.count()
        self._making = threading.Lock()
        self._policy: ThreadedPolicy | None = None
        self._desk: Desk | None = None
        self._opened = Opened()
        self._seats: dict[int, Seat] = {}
        self._tokens: dict[int, str] = {}
        self._places: dict[int, threading.Lock] = {}

    def ping(self) -> None:
        """A sign of life."""

    def open(self) -> Opened:
        """Make the policy, once."""
        with self._making:
            if self._desk is None and self._opened.fault is None:
                self._opened = self._open()
            return self._opened

    def unsupported(self, task_suite: str, task: str) -> str | Fault | None:
        """What the policy says of a task; made first if the actor was started anew since."""
        opened = self.open()
        if opened.fault is not None or self._policy is None or self._desk is None:
            return opened.fault
        try:
            with self._desk.held():
                return self._policy.unsupported(task_suite, task)
        except Exception as error:
            return UsageError(f"{type(error).__name__}: {error}")

    def contract(self, side: SimulatorSide) -> Sequence[Row] | Fault:
        """What the policy says of a simulator; nothing if it does not compare itself with any."""
        opened = self.open()
        if opened.fault is not None:
            return opened.fault
        compare = getattr(self._policy, "contract", None)
        if compare is None or self._desk is None:
            return ()
        try:
            with self._desk.held():
                return list(compare(side))
        except Exception as error:
            return UsageError(f"{type(error).__name__}: {error}")

    def begin(self, number: int, info: EpisodeInfo, seed: int) -> Begun:
        """Reset the policy for the rollout at seat ``number``."""
        opened = self.open()
        if opened.fault is not None:
            return Begun(opened, fault=opened.fault)
        with self._place(number):
            self._tokens.pop(number, None)
            try:
                self._seat(number).begin(info, seed)
            except (UsageError, InfrastructureError) as error:
                return Begun(opened, fault=plain(error))
            token = self._tokens[number] = f"{self._life}/{next(self._count)}"
            return Begun(opened, token)

    def ask(self, number: int, token: str, observation: Observation) -> Answer:
        """The next action chunk for the rollout that was given ``token``."""
        with self._place(number):
            if self._tokens.get(number) != token:
                return Answer(
                    fault=PolicyError("the policy's process died and was started anew: the rollout")
                )
            seat = self._seats[number]
            try:
                chunk = seat.ask(_own(observation))
            except (UsageError, InfrastructureError) as error:
                return Answer(seconds=seat.policy_seconds, fault=plain(error))
            return Answer(chunk, seat.policy_seconds)

    def close(self) -> str:
        """Let the policy part; what it raised, as text."""
        try:
            if self._policy is not None:
                self._policy.close()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def _open(self) -> Opened:
        recipe = self._recipe
        place = _place()

        def make() -> object:
            paths = [Path(path) for path in recipe.surroundings.paths]
            return resolve(recipe.name, recipe.args, paths=paths, settings=recipe.settings)

        try:
            self._policy = in_thread(make, recipe.settings.timeout_s)  # type: ignore[arg-type]
            check_lanes(self._policy, len(recipe.seats))
            self._desk = Desk(self._policy)
            self._seats = {number: self._desk.seat() for number in recipe.seats}
        except (UsageError, InfrastructureError) as error:
            return Opened(place=place, fault=plain(error))
        return Opened(self._policy.spec, place)

    def _place(self, number: int) -> threading.Lock:
        """One call at a time at a seat: a dead rollout's last question ends before the next."""
        with self._making:
            return self._places.setdefault(number, threading.Lock())

    def _seat(self, number: int) -> Seat:
        with self._making:
            assert self._desk is not None  # opened before
            if number not in self._seats:
                # Rollouts of other nodes come while its own ones are asking.
                with self._desk.held():
                    self._seats[number] = self._desk.seat()
            return self._seats[number]


def plain(error: Fault) -> Fault:
    """The same fault as one of protocol/errors.py, which every process can read.

    A subclass of the user's own may not be importable elsewhere, or not be made of a text alone.
    """
    for kind in type(error).__mro__:
        if kind.__module__ == errors.__name__:
            break
    else:  # not reached: both bases are of that module
        raise error
    made: Fault = kind(str(error))
    if isinstance(error, InfrastructureError) and isinstance(made, InfrastructureError):
        made.kind, made.retry = error.kind, error.retry
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    return made


def _own(observation: Observation) -> Observation:
    """The same with arrays that may be written to, as a policy elsewhere gets them."""

    def copied(arrays: Mapping[str, NDArray[Kind]]) -> dict[str, NDArray[Kind]]:
        return {name: array.copy() for name, array in arrays.items()}

    privileged = observation.privileged
    if privileged is not None:
        privileged = replace(
            privileged,
            positions=copied(privileged.positions),
            quaternions=copied(privileged.quaternions),
        )
    return replace(
        observation,
        images=copied(observation.images),
        proprio=copied(observation.proprio),
        privileged=privileged,
    )


def _place() -> str:
    """``node-3`` or ``node-3 GPU 0``."""
    import ray

    gpus = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    return " ".join([node(), *(f"GPU {gpu}" for gpu in gpus)])
