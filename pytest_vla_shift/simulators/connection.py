"""Requests to a worker process and replies from it, within deadlines."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import pytest_vla_shift
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.simulators import faults, messages, wire
from pytest_vla_shift.simulators.process import WorkerProcess
from pytest_vla_shift.simulators.wire import Frame, WireError

if TYPE_CHECKING:
    from pytest_vla_shift.simulators.wire import Array

CLOSE_TIMEOUT_S = 10.0
REAP_TIMEOUT_S = 2.0
"""A closed channel means a dying process; this is how long its exit status may take."""


class Connection:
    """One worker process and the channel to it.

    After a timeout, a death, nonsense or an interruption the process is killed and the connection
    is of no further use: nothing that a worker says too late is ever read.
    """

    def __init__(
        self,
        python: str,
        frames_fd: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process.

        Raises:
            UsageError: ``python`` cannot be executed.
        """
        self._python = python
        self._process = WorkerProcess(python, frames_fd, environment or {})
        self._seq = 0
        # For an interpreter that ends without close().
        self._at_exit = weakref.finalize(self, self._process.kill)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once it was killed; a death that nobody has noticed yet shows at the next call."""
        return self._at_exit.alive

    def greet(self, within_s: float) -> None:
        """Wait until the worker is up, and see that it speaks our language.

        Raises:
            UsageError: the worker's interpreter has another release of this package.
            WorkerLost: it did not start.
        """
        reply = self.call("hello", within_s=within_s, limit=f"the {within_s:g} s for starting")
        with self.reading():
            version = messages.get(reply.body, "wire", int)
            package = messages.get(reply.body, "package", str)
        if (version, package) != (wire.VERSION, pytest_vla_shift.__version__):
            self.kill()
            raise UsageError(
                f"{self._python} has pytest-vla-shift {package} and this process has"
                f" {pytest_vla_shift.__version__}: install the same release in both"
            )

    def call(
        self,
        op: str,
        body: Mapping[str, object] | None = None,
        arrays: Sequence[Array] = (),
        *,
        within_s: float,
        limit: str = "its deadline",
        where: str = "",
    ) -> Frame:
        """One request and its reply.

        Args:
            op: the operation.
            body: its JSON.
            arrays: its arrays.
            within_s: seconds of wall time that the reply may take.
            limit: the deadline's name for people, ``the 60 s that a rollout has``.
            where: what the worker is busy with, for people.

        Raises:
            WorkerLost: it died, hung or answered nonsense; it is killed.
            UsageError, InfrastructureError: raised by the simulator; the worker lives on.
        """
        self._seq += 1
        request = Frame(self._seq, op, body or {}, arrays)
        doing = f"{op!r}{f' ({where})' if where else ''}"
        try:
            deadline = time.monotonic() + within_s
            wire.send(self._process.channel, request, deadline)
            reply = wire.receive(self._process.channel, deadline)
        except TimeoutError:
            self._process.dump_stack()
            self._lose(f"did not answer {doing} within {limit} and was killed")
        except wire.ChannelClosed:
            ended = self._process.ended(within_s=REAP_TIMEOUT_S)
            how = self._process.exit_word() if ended else "closed its channel"
            self._lose(f"{how} during {doing}")
        except WireError as error:
            self._lose(f"answered {doing} with no frame of ours: {error}")
        except BaseException:
            # Interrupted half-way, by Ctrl-C for example: the reply would come too late.
            self.kill()
            raise
        if reply.seq != request.seq:
            self._lose(f"answered request {reply.seq} when asked {request.seq}, {doing}")
        if reply.op == "error":
            with self.reading():
                raised = faults.read_error(reply)
            raise raised
        return reply

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """A reply that does not read within this block is a lost worker."""
        try:
            yield
        except WireError as error:
            self._lose(f"answered what does not read: {error}")

    def trim_output(self) -> None:
        """Keep what the worker printed from growing without bound."""
        self._process.trim_output()

    def close(self) -> None:
        """Let the simulator free its contexts, then end the process. Idempotent; never raises."""
        if self.alive:
            with contextlib.suppress(Exception):
                self.call("close", within_s=CLOSE_TIMEOUT_S)
                self._process.ended(CLOSE_TIMEOUT_S)
        self.kill()

    def terminate(self) -> None:
        """From another thread: end the process, and leave its channel to the thread that waits."""
        self._process.terminate()

    def kill(self) -> None:
        """End the process at once. Idempotent."""
        self._at_exit()

    def _lose(self, what: str) -> NoReturn:
        tail = self._process.output_tail()
        self.kill()
        raise faults.lost(f"the simulator's process {what}", tail)
