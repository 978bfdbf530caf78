"""The two kinds of fault: a usage error of the caller, and an infrastructure error of the run.

Neither is ever counted as the policy failing at its task.
"""

from __future__ import annotations


class UsageError(Exception):
    """The request cannot be run as asked; the message says what to change. Exit code 4."""


class InfrastructureError(Exception):
    """A rollout could not be measured. The cell leaves every rate and is counted apart.

    Attributes:
        kind: a short stable word for records and reports, one a subclass.
        retry: whether a fresh simulator worker may give the rollout one more chance.
    """

    kind = "infrastructure"
    retry = False


class SimulatorError(InfrastructureError):
    """The simulator raised, or answered something that it must not answer."""

    kind = "simulator"


class WorkerLost(SimulatorError):
    """The simulator's process died or did not answer in time."""

    kind = "worker lost"
    retry = True


class MissingAsset(SimulatorError):
    """A file that the episode needs is not there. Never replaced by a fallback."""

    kind = "missing asset"


class NotAPair(InfrastructureError):
    """The two arms did not start from the same state; the message names the fields."""

    kind = "not a pair"


class InvalidScene(InfrastructureError):
    """After settling, the scene is not the one that the episode describes."""

    kind = "invalid scene"


class UnreachablePose(InfrastructureError):
    """The robot cannot be brought to the pose that a shift asks for."""

    kind = "unreachable pose"


class PolicyError(InfrastructureError):
    """The policy raised, or answered with actions that cannot be executed."""

    kind = "policy"


class PolicyTimeout(PolicyError):
    """A call of the policy did not return in time. What it returns later is never executed."""

    kind = "policy timeout"


class PolicyStuck(PolicyTimeout):
    """The policy cannot be asked any more: a call that timed out never returned, or it is gone."""

    kind = "policy stuck"


class PolicyServerError(PolicyError):
    """The policy's server refused, broke off, answered with what is no answer, or not in time.

    The next rollout, or the second attempt of this one, gets a new connection: what arrives late
    on the old one is never executed.
    """

    kind = "policy server"
    retry = True
