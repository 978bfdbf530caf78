"""Bad input: one clear message, exit code 4, nothing run and nothing lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.plugin import inprocess
from tests.plugin.toy_project import EXPERT, SUITE, ToyProject

CASES = {
    "unknown policy": (["--vla-policy=scripte"], "Did you mean 'scripted'?"),
    "unknown module": (["--vla-policy=no_such_module:thing"], "no_such_module"),
    "policy argument": ([f"--vla-policy={EXPERT}", "--vla-policy-arg=color=red"], "color"),
    "malformed argument": ([f"--vla-policy={EXPERT}", "--vla-policy-arg=red"], "name=value"),
    "unknown axis": ([f"--vla-policy={EXPERT}", "--vla-axis=camra"], "no suite of this run has"),
    "unknown level": ([f"--vla-policy={EXPERT}", "--vla-level=7"], "has 'L7'"),
    "malformed level": ([f"--vla-policy={EXPERT}", "--vla-level=high"], "not a level"),
    "unknown task": ([f"--vla-policy={EXPERT}", "--vla-task=juggle"], "toy-reach_left"),
    "episode out of range": ([f"--vla-policy={EXPERT}", "--vla-episodes=3"], "has '3'"),
    "malformed episodes": ([f"--vla-policy={EXPERT}", "--vla-episodes=1-3"], "'0:10'"),
    "envs": ([f"--vla-policy={EXPERT}", "--vla-envs=many"], "number of rollouts at once"),
    "shard of an unset variable": ([f"--vla-policy={EXPERT}", "--vla-shard="], "'' is not like"),
    "too many shards": ([f"--vla-policy={EXPERT}", "--vla-shard=1/1000000"], "at most 100000"),
    "shard": ([f"--vla-policy={EXPERT}", "--vla-shard=4/3"], "the first of three"),
    "executor": ([f"--vla-policy={EXPERT}", "--vla-executor=slurm"], "local, ray"),
    "recycling": ([f"--vla-policy={EXPERT}", "--vla-recycle-rollouts=0"], "whole number from 1"),
    "errors in a row": ([f"--vla-policy={EXPERT}", "--vla-max-errors=-1"], "number from 0"),
    "memory": ([f"--vla-policy={EXPERT}", "--vla-recycle-memory=-1"], "number of GiB"),
    "timeout": ([f"--vla-policy={EXPERT}", "--vla-rollout-timeout=0"], "positive number"),
    "video": ([f"--vla-policy={EXPERT}", "--vla-video=maybe"], "degraded"),
    "run name": ([f"--vla-policy={EXPERT}", "--vla-run=../up"], "plain folder name"),
    "policy cannot do the task": (["--vla-policy=scripted"], "cannot do toy/reach_left"),
    "replay without its file": (["--vla-policy=replay"], "file"),
}


def refused(pytester: pytest.Pytester, *options: str) -> str:
    """What a run in pytester's folder says, which is refused before any rollout."""
    run = inprocess.run(pytester, "--vla-envs=0", "--vla-video=off", *options)
    out = f"{run.stdout}\n{run.stderr}"
    assert run.ret == pytest.ExitCode.USAGE_ERROR, out
    assert "Traceback" not in out
    assert not list(pytester.path.glob("reports/*/rollouts/results-*.jsonl"))
    return out


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_option_is_a_usage_error_before_any_rollout(
    pytester: pytest.Pytester, case: str
) -> None:
    ToyProject(pytester.path)
    options, message = CASES[case]
    assert message in refused(pytester, *options)


SUITES = {
    "malformed TOML": (SUITE + "\n[axes", "malformed TOML"),
    "missing key": (SUITE.replace("env_seed = 0\n", ""), "'env_seed' is missing"),
    "misspelt key": (SUITE.replace("null = true", "nul = true"), "'null' is missing"),
    "extra key": (SUITE + "\n[axis]\n", "unknown key 'axis'"),
    "other schema": (SUITE.replace("schema = 1", "schema = 9"), "schema 9 is not supported"),
    "unknown simulator": (SUITE.replace("tests.fakes.toy_simulator:factory", "mujoko"), "mujoko"),
    "unknown shift": (SUITE.replace('"gaussian_blur"', '"gausian_blur"'), "gaussian_blur"),
    "magnitude out of range": (SUITE.replace("sigma_px = 1.0", "sigma_px = -1.0"), "sigma_px"),
    "unknown magnitude": (SUITE.replace("sigma_px", "sigma"), "sigma"),
    "not a number": (SUITE.replace("sigma_px = 1.0", 'sigma_px = "big"'), "must be a number"),
    "unknown level table": (
        SUITE.replace("[axes.base]", '[axes.camera]\nfrom = "x"\n[axes.base]'),
        "'from' is not a level",
    ),
    "camera of another robot": (SUITE.replace('"front"', '"agentview"'), "has front, wrist"),
    "catalogued task": (
        SUITE.replace('"toy"\n', '"libero_object"\n'),
        "libero_object has no task 'reach_left'",
    ),
    "catalogued episode": (
        SUITE.replace('"toy"\n', '"libero_goal"\n')
        .replace('["reach_left", "reach_right"]', '["turn_on_the_stove"]')
        .replace('"0:3"', '"48:52"'),
        "initial states 0 to 49",
    ),
}


@pytest.mark.parametrize("case", SUITES)
def test_a_wrong_suite_is_a_usage_error_that_names_the_file_and_the_field(
    pytester: pytest.Pytester, case: str
) -> None:
    suite, message = SUITES[case]
    ToyProject(pytester.path, suite=suite)
    out = refused(pytester, f"--vla-policy={EXPERT}")
    assert message in out
    assert "suite" in out


@pytest.mark.parametrize(
    "mark, message",
    [("()", "takes one text"), ("('no_such_suite')", "shipped suites: libero_ctrl, quickstart")],
)
def test_a_wrong_suite_mark_is_a_usage_error(
    pytester: pytest.Pytester, mark: str, message: str
) -> None:
    module = (
        "import pytest\n"
        f"pytestmark = pytest.mark.vla_suite{mark}\n"
        "def test_shift(pair): pair.assert_not_degraded()\n"
    )
    ToyProject(pytester.path, module=module)
    assert message in refused(pytester, f"--vla-policy={EXPERT}")


def test_a_usage_error_found_by_xdist_workers_is_told_once_with_exit_code_4(
    project: ToyProject,
) -> None:
    run = project.run("-n2", policy="scripted", code=4)
    assert run.out.count("cannot do toy/reach_left") == 1


def test_an_unwritable_reports_folder_is_a_usage_error(pytester: pytest.Pytester) -> None:
    ToyProject(pytester.path)
    (pytester.path / "blocked").write_text("a file where a folder is needed")
    out = refused(pytester, f"--vla-policy={EXPERT}", "--vla-reports=blocked")
    assert "the reports folder cannot be written" in out
    assert "--vla-reports" in out


def test_a_simulator_that_cannot_start_is_a_usage_error(project: ToyProject) -> None:
    suite = project.suite.replace(
        "tests.fakes.toy_simulator:factory", "tests.plugin.broken_simulator:factory"
    )
    (project.path / "suite.toml").write_text(suite)
    project.options = ("--vla-envs=1", "--vla-video=off")
    run = project.run(code=4)
    assert "cannot start" in run.out
    assert "libegl1" in run.out


def test_a_second_run_on_the_same_store_is_refused(project: ToyProject) -> None:
    project.environment["TOY_STEP_SECONDS"] = "0.05"
    first = project.start("--vla-run=shared")
    lock = project.directory("shared") / "run.lock"
    rows = project.directory("shared") / "rollouts"
    try:
        while not list(rows.glob("results-*.jsonl")):
            assert first.poll() is None, first.stdout and first.stdout.read()
        assert lock.exists()
        second = project.run("--vla-run=shared", code=4)
        assert "another run is writing" in second.out
    finally:
        first.kill()
        first.communicate()


def test_a_store_of_another_schema_is_refused(pytester: pytest.Pytester) -> None:
    directory = ToyProject(pytester.path).directory("old")
    directory.mkdir(parents=True)
    (directory / "run.json").write_text('{"kind": "run", "schema": 99}')
    assert "schema 99" in refused(pytester, f"--vla-policy={EXPERT}", "--vla-run=old")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    """A project with a whole run, ``kept``."""
    project = ToyProject(tmp_path_factory.mktemp("kept"))
    project.run("--vla-run=kept", "--vla-axis=null", code=0)
    return project


@pytest.mark.parametrize(
    "options",
    [
        ("--vla-policy=nope",),
        (f"--vla-policy={EXPERT}", "--vla-axis=nope"),
        (f"--vla-policy={EXPERT}", "-k", "nonsense"),
        ("--vla-policy=scripted",),
        ("--vla-policy=scripted", "-n2"),
    ],
)
def test_a_run_that_cannot_start_touches_nothing_that_an_earlier_one_left(
    kept: ToyProject, options: tuple[str, ...]
) -> None:
    directory = kept.directory("kept")

    def state() -> dict[str, bytes]:
        return {
            str(path.relative_to(directory)): path.read_bytes()
            for path in directory.rglob("*")
            if path.is_file()
        }

    before = state()
    run = kept.run("--vla-run=kept", "--vla-fresh", *options, policy=None)
    assert run.code in (4, 5), run.out
    assert state() == before


def test_a_simulator_that_cannot_start_leaves_the_summary_of_an_earlier_run(
    kept: ToyProject, tmp_path: Path
) -> None:
    project = ToyProject(tmp_path)
    shutil.copytree(kept.directory("kept"), project.directory("kept"))
    before = project.summary("kept")
    suite = project.suite.replace(
        "tests.fakes.toy_simulator:factory", "tests.plugin.broken_simulator:factory"
    )
    (project.path / "suite.toml").write_text(suite)
    for envs in ("0", "1"):
        run = project.run("--vla-run=kept", "--vla-axis=null", f"--vla-envs={envs}", code=4)
        assert "cannot start" in run.out
        assert "MISSING" not in run.out
        assert "INTERNALERROR" not in run.out
    assert project.summary("kept") == before


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_policy_whose_unsupported_raises_is_a_usage_error(
    project: ToyProject, processes: str
) -> None:
    (project.path / "mine.py").write_text(
        "from tests.fakes.toy_policies import Expert\n"
        "class Mine(Expert):\n"
        "    def unsupported(self, task_suite, task):\n"
        "        raise LookupError('no table')\n"
    )
    run = project.run(f"-n{processes}", policy="mine:Mine", code=4)
    assert "LookupError: no table" in run.out
    assert "INTERNALERROR" not in run.out


def test_a_listing_refuses_what_a_run_would_refuse_by_name(pytester: pytest.Pytester) -> None:
    ToyProject(pytester.path)
    assert "Did you mean" in refused(pytester, "--vla-list", "--vla-policy=scripte")
    suite = SUITE.replace("tests.fakes.toy_simulator:factory", "mujoko")
    ToyProject(pytester.path, suite=suite)
    assert "mujoko" in refused(pytester, "--vla-list")


def test_a_listing_with_a_module_that_cannot_be_collected_is_no_success(
    project: ToyProject,
) -> None:
    (project.path / "test_broken.py").write_text("import no_such_module\n")
    assert project.run("--vla-list", policy=None).code != 0
