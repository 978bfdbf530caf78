"""``vla-shift doctor``: what it finds, and the line that mends it."""

from __future__ import annotations

import io
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


# Packages that cannot be imported


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


# An extra that this Python cannot have


def test_an_extra_for_another_python_is_told_and_is_no_core_dependency(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marked = 'robot-brains>=1; python_version >= "99" and extra == "brains"'
    monkeypatch.setattr(packages, "_requirements", lambda: [Requirement(marked)])
    assert not any("robot-brains" in finding.text for finding in packages.core())
    told = next(finding for finding in packages.extras() if "brains" in finding.text)
    assert (told.status, told.mend) == ("note", None)
    assert 'brains: is for another Python: python_version >= "99"' in told.text
