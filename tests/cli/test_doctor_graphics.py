"""``vla-shift doctor`` on graphics: libraries, platforms, and a picture that is really drawn."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_vla_shift.commands.checks import graphics


def probe_module(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A drawing process that does as told, in place of ours."""
    (folder / "stand_in_probe.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(graphics, "PROBE", "stand_in_probe")
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)


def say(**facts: object) -> str:
    return f"print({json.dumps(json.dumps({'probe': facts}))}, flush=True)\n"


LOADED = {"libEGL.so.1": None, "libOSMesa.so.8": "cannot open shared object file"}


def test_a_crash_while_drawing_cannot_end_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = say(libraries=LOADED) + say(mujoco="3.3.7") + "import os; os.abort()\n"
    probe_module(tmp_path, monkeypatch, code)
    (found,) = [f for f in graphics.check() if f.status == "missing"]
    assert "the drawing process ended with signal 6" in found.text
    assert found.mend == graphics.APT["egl"]


def test_a_hang_while_drawing_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe_module(tmp_path, monkeypatch, "import time; time.sleep(100)\n")
    monkeypatch.setattr(graphics, "PROBE_SECONDS", 0.5)
    (found,) = [f for f in graphics.check() if f.status == "missing"]
    assert "did not end within" in found.text


def test_a_missing_gl_library_is_told_with_the_apt_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaint = "libEGL.so.1: cannot open shared object file"
    code = say(libraries={"libEGL.so.1": complaint, "libOSMesa.so.8": complaint})
    code += say(mujoco="3.3.7") + say(complaint="ImportError: no attribute 'eglQueryString'")
    probe_module(tmp_path, monkeypatch, code)
    library, drawn = [f for f in graphics.check() if f.status == "missing"]
    assert library.text == f"libEGL.so.1 does not load: {complaint}"
    assert library.mend is not None
    assert library.mend.startswith("apt-get install -y libegl1")
    assert "libegl1" in str(drawn.mend)


def test_the_platform_that_does_draw_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os\n" + say(libraries={"libEGL.so.1": None, "libOSMesa.so.8": None})
    code += say(mujoco="3.3.7") + "if os.environ['MUJOCO_GL'] == 'osmesa':\n    "
    code += say(renderer="softpipe") + "else:\n    " + say(complaint="no display")
    probe_module(tmp_path, monkeypatch, code)
    assert "export MUJOCO_GL=osmesa" in [f.mend for f in graphics.check() if f.status == "note"]


def test_without_mujoco_nothing_is_drawn_and_nothing_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe_module(tmp_path, monkeypatch, say(libraries=LOADED))
    found = graphics.check()
    assert "missing" not in [f.status for f in found]
    assert any("MuJoCo is not installed" in f.text for f in found)


@pytest.mark.parametrize("name,value", [("MUJOCO_GL", "glfw"), ("MUJOCO_GL", "nonsense")])
def test_a_platform_without_headless_drawing_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    # Set by whatever imported robosuite in this process before.
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)
    (found,) = [f for f in graphics._settings(value) if f.status == "missing"]
    assert found.mend == "export MUJOCO_GL=egl"


def test_contradicting_platforms_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOPENGL_PLATFORM", "osmesa")
    (found,) = [f for f in graphics._settings("egl") if f.status == "missing"]
    assert found.mend == "unset PYOPENGL_PLATFORM"


def test_gpus_are_those_that_the_driver_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, NVIDIA X, 80000 MiB'\necho '1, NVIDIA X, 80000 MiB'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert [f.text for f in graphics._gpus()] == [
        "GPU 0, NVIDIA X, 80000 MiB",
        "GPU 1, NVIDIA X, 80000 MiB",
    ]
    program.write_text("#!/bin/sh\necho 'No devices were found'; exit 6\n")
    (found,) = graphics._gpus()
    assert found.status == "note"
    assert "No devices were found" in found.text


def test_the_probe_says_what_it_knows_when_run_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_vla_shift.commands.checks import render_probe

    monkeypatch.setitem(sys.modules, "mujoco", None)  # an import of it then fails
    render_probe.main()
    (line,) = capsys.readouterr().out.splitlines()
    assert set(json.loads(line)["probe"]["libraries"]) == set(graphics.LIBRARIES.values())
