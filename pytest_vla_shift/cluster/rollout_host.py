"""The rollouts' side of the cluster: an actor with a simulator process, beside it on its node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_vla_shift import __version__
from pytest_vla_shift.cluster.actors import RemoteActor
from pytest_vla_shift.cluster.policy_host import Fault, plain
from pytest_vla_shift.cluster.remote_seat import RemoteSeat
from pytest_vla_shift.cluster.surroundings import Surroundings, node
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.errors import (
    InfrastructureError,
    SimulatorError,
    UsageError,
)
from pytest_vla_shift.rollouts.attempts import LocalRunner, Outcome, SimulatorOptions, Simulators
from pytest_vla_shift.rollouts.request import request
from pytest_vla_shift.simulators.factories import load_factory

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.suite import Suite
    from pytest_vla_shift.rollouts.request import RolloutRequest
    from pytest_vla_shift.rollouts.rollout import CleanStart
    from pytest_vla_shift.simulators.protocol import SimulatorInfo


@dataclass(frozen=True, slots=True)
class RolloutRecipe:
    """How a rollout actor is made.

    Attributes:
        options: how its simulators are run.
        policies: the policy's actors, its own one first.
        seat: the number of its seat there.
        spec: of the policy.
        policy_args: its arguments, for the key.
        policy_start_s: how long a policy that died may take to be started anew.
        version: of this package, in the process that runs pytest.
        surroundings: of that process.
    """

    options: SimulatorOptions
    policies: tuple[RemoteActor, ...]
    seat: int
    spec: PolicySpec
    policy_args: Mapping[str, str]
    policy_start_s: float
    version: str
    surroundings: Surroundings


class RolloutHost:
    """Runs in an actor; one rollout at a time. ``ping`` is answered meanwhile, by another thread.

    What is wrong with a rollout is part of its outcome, as with any other runner.
    """

    def __init__(self, recipe: RolloutRecipe) -> None:
        recipe.surroundings.enter()
        self._recipe = recipe
        self._seat = RemoteSeat(recipe.policies, recipe.seat, recipe.spec, recipe.policy_start_s)
        self._runner = LocalRunner(Simulators(recipe.options), self._seat)
        self._infos: dict[str, SimulatorInfo] = {}

    def ping(self) -> None:
        """A sign of life."""

    def check(self, expected: Mapping[str, SimulatorInfo]) -> str:
        """Why rollouts of this node would not be those that were asked for; empty if they are.

        Args:
            expected: simulator -> what it says of itself where pytest runs.
        """
        if __version__ != self._recipe.version:
            return (
                f"node {node()} has pytest-vla-shift {__version__}, and pytest runs with"
                f" {self._recipe.version}"
            )
        for name, there in expected.items():
            try:
                here = self._info(name)
            except UsageError as error:
                return f"node {node()}: {error}"
            if here != there:
                return (
                    f"node {node()} has another simulator {name!r} than the one where pytest runs:"
                    f" {_differences(_table(here), _table(there))}"
                )
        return ""

    def start(self, suite: Suite) -> Fault | None:
        """Start the simulator that a suite's first rollout will use; why it cannot."""
        try:
            self._runner.start(suite)
        except (UsageError, InfrastructureError) as error:
            return plain(error)
        except Exception as error:
            return SimulatorError(f"{type(error).__name__}: {error}")
        return None

    def run(self, wanted: RolloutRequest, start: CleanStart | None, attempts: int) -> Outcome:
        """The rollout's outcome, after at most ``attempts``."""
        problem = self._other_rollout(wanted)
        if problem:
            # Not the worker's fault in the sense of another try: this node is not fit.
            outcome = Outcome(None, SimulatorError(problem), 1, 0.0)
        else:
            outcome = self._runner.run(wanted, start, attempts)
        error = outcome.error
        if error is not None:
            sent = plain(error)
            assert isinstance(sent, InfrastructureError)
            outcome = replace(outcome, error=sent)
        place = {"node": node(), "policy": self._seat.place}
        return replace(outcome, place={name: where for name, where in place.items() if where})

    def _other_rollout(self, wanted: RolloutRequest) -> str:
        """What would be measured here instead; empty if it is what was asked for."""
        recipe = self._recipe
        here = request(
            wanted.suite,
            wanted.episode,
            wanted.condition,
            self._info(wanted.suite.simulator),
            recipe.spec,
            recipe.policy_args,
            wanted.replicate,
        )
        if here.key == wanted.key:
            return ""
        return (
            f"node {node()} would run another rollout than the one asked for:"
            f" {_differences(here.identity, wanted.identity)}"
        )

    def _info(self, simulator: str) -> SimulatorInfo:
        if simulator not in self._infos:
            self._infos[simulator] = load_factory(simulator).describe()
        return self._infos[simulator]


def _table(info: SimulatorInfo) -> dict[str, object]:
    return {name: getattr(info, name) for name in info.__dataclass_fields__}


def _differences(here: object, there: object, where: str = "") -> str:
    """``versions.mujoco 3.10.0, not 3.3.7``: what two nested tables do not share."""
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        names = [name for name in {**there, **here} if here.get(name) != there.get(name)]
        return ", ".join(
            _differences(here.get(name), there.get(name), f"{where}.{name}" if where else str(name))
            for name in names
        )
    return f"{where} {here}, not {there}"
