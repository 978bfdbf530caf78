"""The policy of a run on a cluster, as the process that runs pytest sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pytest_vla_shift import __version__
from pytest_vla_shift.cluster.actors import ActorLost, RemoteActor
from pytest_vla_shift.cluster.connection import Connection, require_ray
from pytest_vla_shift.cluster.policy_host import Opened, PolicyHost, PolicyRecipe
from pytest_vla_shift.cluster.remote_seat import RemoteSeat
from pytest_vla_shift.cluster.rollout_actors import RayRunner, RolloutActors
from pytest_vla_shift.cluster.rollout_host import RolloutHost, RolloutRecipe
from pytest_vla_shift.cluster.surroundings import Surroundings
from pytest_vla_shift.policies.settings import FIRST
from pytest_vla_shift.policies.threaded import PARTING_S
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.agreement import Row, SimulatorSide
    from pytest_vla_shift.policies.protocol import PolicySpec
    from pytest_vla_shift.policies.settings import PolicySettings
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation
    from pytest_vla_shift.rollouts.attempts import Runner, SimulatorOptions

SILENCE_S = 60.0
"""An actor that gives no sign of life for so long counts as lost."""

RESTARTS = 1
"""A policy whose process dies is started anew so often; then the run stops."""


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """What a run asks of a cluster.

    Attributes:
        policy, policy_args, settings: as for a policy of this process.
        paths: where modules of policies may lie.
        start_s: how long an actor may take to be placed and started, with the policy's making.
        envs: rollouts at once.
        options: how simulators are run.
    """

    policy: str
    policy_args: Mapping[str, str]
    settings: PolicySettings
    paths: Sequence[Path]
    start_s: float
    envs: int
    options: SimulatorOptions


class ClusterPolicy:
    """The Policy protocol, answered by policy actors: one for each GPU, or one if there is none.

    All of them are the same policy, or the run is refused. Closing it ends all actors of the run.
    """

    def __init__(self, run: ClusterRun) -> None:
        """Connect, make the policy, and start the rollout actors.

        Raises:
            UsageError: any of it cannot be done, or the cluster is too small.
        """
        self._run = run
        self._surroundings = Surroundings.here([str(path) for path in run.paths])
        self._connection = Connection(run.envs)
        self._policies: list[RemoteActor] = []
        self._rollouts: RolloutActors | None = None
        self._seat: RemoteSeat | None = None
        try:
            count = self._fitting()
            self._policies = [
                self._policy_actor(place, tuple(range(place, run.envs, count)))
                for place in range(count)
            ]
            self._spec = self._open()
            self._rollouts = RolloutActors(self._rollout_actor, run.envs, run.start_s)
            self._rollouts.open()
        except BaseException:
            self._end()
            raise

    @property
    def spec(self) -> PolicySpec:
        return self._spec

    def runners(self) -> Sequence[Runner]:
        """One for each rollout at once."""
        assert self._rollouts is not None  # made in __init__
        return [RayRunner(self._rollouts) for _ in range(self._run.envs)]

    def unsupported(self, task_suite: str, task: str) -> str | None:
        said = self._policies[0].call("unsupported", task_suite, task)
        if isinstance(said, Exception):
            raise said
        return None if said is None else str(said)

    def contract(self, side: SimulatorSide) -> Sequence[Row]:
        """What the policy says of a simulator; nothing if it does not compare itself with any."""
        said = self._policies[0].call("contract", side)
        if isinstance(said, Exception):
            raise said
        return cast("Sequence[Row]", said)

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        """At a seat of its own, beside those of the rollouts: for audits of this process."""
        if self._seat is None:
            self._seat = RemoteSeat(
                self._policies_for(0), self._run.envs, self._spec, self._run.start_s
            )
        self._seat.begin(episode, seed)

    def act(self, observation: Observation) -> NDArray[np.float64]:
        assert self._seat is not None  # reset before
        return self._seat.ask(observation)

    def close(self) -> None:
        """Let the policies part, end all actors, and disconnect. Idempotent."""
        for policy in self._policies:
            try:
                trouble = policy.call("close", limit_s=2 * PARTING_S)
            except ActorLost as error:
                trouble = str(error)
            if trouble:
                logging.getLogger(__name__).warning("the policy raised in close: %s", trouble)
        self._end()

    def _fitting(self) -> int:
        """How many policy actors there will be, if the cluster is large enough."""
        envs, resources = self._run.envs, self._connection.resources()
        gpus = int(resources.get("GPU", 0))
        policies = min(gpus, envs) or 1
        cpus, needed = int(resources.get("CPU", 0)), envs + policies
        if cpus < needed:
            raise UsageError(
                f"--vla-envs={envs} takes {needed} CPUs of the Ray cluster, one a rollout and one a"
                f" policy, and it has {cpus}"
            )
        return policies

    def _policy_actor(self, place: int, seats: tuple[int, ...]) -> RemoteActor:
        import ray

        run = self._run
        gpus = 1 if self._connection.resources().get("GPU", 0) else 0
        recipe = PolicyRecipe(
            run.policy,
            run.policy_args,
            run.settings,
            seats,
            self._surroundings,
        )
        handle = (
            ray.remote(PolicyHost)
            .options(
                num_cpus=1,
                num_gpus=gpus,
                # A call a rollout, also of those whose own policy is gone; another of one that
                # died meanwhile; and signs of life.
                max_concurrency=2 * run.envs + 4,
                max_restarts=RESTARTS,
            )
            .remote(recipe)
        )
        # Its own time limits come first.
        return RemoteActor(
            handle, f"policy actor {place}", FIRST * run.settings.timeout_s + SILENCE_S
        )

    def _open(self) -> PolicySpec:
        """The spec on which all policy actors agree."""
        waiting = [policy.begin("open") for policy in self._policies]
        found: list[Opened] = []
        for policy, reference in zip(self._policies, waiting, strict=True):
            try:
                opened = cast("Opened", policy.finish(reference, self._run.start_s))
            except ActorLost as error:
                raise UsageError(
                    f"policy {self._run.policy!r} cannot be made on the cluster: {error}"
                ) from None
            if opened.fault is not None:
                raise opened.fault
            found.append(opened)
        first = found[0]
        assert first.spec is not None  # no fault
        for opened in found[1:]:
            if opened.spec != first.spec:
                raise UsageError(
                    f"policy {self._run.policy!r} is not the same on all nodes: {first.spec} on"
                    f" {first.place}, {opened.spec} on {opened.place}"
                )
        return first.spec

    def _rollout_actor(self, place: int) -> RemoteActor:
        import ray

        run = self._run
        recipe = RolloutRecipe(
            run.options,
            self._policies_for(place),
            place,
            self._spec,
            run.policy_args,
            run.start_s,
            __version__,
            self._surroundings,
        )
        handle = (
            ray.remote(RolloutHost)
            .options(num_cpus=1, max_concurrency=2, scheduling_strategy="SPREAD")
            .remote(recipe)
        )
        return RemoteActor(handle, f"rollout actor {place}", SILENCE_S)

    def _policies_for(self, place: int) -> tuple[RemoteActor, ...]:
        """All of them, a rollout's own one first."""
        own = place % len(self._policies)
        return (*self._policies[own:], *self._policies[:own])

    def _end(self) -> None:
        if self._rollouts is not None:
            self._rollouts.abandon()
        for policy in self._policies:
            policy.kill()
        self._policies = []
        self._connection.close()


def open_cluster(run: ClusterRun, ready: Callable[[], None]) -> ClusterPolicy:
    """The run's policy on a cluster.

    Args:
        run: what is asked for.
        ready: called before the policy is made, when Ray is known to be installed.

    Raises:
        UsageError: it cannot be made.
    """
    require_ray()
    ready()
    return ClusterPolicy(run)
