"""Misbehaviour on request, for tests of what must survive it.

A fault is asked for by the task's name (``reach_left_segv``: the task ``reach_left`` with the
fault ``segv``) or for single episodes by the environment variable ``TOY_FAULTS``
(``reach_left/1=segv,reach_right/0=hang``). With ``TOY_FAULTS_ONCE`` naming a folder every fault
strikes once for each episode, across processes: the second worker is spared.
``TOY_STEP_SECONDS`` makes every control step sleep, ``TOY_PREPARE_SECONDS`` every ``prepare``.
``TOY_PIDS`` names a file to which every ``prepare`` adds its process's number.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from pytest_vla_shift.protocol.errors import MissingAsset, SimulatorError
from pytest_vla_shift.protocol.observation import Episode

IN_STEP = ("segv", "kill", "exit", "hang", "stop", "spin", "raise", "simerror")
"""Strike at control step :data:`STRIKES_AT` after the settling began."""

IN_PREPARE = ("missing", "badprepare", "hangprepare", "leak", "noise")
"""Strike in ``prepare``."""

IN_WORLD = ("jitter", "unsettled", "early", "solved", "nan", "drift")
"""Wrong worlds: see :class:`tests.fakes.toy_simulator.Toy`."""

FAULTS = (*IN_STEP, *IN_PREPARE, *IN_WORLD)
STRIKES_AT = 12
LEAK_BYTES = 10 * 2**20

_leaked: list[bytearray] = []


def split_task(task: str, tasks: tuple[str, ...]) -> tuple[str, str | None]:
    """``reach_left_segv`` -> (``reach_left``, ``segv``)."""
    for known in tasks:
        if task == known:
            return known, None
        fault = task.removeprefix(f"{known}_")
        if fault in FAULTS:
            return known, fault
    raise SimulatorError(f"the toy has no task {task!r}. Tasks: {', '.join(tasks)}")


def fault_of(episode: Episode, by_name: str | None) -> str | None:
    """The fault of an episode, or None when it has had its one strike."""
    fault = by_name
    for entry in filter(None, os.environ.get("TOY_FAULTS", "").split(",")):
        where, _, what = entry.partition("=")
        if where == f"{episode.task}/{episode.index}":
            fault = what
    if fault is not None and fault not in FAULTS:
        raise ValueError(f"TOY_FAULTS: unknown fault {fault!r}; known: {', '.join(FAULTS)}")
    once = os.environ.get("TOY_FAULTS_ONCE")
    if fault is None or once is None:
        return fault
    try:
        (Path(once) / f"{episode.task}-{episode.index}").touch(exist_ok=False)
    except FileExistsError:
        return None
    return fault


def in_prepare(fault: str | None) -> None:
    time.sleep(float(os.environ.get("TOY_PREPARE_SECONDS", "0")))
    if "TOY_PIDS" in os.environ:
        with Path(os.environ["TOY_PIDS"]).open("a") as stream:
            stream.write(f"{os.getpid()}\n")
    if fault == "missing":
        raise MissingAsset("meshes/target_1.obj is not there")
    if fault == "badprepare":
        raise ZeroDivisionError("the toy's prepare failed on request")
    if fault == "hangprepare":
        time.sleep(3600)
    if fault == "leak":
        _leaked.append(bytearray(os.urandom(1) * LEAK_BYTES))
    if fault == "noise":
        print("a simulator that prints a lot. " * 20_000)
        os.write(2, b"and its C library too\n")


def in_step(fault: str | None, step: int) -> None:
    pause = float(os.environ.get("TOY_STEP_SECONDS", "0"))
    if pause:
        time.sleep(pause)
    if fault not in IN_STEP or step != STRIKES_AT:
        return
    _strike(fault)


def _strike(fault: str) -> NoReturn:
    print(f"the toy's {fault} is about to strike", file=sys.stderr, flush=True)
    if fault == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "exit":
        os._exit(3)
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    while fault == "spin":
        pass
    if fault == "raise":
        raise ZeroDivisionError("the toy's step failed on request")
    if fault == "simerror":
        raise SimulatorError("the toy refuses on request")
    while True:
        time.sleep(3600)
