"""The command line wins over the ini file, and the same command finds the same run."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vla_shift.options import RunConfig, asks_for_rollouts, read_options
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.plan import Cut

POLICY = "--vla-policy=zero"


class Project:
    """A project whose options are read in this process; nothing is collected."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.monkeypatch = monkeypatch
        self.root = pytester.path
        (self.root / "suites" / "quickstart").mkdir(parents=True)
        (self.root / "suites" / "other").mkdir()
        for name in ("quickstart", "other"):
            (self.root / "suites" / name / "test_suite.py").write_text("def test_shift(): pass\n")

    def config(self, *args: str, ini: str = "", where: str = ".") -> pytest.Config:
        (self.root / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
        self.monkeypatch.chdir(self.root / where)
        return self.pytester.parseconfig(*args)

    def read(self, *args: str, ini: str = "", where: str = ".") -> RunConfig:
        return read_options(self.config(*args, ini=ini, where=where))


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(pytester, monkeypatch)


def test_without_options_everything_has_a_default(project: Project) -> None:
    run = project.read(POLICY)
    assert (run.policy, run.policy_args, run.cut) == ("zero", {}, Cut())
    assert (run.list_only, run.envs, run.rollout_timeout_s) == (False, 1, 600.0)
    assert (run.fresh, run.video, run.video_asked) == (False, "degraded", False)
    assert run.reports == project.root / "reports"
    assert run.directory == run.reports / run.run


def test_a_run_evaluates_nothing_unless_it_is_told_a_policy_or_to_list(project: Project) -> None:
    assert not asks_for_rollouts(project.config())
    assert not asks_for_rollouts(project.config("--vla-axis=base"))
    assert not asks_for_rollouts(project.config("--vla-policy="))
    assert asks_for_rollouts(project.config(POLICY))
    assert asks_for_rollouts(project.config("--vla-list"))
    assert asks_for_rollouts(project.config(ini="vla_policy = zero"))


def test_how_the_policy_is_reached_is_read_from_the_command_line(project: Project) -> None:
    run = project.read(
        POLICY,
        "--vla-policy-url=tcp://127.0.0.1:1",
        "--vla-checkpoint=night-7",
        "--vla-replan=4",
        "--vla-policy-token=MY_TOKEN",
    )
    assert (run.policy_url, run.checkpoint) == ("tcp://127.0.0.1:1", "night-7")
    assert (run.replan, run.policy_token) == (4, "MY_TOKEN")


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "", "99999999999"])
def test_a_replan_that_is_no_count_is_refused(project: Project, value: str) -> None:
    if not value:
        assert project.read(POLICY, "--vla-replan=").replan is None
        return
    with pytest.raises(UsageError, match="--vla-replan"):
        project.read(POLICY, f"--vla-replan={value}")


def test_arguments_of_the_ini_are_defaults_of_those_that_are_typed(project: Project) -> None:
    ini = "vla_policy_arg =\n    profile=libero\n    chunk=16"
    assert project.read(POLICY, ini=ini).policy_args == {"profile": "libero", "chunk": "16"}
    typed = project.read(POLICY, "--vla-policy-arg=chunk=8", "--vla-policy-arg=x=1", ini=ini)
    assert typed.policy_args == {"profile": "libero", "chunk": "8", "x": "1"}
    with pytest.raises(UsageError, match="vla_policy_arg: 'chunk' is given twice"):
        project.read(POLICY, ini="vla_policy_arg =\n    chunk=1\n    chunk=2")


def test_the_table_tool_pytest_works_as_well(project: Project) -> None:
    (project.root / "pyproject.toml").write_text(
        '[tool.pytest]\nvla_policy = "zero"\nvla_policy_arg = ["a=1", "b=2"]\n'
        'vla_checkpoint = "night-7"\nvla_replan = "4"\nvla_policy_token = "MY_TOKEN"\n'
    )
    project.monkeypatch.chdir(project.root)
    run = read_options(project.pytester.parseconfig())
    assert (run.policy, run.policy_args) == ("zero", {"a": "1", "b": "2"})
    assert (run.checkpoint, run.replan, run.policy_token) == ("night-7", 4, "MY_TOKEN")


INI = """
vla_policy = zero
vla_task = left
vla_episodes = 0:2
vla_axis = base
vla_level = 1
vla_envs = 0
vla_rollout_timeout = 12
vla_video = off
vla_reports = out
"""


def test_the_ini_gives_defaults(project: Project) -> None:
    run = project.read(ini=INI)
    assert run.policy == "zero"
    assert run.cut == Cut(("left",), (0, 1), axes=("base",), levels=("L1",))
    assert (run.envs, run.rollout_timeout_s, run.video, run.video_asked) == (0, 12.0, "off", True)
    assert run.reports == project.root / "out"


def test_the_command_line_wins_over_the_ini(project: Project) -> None:
    run = project.read(
        "--vla-policy=random",
        "--vla-task=right",
        "--vla-episodes=4",
        "--vla-axis=blur,null",
        "--vla-level=L2,3",
        "--vla-envs=1",
        "--vla-rollout-timeout=7.5",
        "--vla-video=on",
        "--vla-reports=here",
        ini=INI,
    )
    assert run.policy == "random"
    assert run.cut == Cut(("right",), (4,), axes=("blur", "null"), levels=("L2", "L3"))
    assert (run.envs, run.rollout_timeout_s, run.video) == (1, 7.5, "on")
    assert run.reports == project.root / "here"


def test_a_reports_folder_is_relative_to_where_it_was_written(project: Project) -> None:
    assert project.read(POLICY, where="suites").reports == project.root / "reports"
    run = project.read(POLICY, ini="vla_reports = out", where="suites")
    assert run.reports == project.root / "out"
    run = project.read(POLICY, "--vla-reports=out", where="suites")
    assert run.reports == project.root / "suites" / "out"
    run = project.read(POLICY, "--vla-reports=/absolute/out")
    assert run.reports == Path("/absolute/out")


@pytest.mark.parametrize(
    "args, where, name",
    [
        (["suites/quickstart"], ".", "zero-quickstart"),
        (["suites/quickstart/"], ".", "zero-quickstart"),
        (["suites/quickstart/test_suite.py"], ".", "zero-quickstart"),
        (["suites/quickstart/test_suite.py::test_shift"], ".", "zero-quickstart"),
        (["suites/quickstart/test_suite.py::test_shift[a-b::c]"], ".", "zero-quickstart"),
        (["test_suite.py"], "suites/quickstart", "zero-quickstart"),
        (["."], "suites/quickstart", "zero-quickstart"),
        (["../quickstart"], "suites/other", "zero-quickstart"),
        ([".."], "suites/quickstart", "zero-suites"),
        (["suites/quickstart", "suites/other"], ".", "zero-suites"),
        (["suites/quickstart/test_suite.py", "suites/quickstart"], ".", "zero-quickstart"),
        ([], "suites/quickstart", "zero-quickstart"),
    ],
)
def test_a_run_is_named_after_the_policy_and_what_was_asked_for(
    project: Project, args: list[str], where: str, name: str
) -> None:
    assert project.read(POLICY, *args, where=where).run == name


def test_without_paths_the_run_is_named_after_testpaths(project: Project) -> None:
    assert project.read(POLICY, ini="testpaths = suites").run == "zero-suites"
    assert project.read(POLICY).run == f"zero-{project.root.name}"


@pytest.mark.parametrize(
    "policy, name",
    [
        ("my.module:Policy", "my.module-Policy-quickstart"),
        ("_private:Policy", "private-Policy-quickstart"),
        ("a b/c:d", "a-b-c-d-quickstart"),
    ],
)
def test_any_policy_makes_a_plain_folder_name(project: Project, policy: str, name: str) -> None:
    assert project.read(f"--vla-policy={policy}", "suites/quickstart").run == name


def test_a_shard_has_a_folder_of_its_own_whatever_the_run_is_called(project: Project) -> None:
    run = project.read(POLICY, "--vla-shard=2/12", "suites/quickstart")
    assert (run.shard, run.run) == ((2, 12), "zero-quickstart-shard2of12")
    assert project.read(POLICY, "--vla-shard=1/1", "--vla-run=mine").run == "mine-shard1of1"


def test_a_listing_without_a_policy_has_a_name_too(project: Project) -> None:
    run = project.read("--vla-list", "suites/quickstart")
    assert (run.policy, run.list_only, run.run) == (None, True, "plan-quickstart")


def test_policy_arguments_are_texts(project: Project) -> None:
    run = project.read(POLICY, "--vla-policy-arg=a=1", "--vla-policy-arg=b=x=y", "--vla-fresh")
    assert run.policy_args == {"a": "1", "b": "x=y"}
    assert run.fresh


@pytest.mark.parametrize(
    "args, words",
    [
        (["--vla-axis=base,,blur"], "--vla-axis: 'base,,blur' has an empty word"),
        (["--vla-task=,"], "--vla-task: ',' has an empty word"),
        (["--vla-level=L0"], "--vla-level: 'L0' is not a level; use L1 or 1"),
        (["--vla-level=10"], "--vla-level: '10' is not a level"),
        (["--vla-episodes=3:1"], "--vla-episodes: '3:1' names no episode"),
        (["--vla-episodes=0:9999999999"], "--vla-episodes: '0:9999999999' goes beyond episode"),
        (["--vla-envs=-1"], "--vla-envs: '-1' is neither 0"),
        (["--vla-rollout-timeout=nan"], "--vla-rollout-timeout: 'nan' is not a positive number"),
        (["--vla-rollout-timeout=inf"], "--vla-rollout-timeout: 'inf' is not a positive number"),
        (["--vla-policy-timeout=1e9"], "--vla-policy-timeout: '1e9' is more than 1,000,000"),
        (["--vla-video=ON"], "--vla-video: 'ON' is none of on, off, degraded"),
        (["--vla-run=a/b"], "--vla-run: 'a/b' must be a plain folder name"),
        (["--vla-run=.."], "--vla-run: '..' must be a plain folder name"),
        (["--vla-policy-arg=a=1", "--vla-policy-arg=a=2"], "--vla-policy-arg: 'a' is given twice"),
        (["--vla-policy-arg=1a=2"], "--vla-policy-arg: '1a=2' is not like name=value"),
    ],
)
def test_a_wrong_value_is_told_with_its_option(
    project: Project, args: list[str], words: str
) -> None:
    with pytest.raises(UsageError) as error:
        project.read(POLICY, *args)
    assert str(error.value).startswith(words)


@pytest.mark.parametrize(
    "line, words",
    [
        ("vla_envs = many", "--vla-envs: 'many'"),
        ("vla_video = maybe", "--vla-video: 'maybe'"),
        ("vla_level = high", "--vla-level: 'high'"),
    ],
)
def test_a_wrong_value_of_the_ini_is_told_too(project: Project, line: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        project.read(POLICY, ini=line)
    assert str(error.value).startswith(words)
