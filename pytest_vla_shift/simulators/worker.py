"""The worker: one simulator in a process of its own, answering one request at a time.

Started by ``process.py`` as ``python -P -m pytest_vla_shift.simulators.worker CHANNEL LIFELINE
[FRAMES]``, the three being inherited file descriptors.
An exception of the simulator is an answer like any other, and the worker lives on. It ends when it
is told to, when the channel closes, and at once, whatever it is doing, when its parent dies.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import pytest_vla_shift
from pytest_vla_shift.protocol.errors import SimulatorError
from pytest_vla_shift.simulators import faults, messages, wire
from pytest_vla_shift.simulators.factories import load_factory
from pytest_vla_shift.simulators.frames import FrameMemory
from pytest_vla_shift.simulators.wire import ChannelClosed, Frame

if TYPE_CHECKING:
    from pytest_vla_shift.simulators.protocol import Simulator


class Worker:
    """Requests to a simulator, replies from it."""

    def __init__(self, channel: socket.socket, frames_fd: int | None = None) -> None:
        self._channel = channel
        self._frames_fd = frames_fd
        self._frames: FrameMemory | None = None
        self._simulator: Simulator | None = None
        self._operations: dict[str, Callable[[Frame], Frame]] = {
            "hello": self._hello,
            "describe": self._describe,
            "open": self._open,
            "prepare": self._prepare,
            "apply": self._apply,
            "observe": self._observe,
            "step": self._step,
            "success": self._success,
            "predicates": self._predicates,
            "close": self._close,
        }

    def serve(self) -> None:
        """Answer until told to close, or until the channel ends."""
        try:
            while True:
                request = wire.receive(self._channel)
                wire.send(self._channel, self._answer(request))
                if request.op == "close":
                    return
        except ChannelClosed:
            self._close_simulator()

    def _answer(self, request: Frame) -> Frame:
        try:
            return self._operations[request.op](request)
        except Exception as error:
            return faults.error_reply(request.seq, error)

    def _hello(self, request: Frame) -> Frame:
        return _ok(request, wire=wire.VERSION, package=pytest_vla_shift.__version__)

    def _describe(self, request: Frame) -> Frame:
        factory = load_factory(messages.get(request.body, "simulator", str))
        return _ok(request, **messages.info_body(factory.describe()))

    def _open(self, request: Frame) -> Frame:
        settings = messages.read_settings(request.body)
        if self._frames_fd is None or self._simulator is not None:
            raise SimulatorError("a worker opens one simulator, with memory for its pictures")
        self._frames = FrameMemory(settings, self._frames_fd)
        self._simulator = load_factory(settings.simulator)(settings)
        return _ok(request, **messages.info_body(self._simulator.info))

    def _prepare(self, request: Frame) -> Frame:
        simulator = self._opened()
        prepared = simulator.prepare(messages.read_episode(request.body))
        return _ok(
            request,
            **messages.prepared_body(prepared),
            rss=resident_bytes(),
            device=str(getattr(simulator, "device", "")),
        )

    def _apply(self, request: Frame) -> Frame:
        receipts = self._opened().apply(messages.read_interventions(request.body))
        return _ok(request, **messages.receipts_body(receipts))

    def _observe(self, request: Frame) -> Frame:
        cameras = messages.get(request.body, "cameras", list)
        privileged = messages.get(request.body, "privileged", bool)
        observation = self._opened().observe(cameras, privileged=privileged)
        if self._frames is None:
            raise SimulatorError("no picture memory")
        for camera, image in observation.images.items():
            self._frames.write(camera, image)
        return messages.observation_reply(request.seq, observation)

    def _step(self, request: Frame) -> Frame:
        (actions,) = request.arrays
        result = self._opened().step(
            actions.astype(np.float64, copy=False),
            stop_on_success=messages.get(request.body, "stop_on_success", bool),
        )
        return messages.step_reply(request.seq, result)

    def _success(self, request: Frame) -> Frame:
        return _ok(request, success=bool(self._opened().success()))

    def _predicates(self, request: Frame) -> Frame:
        current = self._opened().predicates()
        return _ok(request, predicates={name: bool(value) for name, value in current.items()})

    def _close(self, request: Frame) -> Frame:
        self._close_simulator()
        return _ok(request)

    def _opened(self) -> Simulator:
        if self._simulator is None:
            raise SimulatorError("the worker has opened no simulator")
        return self._simulator

    def _close_simulator(self) -> None:
        simulator, self._simulator = self._simulator, None
        if simulator is not None:
            simulator.close()


def _ok(request: Frame, **body: object) -> Frame:
    return Frame(request.seq, "ok", body)


def resident_bytes() -> int:
    """This process's resident memory, or 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def die_with_parent(lifeline: int) -> None:
    """SIGKILL to this process as soon as the parent's end of the pipe ``lifeline`` closes.

    The kernel sends the signal, so that a simulator which hangs in C code dies too. (Linux's
    PR_SET_PDEATHSIG would end the worker with the *thread* that started it, and rollouts are
    started from threads.)
    """
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    try:
        gone = os.read(lifeline, 1) == b""
    except BlockingIOError:
        return
    if gone:
        os.kill(os.getpid(), signal.SIGKILL)


def main(arguments: list[str]) -> None:
    """Serve on the inherited descriptors."""
    channel_fd, lifeline, *frames = map(int, arguments)
    for fd in (channel_fd, lifeline, *frames):
        os.set_inheritable(fd, False)
    die_with_parent(lifeline)
    # Meant for the whole run, as when a cluster takes a machine back: our parent says what happens.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    faulthandler.enable(all_threads=True)
    # The parent asks for a stack before it kills a worker that does not answer.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    with socket.socket(fileno=channel_fd) as channel:
        Worker(channel, *frames).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
