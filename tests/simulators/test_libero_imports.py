"""Packages of LIBERO that are installed and cannot be imported: told when the worker opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.simulators.launch import open_simulator
from pytest_vla_shift.simulators.protocol import SimulatorSettings

MILK = Episode("libero_object", "pick_up_the_milk_and_place_it_in_the_basket", 0)
SETTINGS = SimulatorSettings("libero", env_seed=7, cameras=("agentview",), height=16, width=16)


@pytest.mark.parametrize(
    "package,raised,mend",
    [
        ("robosuite", "OSError('half a file')", r"pip install 'pytest-vla-shift\[libero\]'"),
        ("mujoco", "ImportError('bad ELF')", r"pip install 'pytest-vla-shift\[libero\]'"),
        ("robosuite", "ImportError('libEGL.so.1: not there')", "apt-get install -y libegl1"),
    ],
)
def test_a_package_that_cannot_be_imported_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, raised: str, mend: str
) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise {raised}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match=f"LIBERO cannot be imported: .*{mend}") as caught:
        open_simulator(SETTINGS, envs=1, rollout_timeout_s=60.0).prepare(MILK)
    assert raised.split("'")[1] in str(caught.value)
