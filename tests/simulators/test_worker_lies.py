"""What a worker says out of turn or out of shape is never used: the worker is lost instead."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_vla_shift.protocol.errors import SimulatorError, WorkerLost
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.simulators.protocol import SimulatorSettings
from pytest_vla_shift.simulators.remote import RemoteSimulator
from tests.fakes.processes import wait_until_gone
from tests.fakes.toy_simulator import INFO, NAME

SETTINGS = SimulatorSettings(NAME, env_seed=7, cameras=("front",), height=16, width=16)


@pytest.mark.parametrize(
    "lie, message",
    [
        ("seq", r"answered request 2 when asked 3, 'prepare'"),
        ("garbage", r"with no frame of ours: a frame begins with b'vls1', not with b'Read'"),
        ("body", r"answered what does not read: fingerprint is 'abc', not dict"),
        ("error", r"answered what does not read: kind is \['UsageError'\], not str"),
        ("late", r"did not answer 'prepare' .* within the 0\.5 s"),
        ("closed", r"closed its channel during 'prepare'"),
    ],
)
def test_a_lie_is_a_lost_worker(lie: str, message: str, tmp_path: Path) -> None:
    # The stand-in interpreter is called as: python -P -m pytest_vla_shift...worker CHANNEL ...
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.fakes.lying_worker {lie} "$4"\n')
    python.chmod(0o755)
    remote = RemoteSimulator(SETTINGS, python=str(python), timeout_s=0.5, start_timeout_s=60)
    pid = None
    try:
        assert remote.info == INFO
        pid = remote.pid
        with pytest.raises(WorkerLost, match=message):
            remote.prepare(Episode("toy", "reach_left", 0))
        with pytest.raises(SimulatorError, match="no episode is prepared"):
            remote.success()
    finally:
        remote.close()
    assert pid is not None
    assert wait_until_gone(pid)
