"""Errors across the process boundary, and the error of a worker that is lost."""

from __future__ import annotations

import traceback

from pytest_vla_shift.protocol import errors
from pytest_vla_shift.protocol.errors import SimulatorError, UsageError, WorkerLost
from pytest_vla_shift.simulators import messages
from pytest_vla_shift.simulators.mending import mending_line
from pytest_vla_shift.simulators.wire import Frame

CROSSING: dict[str, type[errors.UsageError | errors.InfrastructureError]] = {
    cls.__name__: cls
    for cls in (
        errors.UsageError,
        errors.SimulatorError,
        errors.MissingAsset,
        errors.NotAPair,
        errors.InvalidScene,
        errors.UnreachablePose,
    )
}
"""Classes that arrive at the parent as what they are. WorkerLost is none: a live worker says it."""

TRACEBACK_CHARACTERS = 8_000
NOTED_CHARACTERS = 4_000
QUOTED_LINES = 6
"""Lines of a worker's output in an error's message; more of it is in a note of the error."""


def error_reply(seq: int, error: Exception) -> Frame:
    """An exception as kind, message and the traceback's end.

    A subclass travels as its nearest class of :data:`CROSSING`; what is none of ours travels as a
    SimulatorError that names its type.
    """
    kind = next((c.__name__ for c in type(error).__mro__ if c in CROSSING.values()), None)
    message = str(error)
    if kind is None:
        kind, message = SimulatorError.__name__, describe_exception(error)
    tail = "".join(traceback.format_exception(error))[-TRACEBACK_CHARACTERS:]
    return Frame(seq, "error", {"kind": kind, "message": message, "traceback": tail})


def describe_exception(error: BaseException) -> str:
    """A foreign exception in one line, with the line that mends it where we know one."""
    text = f"{type(error).__name__}: {error}"
    hint = mending_line(text)
    return f"{text}. {hint}" if hint else text


def read_error(reply: Frame) -> UsageError | errors.InfrastructureError:
    """The error of an ``error`` reply, the worker's traceback in a note.

    Raises:
        WireError: the reply does not read.
    """
    cls = CROSSING.get(messages.get(reply.body, "kind", str), SimulatorError)
    error = cls(messages.get(reply.body, "message", str))
    tail = messages.get(reply.body, "traceback", str).rstrip()
    error.add_note(f"in the simulator's process:\n{tail}")
    return error


def lost(what: str, output: str) -> WorkerLost:
    """The error of a worker that is gone, quoting what it last printed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    message = what
    if lines:
        message += "; its last output: " + " | ".join(_telling(lines))
    hint = mending_line(output)
    error = WorkerLost(f"{message}. {hint}" if hint else message)
    if len(lines) > QUOTED_LINES:
        error.add_note(f"the end of the simulator's output:\n{output[-NOTED_CHARACTERS:]}")
    return error


def _telling(lines: list[str]) -> list[str]:
    """The last lines; of a stack that faulthandler wrote, the innermost frames instead."""
    dumps = [n for n, line in enumerate(lines) if line.endswith("(most recent call first):")]
    if not dumps:
        return lines[-QUOTED_LINES:]
    first = max(0, dumps[-1] - 1)
    return lines[first : first + QUOTED_LINES]
