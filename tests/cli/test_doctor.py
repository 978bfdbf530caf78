"""``vla-shift doctor``: what it finds, and the line that mends it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from pytest_vla_shift.cli import main
from pytest_vla_shift.commands import doctor as doctor_module
from pytest_vla_shift.commands.checks import folders, graphics, libero_files, packages, simulators
from pytest_vla_shift.commands.checks.imports import import_complaint
from pytest_vla_shift.commands.findings import Finding, lines, missing, ok
from pytest_vla_shift.protocol import registry

SPATIAL = "libero_spatial"


def statuses(findings: list[Finding]) -> list[str]:
    return [finding.status for finding in findings]


# As a whole


def test_here_the_main_job_can_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--reports", str(tmp_path / "reports")])
    out = capsys.readouterr().out
    assert code == 0, out
    assert "The main job can run here" in out
    assert "  missing " not in out
    assert "ok       libero: bddl 1.0.1" in out
    for task_suite, tasks in ((SPATIAL, 10), ("libero_90", 90)):
        assert f"ok       {task_suite}: {tasks} tasks" in out
    assert "draws with MUJOCO_GL=" in out
    assert not (tmp_path / "reports").exists()


def test_what_is_missing_decides_the_exit_code_and_is_told_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (packages, graphics, simulators):
        name = "core" if module is packages else "check"
        monkeypatch.setattr(module, name, lambda: [ok("fine")])
    monkeypatch.setattr(
        folders, "check", lambda _: [missing("no room", "rm -r videos"), missing("x", None)]
    )
    out = io.StringIO()
    assert doctor_module.doctor(Path(), out) == 1
    assert out.getvalue().endswith("2 missing. First:\n  rm -r videos\n")


def test_a_check_that_breaks_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[Finding]:
        raise RuntimeError("metadata are damaged")

    monkeypatch.setattr(packages, "core", broken)
    monkeypatch.setattr(graphics, "check", lambda: [ok("fine")])
    monkeypatch.setattr(simulators, "check", lambda: [ok("all there")])
    out = io.StringIO()
    assert doctor_module.doctor(Path(), out) == 1
    assert "RuntimeError: metadata are damaged" in out.getvalue()
    assert "all there" in out.getvalue()


def test_a_finding_is_a_line_and_its_mending_line_follows() -> None:
    assert lines("Title", [missing("first\nsecond", "do this")]) == [
        "Title",
        "  missing  first",
        "           second",
        "           -> do this",
    ]


# Packages


def test_an_old_core_dependency_gets_the_line_that_mends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packages, "_requirements", lambda: [Requirement("numpy>=99")])
    found = packages.core()
    assert statuses(found) == ["ok", "missing"]
    assert found[1].mend == "pip install 'numpy>=99'"


def test_an_extra_that_is_not_installed_is_only_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Requirement('no-such-distribution>=1; extra == "video"')
    monkeypatch.setattr(packages, "_requirements", lambda: [wanted])
    found = packages.extras()
    assert found[0].status == "note"
    assert found[0].text == "video: no-such-distribution is not installed"
    assert found[0].mend == "pip install 'pytest-vla-shift[video]'"


def test_a_video_extra_that_cannot_be_imported_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(tmp_path, monkeypatch, "av", "raise ImportError('libavcodec.so: wrong ELF class')\n")
    wanted = Requirement('numpy; extra == "video"')
    monkeypatch.setattr(packages, "_requirements", lambda: [wanted])
    found = packages.extras()[0]
    assert found.status == "note"
    assert "cannot be imported: ImportError: libavcodec.so: wrong ELF class" in found.text
    assert found.mend == "pip install --force-reinstall 'pytest-vla-shift[video]'"


def test_an_extra_of_the_wrong_version_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Requirement('numpy==0.1; extra == "libero"')
    monkeypatch.setattr(packages, "_requirements", lambda: [wanted])
    assert "==0.1 is needed" in packages.extras()[0].text


def test_developers_tools_are_not_asked_of_users() -> None:
    assert not [f for f in packages.extras() if f.text.startswith("dev")]


def test_a_checkout_that_is_not_installed_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "DISTRIBUTION", "no-such-distribution")
    found = packages.core()
    assert statuses(found) == ["ok", "note"]
    assert "pip install -e ." in str(found[1].mend)


# Graphics


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
    assert "missing" not in statuses(found)
    assert any("MuJoCo is not installed" in f.text for f in found)


def broken(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, code: str) -> None:
    """A package that is installed, and whose import goes wrong."""
    (folder / f"{package}.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize("code", ["raise ImportError('bad ELF')\n", "import no_such_module\n"])
def test_a_mujoco_that_cannot_be_imported_is_mended_by_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    broken(tmp_path, monkeypatch, "mujoco", code)
    (found,) = [f for f in graphics.check() if f.status == "missing"]
    assert found.text.startswith("import mujoco fails: ")
    assert found.mend == "pip install --force-reinstall --no-deps 'mujoco==3.3.7'"


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


# Simulators and their files


@pytest.mark.parametrize(
    "code,told",
    [
        ("raise OSError('half a file')\n", "OSError: half a file"),
        ("import os; os.abort()\n", "the import ended with signal 6"),
    ],
)
def test_a_robosuite_that_cannot_be_imported_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, told: str
) -> None:
    broken(tmp_path, monkeypatch, "robosuite", code)
    (found,) = [f for f in simulators.check() if f.status == "missing"]
    assert found.text == f"libero's environments cannot be imported: {told}"
    assert found.mend == "pip install --force-reinstall 'pytest-vla-shift[libero]'"


def test_an_import_that_hangs_ends() -> None:
    assert import_complaint("import time; time.sleep(100)", seconds=0.5) is not None


def entry_points(monkeypatch: pytest.MonkeyPatch, **targets: str) -> None:
    monkeypatch.setattr(registry, "BUILTIN", {**registry.BUILTIN, "simulators": targets})
    monkeypatch.setattr(registry, "entry_points", lambda group: ())


def test_somebody_elses_broken_simulator_is_only_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    entry_points(monkeypatch, other="no_such_module:factory")
    (found,) = simulators.check()
    assert found.status == "note"
    assert "no_such_module" in found.text


def test_a_describe_that_raises_anything_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising_simulator.py").write_text(
        "class F:\n"
        "    def __call__(self, settings): pass\n"
        "    def describe(self): raise OSError('no licence')\n"
        "factory = F()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    entry_points(monkeypatch, libero="raising_simulator:factory")
    (found,) = simulators.check()
    assert found.status == "missing"
    assert "OSError: no licence" in found.text


def configuration(folder: Path, monkeypatch: pytest.MonkeyPatch, **paths: Path) -> None:
    folder.mkdir(exist_ok=True)
    text = "".join(f"{name}: {path}\n" for name, path in paths.items())
    (folder / "config.yaml").write_text(text)
    monkeypatch.setenv("LIBERO_CONFIG_PATH", str(folder))


def real_paths() -> libero_files.Paths:
    paths = libero_files._paths()
    assert isinstance(paths, libero_files.Paths), paths
    return paths


def copied_assets(folder: Path, without: str) -> Path:
    """LIBERO's models as they are, and an empty file for every other, but for one."""
    real = real_paths().assets
    left_out = [file for file in real.rglob("*") if file.match(without)]
    assert len(left_out) == 1
    for file in real.rglob("*"):
        copy = folder / file.relative_to(real)
        if file.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
        elif file not in left_out:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes() if file.suffix == ".xml" else b"")
    return folder


def test_a_stale_configuration_is_noted_and_what_it_hides_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration(tmp_path / "config", monkeypatch, bddl_files=tmp_path / "gone")
    override, *found = libero_files.check()
    assert override.status == "note"
    assert override.mend == "unset LIBERO_CONFIG_PATH"
    assert [f.status for f in found] == ["missing"] * 3 + ["note"] * 2
    assert "gone" in found[0].text
    assert found[0].mend == libero_files.REINSTALL


@pytest.mark.parametrize(
    "file,counted",
    [
        ("akita_black_bowl.xml", [SPATIAL, "libero_goal"]),
        ("ketchup.xml", ["libero_object"]),
        ("libero_tabletop_base_style.xml", [SPATIAL, "libero_goal"]),
    ],
)
def test_a_missing_model_is_missed_by_the_suites_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, counted: list[str]
) -> None:
    assets = copied_assets(tmp_path / "assets", without=file)
    configuration(tmp_path / "config", monkeypatch, assets=assets)
    found = [f for f in libero_files.check() if f.status == "missing"]
    assert [f.text.split(":")[0] for f in found] == counted
    assert file in found[0].text
    assert found[0].mend == libero_files.REINSTALL_ASSETS


def test_a_missing_mesh_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = real_paths().assets
    (model,) = real.rglob("ketchup.xml")
    mesh = min(libero_files._parts(model))
    assert mesh.is_file()
    inside = mesh.relative_to(real.resolve())
    assets = copied_assets(tmp_path / "assets", without=str(inside))
    configuration(tmp_path / "config", monkeypatch, assets=assets)
    (found,) = [f for f in libero_files.check() if f.status == "missing"]
    assert found.text.startswith("libero_object: 1 file(s) not there")
    assert mesh.name in found.text


def test_another_package_named_libero_does_not_hang_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "libero" / "libero"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("input('Where shall the data set be? ')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = [f for f in libero_files.check() if f.status == "missing"]
    assert "EOFError" in found.text


def test_a_rival_distribution_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libero_files, "RIVALS", ("pytest",))
    (found,) = libero_files._rivals()
    assert str(found.mend).startswith("pip uninstall -y pytest && ")


# Folders


def test_a_reports_folder_that_cannot_be_written_is_missing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (found,) = folders.check(tmp_path / "file" / "reports")
    assert found.status == "missing"
    assert found.mend is not None
    assert "--vla-reports" in found.mend


def test_little_room_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        folders, "shutil", SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=2**20))
    )
    assert statuses(folders.check(tmp_path)) == ["ok", "note"]


def test_the_probe_says_what_it_knows_when_run_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_vla_shift.commands.checks import render_probe

    monkeypatch.setitem(sys.modules, "mujoco", None)  # an import of it then fails
    render_probe.main()
    (line,) = capsys.readouterr().out.splitlines()
    assert set(json.loads(line)["probe"]["libraries"]) == set(graphics.LIBRARIES.values())
