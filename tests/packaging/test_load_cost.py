"""What a pytest run pays for the plugin when it does not use it: a few small modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numpy", "scipy", "torch", "mujoco", "robosuite", "libero", "av", "PIL", "allure_commons")

OURS = {
    "pytest_vla_shift",
    "pytest_vla_shift.fixtures",
    "pytest_vla_shift.hookspecs",
    "pytest_vla_shift.option_list",
    "pytest_vla_shift.options",
    "pytest_vla_shift.plugin",
    "pytest_vla_shift.protocol",
    "pytest_vla_shift.protocol.errors",
}
"""All that an idle run may import of us. benchmarks/plugin_load.py says what they cost."""

CONFTEST = """
import json
import os
import pathlib
import sys

def pytest_unconfigure():
    pathlib.Path(os.environ["MODULES_FILE"]).write_text(json.dumps(sorted(sys.modules)))
"""


def modules_after(folder: Path, *options: str) -> set[str]:
    """What is imported when a pytest run over one empty test ends."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_empty.py").write_text("def test_nothing(): pass\n")
    out = folder / "modules.json"
    out.unlink(missing_ok=True)
    # Only the plugin under test: others import what they like.
    environment = {
        **os.environ,
        "MODULES_FILE": str(out),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, str(folder)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 passed" in ended.stdout
    return set(json.loads(out.read_text()))


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str]]:
    """Modules without and with the plugin."""
    folder = tmp_path_factory.mktemp("idle")
    return modules_after(folder), modules_after(folder, "-p", "pytest_vla_shift.plugin")


def test_an_idle_run_imports_nothing_heavy(idle: tuple[set[str], set[str]]) -> None:
    _, with_plugin = idle
    assert "pytest_vla_shift.plugin" in with_plugin
    assert not {name for name in with_plugin if name.split(".")[0] in HEAVY}
    assert "pytest_vla_shift.session" not in with_plugin


def test_an_idle_run_imports_these_modules_of_ours_and_no_others(
    idle: tuple[set[str], set[str]],
) -> None:
    without, with_plugin = idle
    extra = with_plugin - without
    assert {name for name in extra if name.startswith("pytest_vla_shift")} == OURS
    # Whatever else comes along is small and of the standard library.
    others = {name.split(".")[0] for name in extra - OURS}
    assert others <= set(sys.stdlib_module_names)
    assert len(extra - OURS) <= 5, sorted(extra - OURS)


def test_the_count_would_notice_a_heavy_import(tmp_path: Path) -> None:
    (tmp_path / "greedy.py").write_text("import numpy\n")
    found = modules_after(tmp_path, "-p", "greedy")
    assert "numpy" in found


def test_the_entry_point_loads_the_plugin_and_can_be_switched_off(tmp_path: Path) -> None:
    (tmp_path / "test_empty.py").write_text("def test_nothing(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def helped(*options: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "--help", *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert "--vla-policy" in helped()
    assert "--vla-policy" not in helped("-p", "no:vla-shift")
