"""Full disks, folders that cannot be written: one sentence, nothing lost, and it resumes."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla_shift.rollouts.store import Store
from tests.plugin.survival import NULL, SESSIONS, begin, check_whole, recorded
from tests.plugin.toy_project import Finished, ToyProject

SABOTAGE = """
import os, resource, shutil
from pathlib import Path

SEEN = []

def pytest_vla_rollout_finished(config, record):
    SEEN.append(record)
    if len(SEEN) == 3 and os.environ.get("SABOTAGE"):
        rollouts = Path(os.environ["ROLLOUTS"])
        exec(os.environ["SABOTAGE"])
"""


def sabotaged(folder: Path, what: str, *options: str) -> ToyProject:
    """A project in which ``what`` is executed after the third rollout of a process."""
    project = ToyProject(folder, options=("--vla-envs=0", "--vla-video=off", *options))
    (project.path / "conftest.py").write_text(SABOTAGE)
    project.environment["SABOTAGE"] = what
    project.environment["ROLLOUTS"] = str(project.directory("r") / "rollouts")
    return project


def check_stopped(run: Finished, words: str) -> None:
    """One sentence says what, where and what to do; no traceback, no internal error."""
    flat = " ".join(run.out.split())
    told = [line for line in run.out.splitlines() if line.startswith("!")]
    assert run.code == 2, run.out
    assert len(told) == 1, run.out
    assert "cannot be written" in flat
    assert words in flat
    assert "run the same command again for the rest" in flat
    assert "Traceback" not in run.out
    assert "INTERNALERROR" not in run.out


LIMIT = "resource.setrlimit(resource.RLIMIT_FSIZE, (BYTES, resource.RLIM_INFINITY))"
"""No file may grow beyond it: what a full disk does, to one process."""

AWAY = "shutil.move(rollouts / 'WHAT', rollouts / 'away')"
IN_PLACE = "shutil.move(rollouts / 'WHAT', rollouts / 'away'); (rollouts / 'WHAT').write_text('')"


@pytest.mark.parametrize(
    "what, words",
    [
        (LIMIT.replace("BYTES", "6500"), "File too large. What was recorded before is whole"),
        (LIMIT.replace("BYTES", "100"), "raise the limit on the size of a file"),
        (AWAY.replace("WHAT", "claims"), "No such file or directory"),
        (IN_PLACE.replace("WHAT", "claims"), "Not a directory"),
        (IN_PLACE.replace("WHAT", "actions"), "Not a directory"),
        (IN_PLACE.replace("WHAT", "frames"), "Not a directory"),
        (IN_PLACE.replace("WHAT", "fingerprints"), "move away what is in its place"),
    ],
    ids=["line", "actions", "no claims", "claims", "no actions", "frames", "fingerprints"],
)
def test_what_cannot_be_written_stops_the_run_and_the_next_one_completes_it(
    tmp_path: Path, calm: ToyProject, what: str, words: str
) -> None:
    project = sabotaged(tmp_path, what)
    run = project.run("--vla-run=r", *NULL)
    check_stopped(run, words)
    for file in (project.directory("r") / "rollouts").glob("away"):
        place = file.with_name(what.split("'")[1])
        place.unlink(missing_ok=True)
        file.rename(place)
    before = recorded(project, "r")
    assert 3 <= len(before) < 12
    check_whole(project, "r")
    project.environment.clear()
    again = project.run("--vla-run=r", *NULL, code=0)
    assert f"({len(before)} found)" in again.out
    assert recorded(project, "r") == recorded(calm, "r")


def test_under_xdist_the_controller_says_it_once_and_every_worker_stops(
    tmp_path: Path, calm: ToyProject
) -> None:
    project = sabotaged(tmp_path, IN_PLACE.replace("WHAT", "claims"), "-n2")
    project.environment["TOY_STEP_SECONDS"] = "0.005"
    run = project.run("--vla-run=r", *NULL)
    check_stopped(run, "claims")
    assert "replacing crashed worker" not in run.out
    rollouts = project.directory("r") / "rollouts"
    (rollouts / "claims").unlink()
    (rollouts / "away").rename(rollouts / "claims")
    rows = check_whole(project, "r")
    assert 3 <= rows < 12
    project.environment.clear()
    project.run("--vla-run=r", *NULL, code=0)
    assert project.outcomes("r") == calm.outcomes("r")


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_plan_that_does_not_fit_is_refused_before_any_rollout(
    tmp_path: Path, calm: ToyProject, processes: str
) -> None:
    project = ToyProject(tmp_path, options=("--vla-envs=0", "--vla-video=off", f"-n{processes}"))

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    process = begin(project, "--vla-run=r", *NULL, before=small)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 4, out
    assert "cannot be written: File too large" in " ".join(out.split())
    assert "Traceback" not in out
    assert check_whole(project, "r") == 0
    project.run("--vla-run=r", *NULL, code=0)
    assert project.outcomes("r") == calm.outcomes("r")


@pytest.mark.parametrize(
    "blocked, code", [("summary.json", 1), ("audit-integrity.json", 1), ("allure-results", 2)]
)
def test_a_report_that_cannot_be_written_is_said_and_costs_no_rollout(
    tmp_path: Path, calm: ToyProject, blocked: str, code: int
) -> None:
    what = f"shutil.rmtree(rollouts.parent / '{blocked}', ignore_errors=True);"
    what += f"(rollouts.parent / '{blocked}').{'mkdir' if code == 1 else 'touch'}()"
    project = sabotaged(tmp_path, what)
    run = project.run("--vla-run=r", *NULL, code=code)
    flat = " ".join(run.out.split())
    assert re.search(rf"/reports/r/{re.escape(blocked)}\S* cannot be written", flat), flat
    assert "INTERNALERROR" not in run.out
    assert "Traceback" not in run.out
    check_whole(project, "r")
    place = project.directory("r") / blocked
    place.rmdir() if place.is_dir() else place.unlink()
    project.environment.clear()
    project.run("--vla-run=r", *NULL, code=0)
    assert project.only_suite("r")["reported"] == 6
    assert project.outcomes("r") == calm.outcomes("r")


def unprivileged() -> list[str]:
    """A prefix under which a folder's permissions count, for the superuser too."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("as the superuser this needs setpriv")
    return ["setpriv", "--bounding-set=-dac_override"]


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_folder_that_becomes_read_only_stops_the_run(
    tmp_path: Path, calm: ToyProject, processes: str
) -> None:
    project = sabotaged(tmp_path, "os.chmod(rollouts / 'claims', 0o555)", f"-n{processes}")
    command = [*unprivileged(), *project.command("--vla-run=r", *NULL)]
    done = subprocess.run(
        command, cwd=project.path, env=project.env(), capture_output=True, text=True, timeout=90
    )
    check_stopped(Finished(done.returncode, done.stdout), "Permission denied")
    assert "make it writable" in " ".join(done.stdout.split())
    (project.directory("r") / "rollouts" / "claims").chmod(0o755)
    assert check_whole(project, "r") >= 3
    project.environment.clear()
    project.run("--vla-run=r", *NULL, code=0)
    assert project.outcomes("r") == calm.outcomes("r")


FULL = """
set -e
mkdir -p reports
mount -t tmpfs -o size={size} none reports
set +e
"$@" > first.txt 2>&1
echo $? > first.code
set -e
cp -r reports first
mount -o remount,size=64m reports
set +e
"$@" > second.txt 2>&1
echo $? > second.code
set -e
cp -r reports second
"""


def may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    probe = ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(probe, capture_output=True).returncode == 0


@pytest.mark.parametrize("options", [(), ("-n2",), ("--vla-envs=2",)])
def test_a_disk_that_is_full_stops_the_run_and_one_with_room_completes_it(
    tmp_path: Path, calm: ToyProject, options: tuple[str, ...]
) -> None:
    if not may_mount():
        pytest.skip("no file system can be mounted here")
    project = ToyProject(tmp_path, options=("--vla-envs=1", "--vla-video=off", *options))
    policy = SESSIONS if "--vla-envs=2" in options else None
    command = project.command("--vla-run=r", *NULL, *([f"--vla-policy={policy}"] if policy else []))
    # A plan, a manifest, an empty Allure folder and some rollouts fit; every file takes 4 kB.
    script = FULL.format(size="180k")
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, "sh", *command],
        cwd=project.path,
        env=project.env(),
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert done.returncode == 0, done.stderr
    first = Finished(
        int((tmp_path / "first.code").read_text()), (tmp_path / "first.txt").read_text()
    )
    check_stopped(first, "No space left on device. What was recorded before is whole: make room")
    assert (tmp_path / "second.code").read_text() == "0\n", (tmp_path / "second.txt").read_text()
    before = Store(tmp_path / "first" / "r", "reader")
    assert 1 <= len(before.records()) < 12
    assert before.bad_rows == []
    after = Store(tmp_path / "second" / "r", "reader")
    assert len(after.records()) == 12
    assert after.bad_rows == []
    assert all(after.get(key) == record for key, record in before.records().items())
    if policy is None:
        outcomes = {key: record.outcome() for key, record in after.records().items()}
        assert outcomes == recorded(calm, "r")


# A store of another version, or damaged: through a real run


def test_a_store_of_schema_1_is_refused_until_it_is_set_aside(tmp_path: Path) -> None:
    project = ToyProject(tmp_path)
    old = Path(__file__).parents[1] / "rollouts" / "schema_1"
    shutil.copytree(old, project.directory("r"))
    for damaged in ("whole", "no manifest", "garbage"):
        manifest = project.directory("r") / "run.json"
        if damaged == "no manifest":
            manifest.unlink()
        elif damaged == "garbage":
            manifest.write_bytes(b"\0\1garbage")
        run = project.run("--vla-run=r", *NULL, code=4)
        flat = " ".join(run.out.split())
        assert "schema 1" in flat, damaged
        assert "--vla-run=NAME" in flat
        assert "--vla-fresh" in flat
    (kept,) = (project.directory("r") / "rollouts").glob("results-*.jsonl")
    assert kept.read_bytes() == (old / "rollouts" / kept.name).read_bytes()
    shutil.copy(old / "run.json", project.directory("r") / "run.json")
    project.run("--vla-run=r", *NULL, "--vla-fresh", code=0)
    assert len(project.rows("r")) == 12
    archived = project.directory("r") / "rollouts" / "archive" / "001" / kept.name
    assert archived.read_bytes() == (old / "rollouts" / kept.name).read_bytes()


def write_garbage(path: Path) -> None:
    path.write_bytes(b"\0\xff garbage " * 40)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def nest(path: Path) -> None:
    path.write_bytes(b'{"schema": ' + b"[" * 100_000)


@pytest.mark.parametrize("damage", [write_garbage, truncate, nest])
def test_a_damaged_manifest_and_plan_are_written_anew_and_every_row_is_kept(
    tmp_path: Path, calm: ToyProject, damage: Callable[[Path], None]
) -> None:
    project = ToyProject(tmp_path)
    shutil.copytree(calm.directory("r"), project.directory("r"))
    for name in ("run.json", "plan.json"):
        damage(project.directory("r") / name)
    environment = project.env()
    for command in (["stats"], ["audit", "integrity"]):
        done = subprocess.run(
            [sys.executable, "-m", "pytest_vla_shift.cli", *command, str(project.directory("r"))],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2, done.stderr
        assert "plan.json is no plan of a run" in done.stderr
        assert "Traceback" not in done.stderr
    run = project.run("--vla-run=r", *NULL, code=0)
    assert "(12 found)" in run.out
    assert project.outcomes("r") == calm.outcomes("r")
    assert json.loads((project.directory("r") / "run.json").read_text())["planned"] == 6


def test_a_folder_among_the_allure_results_stays_and_stops_nothing(
    tmp_path: Path, calm: ToyProject
) -> None:
    project = ToyProject(tmp_path)
    shutil.copytree(calm.directory("r"), project.directory("r"))
    history = project.directory("r") / "allure-results" / "history"
    history.mkdir()
    (history / "history.json").write_text("{}")
    project.run("--vla-run=r", *NULL, code=0)
    assert (history / "history.json").read_text() == "{}"
