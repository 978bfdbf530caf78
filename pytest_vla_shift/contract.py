"""What is checked between collection and the first rollout: do policy, suite and simulator fit?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla_shift.options import RunConfig
from pytest_vla_shift.protocol.errors import InfrastructureError, UsageError
from pytest_vla_shift.protocol.plan import Cell
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.attempts import SimulatorOptions
from pytest_vla_shift.simulators.factories import load_factory
from pytest_vla_shift.simulators.mending import mending_line

if TYPE_CHECKING:
    from pytest_vla_shift.policies.agreement import Row, SimulatorSide
    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.policies.settings import PolicySettings
    from pytest_vla_shift.rollouts.engine import Engine
    from pytest_vla_shift.simulators.protocol import SimulatorInfo

Planned = Sequence[tuple[str, Suite, Cell]]
"""Node id, suite and cell of every node that asks for a pair."""


def simulator_options(run: RunConfig, environment: Mapping[str, str]) -> SimulatorOptions:
    """How a simulator of this run is run; ``environment`` is what it has over ours."""
    return SimulatorOptions(
        envs=run.envs,
        rollout_timeout_s=run.rollout_timeout_s,
        recycle_rollouts=run.recycle_rollouts,
        recycle_bytes=run.recycle_bytes,
        environment=environment,
    )


def lane_options(
    run: RunConfig, environments: Sequence[Mapping[str, str]]
) -> list[SimulatorOptions]:
    """The same for each lane; empty where rollouts run one at a time in pytest's own thread."""
    return [simulator_options(run, each) for each in environments] if run.envs > 1 else []


def policy_settings(run: RunConfig) -> PolicySettings:
    """How this run's policy is reached.

    Raises:
        UsageError: the variable of the token is not set, or the checkpoint cannot be read.
    """
    from pytest_vla_shift.policies.settings import PolicySettings, read_checkpoint, read_token

    variable = run.policy_token
    return PolicySettings(
        url=run.policy_url,
        timeout_s=run.policy_timeout_s,
        token=None if variable is None else read_token(variable, "--vla-policy-token"),
        checkpoint=None if run.checkpoint is None else read_checkpoint(run.checkpoint),
        replan=run.replan,
    )


def open_policy(run: RunConfig, paths: Sequence[Path], ready: Callable[[], None]) -> Policy:
    """The run's policy: in a thread of its own, with time limits, unless it is to be debugged.

    Args:
        run: what was asked for.
        paths: where modules of policies may lie.
        ready: called before the policy is made, see :func:`~.policies.registry.resolve`.

    Raises:
        UsageError: it cannot be made.
    """
    from pytest_vla_shift.policies.registry import resolve
    from pytest_vla_shift.policies.threaded import in_thread

    name, args, settings = run.policy, run.policy_args, policy_settings(run)
    assert name is not None  # only a listing has none

    def make() -> Policy:
        return resolve(name, args, paths=paths, settings=settings, ready=ready)

    return make() if run.envs == 0 else in_thread(make, run.policy_timeout_s)


def check_contract(policy: Policy, planned: Planned) -> None:
    """Refuse a policy that does not fit the suites and tasks of a plan.

    Raises:
        UsageError: shows both sides.
    """
    for suite in {cell.suite: suite for _, suite, cell in planned}.values():
        _check_suite(policy, suite)
    for task_suite, task in sorted({(c.episode.task_suite, c.episode.task) for *_, c in planned}):
        _check_task(policy, task_suite, task)


def start_simulators(engine: Engine, planned: Planned) -> None:
    """Start what has rollouts to run, so that what is missing is said before the first one.

    Raises:
        UsageError: a simulator cannot start.
    """
    to_run: dict[str, tuple[Suite, int]] = {}
    for _, suite, cell in planned:
        _, count = to_run.get(suite.name, (suite, 0))
        if count < engine.at_once and engine.is_open(suite, cell):
            to_run[suite.name] = suite, count + 1
    for suite, count in to_run.values():
        try:
            engine.start_simulator(suite, count)
        except Exception as error:  # in this process (--vla-envs=0) it may raise anything
            raise UsageError(
                f"simulator {suite.simulator!r} of suite {suite.name!r} cannot start:"
                f" {error}{_mending(error)}"
            ) from error


def simulator_side(suite: Suite, info: SimulatorInfo) -> SimulatorSide:
    """What a suite and its simulator offer a policy."""
    from pytest_vla_shift.policies.agreement import SimulatorSide

    return SimulatorSide(
        simulator=info.name,
        cameras=suite.cameras,
        height=suite.height,
        width=suite.width,
        action_dim=info.action_dim,
        action_low=info.action_low,
        action_high=info.action_high,
        position=info.position,
        rotation=info.rotation,
        settle_action=info.settle_action,
        proprio=info.proprio,
    )


def _check_agreement(policy: Policy, suite: Suite, info: SimulatorInfo) -> None:
    """Ask a policy that can compare itself with a simulator."""
    from pytest_vla_shift.policies.agreement import side_by_side

    compare: Callable[[SimulatorSide], Sequence[Row]] | None = getattr(policy, "contract", None)
    if compare is None:
        return
    try:
        rows = compare(simulator_side(suite, info))
    except (UsageError, InfrastructureError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise UsageError(
            f"policy {policy.spec.name!r} raised in contract: {type(error).__name__}: {error}"
        ) from error
    if not all(row.fits for row in rows):
        raise UsageError(
            f"policy {policy.spec.name!r} does not fit suite {suite.name!r}; what does not is"
            " marked:\n" + side_by_side(rows, "policy", f"suite {suite.name}")
        )


def _check_suite(policy: Policy, suite: Suite) -> None:
    spec = policy.spec
    info = load_factory(suite.simulator).describe()
    absent = [camera for camera in suite.cameras if camera not in info.cameras]
    if absent:
        raise UsageError(
            f"{suite.source}: observation.cameras asks for {', '.join(absent)}, but simulator"
            f" {suite.simulator!r} has {', '.join(info.cameras)}"
        )
    _check_agreement(policy, suite, info)
    unknown = [camera for camera in spec.cameras if camera not in suite.cameras]
    if unknown:
        raise UsageError(
            f"policy {spec.name!r} looks through {', '.join(spec.cameras)}, but suite"
            f" {suite.name!r} has {', '.join(suite.cameras)}"
        )
    if spec.action_dim != info.action_dim:
        raise UsageError(
            f"policy {spec.name!r} gives actions of width {spec.action_dim}, but simulator"
            f" {info.name!r} takes {info.action_dim}"
        )


def _check_task(policy: Policy, task_suite: str, task: str) -> None:
    name = policy.spec.name
    try:
        reason = policy.unsupported(task_suite, task)
    except Exception as error:
        raise UsageError(
            f"policy {name!r} raised in unsupported: {type(error).__name__}: {error}"
        ) from error
    if reason is not None:
        raise UsageError(f"policy {name!r} cannot do {task_suite}/{task}: {reason}")


def _mending(error: Exception) -> str:
    """The line that mends a complaint raised in this process; a worker's has it already."""
    if isinstance(error, InfrastructureError | UsageError):
        return ""
    line = mending_line(f"{type(error).__name__}: {error}")
    return "" if line is None else f"\n{line}"
