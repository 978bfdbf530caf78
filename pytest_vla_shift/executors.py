"""Where rollouts run: in processes of this host, or as actors of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla_shift.contract import (
    lane_options,
    open_policy,
    policy_settings,
    simulator_options,
)
from pytest_vla_shift.options import RunConfig
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.rollouts.attempts import Runner, SimulatorOptions


def check_executor(run: RunConfig, *, distributed: bool) -> None:
    """Refuse options that mean nothing on a cluster, and a cluster without Ray.

    Args:
        run: what was asked for.
        distributed: whether pytest-xdist was asked for workers.

    Raises:
        UsageError: says what to use instead.
    """
    if run.executor != "ray":
        return
    from pytest_vla_shift.cluster.connection import require_ray

    require_ray()
    if distributed:
        raise UsageError(
            "--vla-executor=ray runs several rollouts at once by itself: use --vla-envs=N in place"
            " of -n"
        )
    if run.envs == 0:
        raise UsageError(
            "--vla-executor=ray and --vla-envs=0 exclude each other: a simulator in the pytest"
            " process is not on a cluster"
        )
    for option, given in (("--vla-gpus", run.gpus), ("--vla-render-gpus", run.render_gpus)):
        if given is not None:
            raise UsageError(
                f"--vla-executor=ray and {option} exclude each other: Ray gives out the GPUs of its"
                " nodes (ray start --num-gpus=N)"
            )


@dataclass(frozen=True, slots=True)
class Executor:
    """A policy, and those who run its rollouts.

    Attributes:
        policy: the run's.
        options: how the simulators of pytest's own thread are run.
        lanes: how those of each lane of this process are run; empty for one rollout at a time.
        runners: those of a cluster, a lane each; empty without one.
    """

    policy: Policy
    options: SimulatorOptions
    lanes: Sequence[SimulatorOptions] = ()
    runners: Sequence[Runner] = ()


def open_executor(
    run: RunConfig,
    paths: Sequence[Path],
    environments: Sequence[Mapping[str, str]],
    ready: Callable[[], None],
) -> Executor:
    """What this run was asked to run on.

    Args:
        run: what was asked for.
        paths: where modules of policies may lie.
        environments: what the simulators of each lane have over our environment variables.
        ready: called before the policy is made.

    Raises:
        UsageError: the policy, or its cluster, cannot be had.
    """
    options = simulator_options(run, environments[0])
    if run.executor == "ray":
        return _on_cluster(run, paths, options, ready)
    policy = open_policy(run, paths, ready)
    return Executor(policy, options, lane_options(run, environments))


def _on_cluster(
    run: RunConfig, paths: Sequence[Path], options: SimulatorOptions, ready: Callable[[], None]
) -> Executor:
    from pytest_vla_shift.cluster.policy import ClusterRun, open_cluster

    assert run.policy is not None  # only a listing has none
    asked = ClusterRun(
        policy=run.policy,
        policy_args=run.policy_args,
        settings=policy_settings(run),
        paths=paths,
        start_s=run.policy_start_s,
        envs=run.envs,
        # Which GPU draws is the node's to say.
        options=replace(options, environment={}),
    )
    policy = open_cluster(asked, ready)
    return Executor(policy, options, runners=policy.runners())
