"""The GPUs of a run: found once by the process that owns it, divided among workers and lanes.

Every pytest process sets its own variables before a policy or a simulator is imported, and gives
each of its simulators those of its lane. What is set, and why, is decided in
:mod:`pytest_vla_shift.simulators.rendering`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from pytest_vla_shift.options import RunConfig
from pytest_vla_shift.simulators.gpus import CUDA, Gpu, Place, chosen, visible
from pytest_vla_shift.simulators.hardware import find_hardware, from_json, to_json
from pytest_vla_shift.simulators.rendering import Assignment, assign

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

PLUGIN = "vla-shift-devices"

_TOLD = "vla_hardware"


class Devices:
    """A plugin that holds what was assigned.

    Args:
        config: pytest's.
        run: what was asked for.
        told: what the controller has put into ``workerinput``; None in the process that owns the
            run, which looks for itself.

    Attributes:
        lanes: the variables of every lane's simulator; at least one.

    Raises:
        UsageError: an option names a GPU that is not there, or that cannot draw.
    """

    def __init__(
        self, config: pytest.Config, run: RunConfig, told: Mapping[str, object] | None
    ) -> None:
        self._run = run
        # As the run was started: what we set is not what the user said.
        self._environment = dict(os.environ)
        self._before: dict[str, str | None] = {}
        self._notes: list[str] = []
        if told is None:
            asked = run.gpus is not None or run.render_gpus is not None
            self._hardware = find_hardware(self._environment, asked=asked)
            workers = _workers(config)
        else:
            self._hardware = from_json(str(told[_TOLD]))
            workers = 0
        if workers:
            # Of all workers, so that what one of them refuses is refused before any has begun.
            for number in range(workers):
                self._notes += self._assign(Place(f"gw{number}", workers)).notes
            self.lanes: tuple[Mapping[str, str], ...] = ({},)
            return
        here = self._assign(Place() if told is None else _place(self._environment))
        self._notes += here.notes
        self.lanes = here.lanes or ({},)
        for name, value in here.process.items():
            self._before[name] = os.environ.get(name)
            os.environ[name] = value

    def _assign(self, place: Place) -> Assignment:
        run = self._run
        return assign(place, run.envs, self._hardware, self._environment, run.gpus, run.render_gpus)

    @property
    def server(self) -> dict[str, str]:
        """Variables of a server that the run starts: all of the run's GPUs."""
        if self._run.gpus is None:
            return {}
        gpus, environment = self._hardware.gpus, self._environment
        return {
            CUDA: ",".join(chosen(self._run.gpus, visible(environment, gpus), gpus, environment))
        }

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """Spare the workers the search."""
        node.workerinput[_TOLD] = to_json(self._hardware)

    def pytest_report_header(self) -> list[str]:
        """What there is, and what draws otherwise than one would think."""
        lines = [f"GPUs: {', '.join(map(_describe, self._hardware.gpus))}"]
        return [
            *(lines if self._hardware.gpus else []),
            *(f"GPUs: {note}" for note in dict.fromkeys(self._notes)),
        ]

    def pytest_unconfigure(self) -> None:
        """Give the process its variables back, should it go on."""
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._before.clear()


def settle(config: pytest.Config, run: RunConfig, told: Mapping[str, object] | None = None) -> None:
    """Find the run's GPUs and set this process's variables, before anything heavy is imported.

    Args:
        config, run, told: see :class:`Devices`.

    Raises:
        UsageError: an option names a GPU that is not there, or that cannot draw.
    """
    config.pluginmanager.register(Devices(config, run, told), PLUGIN)


def check(config: pytest.Config, run: RunConfig) -> None:
    """Refuse GPUs that a run could not have; nothing is set when this returns.

    Raises:
        UsageError: an option names a GPU that is not there, or that cannot draw.
    """
    if run.gpus is not None or run.render_gpus is not None:
        Devices(config, run, None).pytest_unconfigure()


def lanes_of(config: pytest.Config) -> tuple[Mapping[str, str], ...]:
    """The variables of every lane's simulator; at least one lane."""
    found = config.pluginmanager.get_plugin(PLUGIN)
    return found.lanes if isinstance(found, Devices) else ({},)


def server_environment(config: pytest.Config) -> dict[str, str]:
    """The variables of a server that the run starts, over its own."""
    found = config.pluginmanager.get_plugin(PLUGIN)
    return found.server if isinstance(found, Devices) else {}


def _place(environment: Mapping[str, str]) -> Place:
    """This worker among those of its run, as pytest-xdist tells it."""
    return Place(environment["PYTEST_XDIST_WORKER"], int(environment["PYTEST_XDIST_WORKER_COUNT"]))


def _workers(config: pytest.Config) -> int:
    """How many workers this controller will start; 0 for a process that runs nodes itself."""
    if config.getoption("dist", "no") == "no":
        return 0
    from xdist.workermanage import parse_tx_spec_config

    return len(parse_tx_spec_config(config))


def _describe(gpu: Gpu) -> str:
    instances = f" in {len(gpu.instances)} MIG instances" if gpu.instances else ""
    return f"{gpu.index} {gpu.name}{instances}"
