"""A server that the run starts for its policy: started once, waited for, and surely ended."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.fakes import served_policy
from tests.fakes.processes import alive, wait_until_gone
from tests.plugin import inprocess
from tests.plugin.toy_project import EXPERT, ToyProject

_KEPT = served_policy  # imported once, see inprocess
SERVED = "tests.fakes.served_policy:Served"
URL = "--vla-policy-url=tcp://127.0.0.1:{port}"
ANY = ["--vla-run=r", "--vla-axis=null"]
PART = "--vla-axis=null,blur"


class Service:
    """The command line of a policy server, and what it did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.diary = folder / "diary.txt"

    def command(self, *options: str) -> str:
        """The option that starts it."""
        words = [sys.executable, "-m", "tests.fakes.policy_service", "--port", "PORT"]
        words += ["--diary", str(self.diary), *options]
        return "--vla-policy-command=" + shlex.join(words).replace("PORT", "{port}")

    def options(self, *options: str) -> list[str]:
        return [URL, self.command(*options)]

    def lines(self, word: str) -> list[str]:
        text = self.diary.read_text() if self.diary.exists() else ""
        return [line for line in text.splitlines() if line.split()[0] == word]

    def pids(self) -> list[int]:
        """The server and what it started."""
        return [int(line.split()[1]) for line in self.lines("pid") + self.lines("child")]

    def wait_for(self, condition: Callable[[], bool], run: subprocess.Popen[str]) -> None:
        until = time.monotonic() + 60
        while not condition():
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < until
            time.sleep(0.01)

    def processes(self) -> list[str]:
        """Every process whose command line names our folder, by psutil."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            line = " ".join(process.info["cmdline"] or ())
            if str(self.folder) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(line)
        return found


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    yield service
    for pid in service.pids():
        assert wait_until_gone(pid, 15.0), f"process {pid} is left"
    until = time.monotonic() + 5.0  # the supervisor, last of all
    while found := service.processes():
        assert time.monotonic() < until, found
        time.sleep(0.05)


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The rows of :data:`PART` by a policy that asks no server."""
    project = ToyProject(tmp_path_factory.mktemp("inside"))
    project.run("--vla-run=inside", PART, policy=SERVED, code=0)
    return project.outcomes("inside")


@pytest.mark.parametrize("how", ["-n0", "-n2", "--vla-envs=2"])
def test_one_server_is_started_for_the_run_and_the_rows_are_those_of_the_process_itself(
    project: ToyProject, service: Service, inside: list[dict[str, object]], how: str
) -> None:
    command = service.options("--loads-s=0.3")
    run = project.run("--vla-run=r", PART, how, *command, policy=SERVED, code=0)
    assert project.outcomes("r") == inside
    assert len(service.lines("pid")) == 1
    # A policy in each worker, a session in each lane; who is given no rollout asks nothing.
    assert len(service.lines("client")) in ((1,) if how == "-n0" else (1, 2))
    assert not any(map(alive, service.pids())), "it outlived the run"
    assert "policy server: waiting for tcp://127.0.0.1:" in run.out
    assert "loading the weights" in (project.directory("r") / "policy-server.log").read_text()
    if how == "-n0":
        # The URL is no part of a key.
        again = project.run("--vla-run=r", PART, policy=SERVED, code=0)
        assert "rollouts 18 of 18 (18 found)" in again.out


def test_a_server_of_somebody_else_is_used_and_left_alone(
    project: ToyProject, service: Service
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = shlex.split(service.command().split("=", 1)[1].replace("{port}", str(port)))
    with subprocess.Popen(words, env=project.env(), stdout=subprocess.DEVNULL) as server:
        try:
            service.wait_for(lambda: listens(port), server)  # type: ignore[arg-type]
            url = f"--vla-policy-url=tcp://127.0.0.1:{port}"
            project.run(*ANY, url, policy="tests.fakes.served_policy:OnlyServed", code=0)
            assert server.poll() is None
            refused = project.run(
                *ANY, url, service.command().replace("{port}", str(port)), policy=SERVED, code=4
            )
            assert "something listens at" in refused.out
        finally:
            server.kill()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_a_server_that_dies_before_it_listens_is_a_usage_error_with_its_last_words(
    project: ToyProject, service: Service, processes: str
) -> None:
    run = project.run(*ANY, processes, *service.options("--exit=3"), policy=SERVED, code=4)
    assert "the policy's server exited with code 3" in run.out
    assert "no such checkpoint: run7.pt" in run.out
    assert "Traceback" not in run.out
    assert not list(project.path.glob("reports/*/rollouts/results-*.jsonl"))


def test_a_server_that_never_listens_is_ended_and_a_usage_error(
    project: ToyProject, service: Service
) -> None:
    command = service.options("--loads-s=300", "--stubborn")
    run = project.run(*ANY, *command, "--vla-policy-start-timeout=1", policy=SERVED, code=4)
    assert "did not listen at tcp://127.0.0.1:" in run.out
    assert "within the 1 s of --vla-policy-start-timeout" in run.out
    assert len(service.pids()) == 3


def test_a_command_that_cannot_be_run_is_a_usage_error(
    project: ToyProject, service: Service
) -> None:
    run = project.run(
        *ANY, URL, "--vla-policy-command=/no/such/server {port}", policy=SERVED, code=4
    )
    assert "cannot be run: [Errno 2]" in run.out


@pytest.mark.parametrize("how", ["-n0", "-n2", "--vla-envs=2"])
def test_a_server_that_dies_in_the_middle_stops_the_run_and_counts_no_failure(
    project: ToyProject, service: Service, inside: list[dict[str, object]], how: str
) -> None:
    part = [PART, how]
    run = project.run(
        "--vla-run=r", *part, *service.options("--die-after=40"), policy=SERVED, code=2
    )
    words = " ".join(run.out.split())
    assert "the policy's server was killed by SIGKILL" in words
    assert "stopped, no failure was counted" in words
    assert "CUDA error: device-side assert triggered" in run.out
    rows = project.rows("r")
    errors = [row for row in rows if row["status"] == "error"]
    # Lanes run ahead of the node that tells, and the toy's rollouts take milliseconds.
    most = {"-n0": 1, "-n2": 2, "--vla-envs=2": 10}[how]
    assert 1 <= len(errors) <= most, "rollouts went on without a server"
    assert len(rows) < 18
    assert all(row["error"][0] == "policy" for row in errors)  # type: ignore[index]
    project.run("--vla-run=r", *part, *service.options(), policy=SERVED, code=0)
    done = [row for row in project.outcomes("r") if row["status"] == "done"]
    assert done == inside


WRONG = {
    "no URL": (["--vla-policy-command=serve"], "needs --vla-policy-url"),
    "port in the URL alone": ([URL, "--vla-policy-command=serve"], "has {port}"),
    "port in the command alone": (
        ["--vla-policy-url=tcp://127.0.0.1:1", "--vla-policy-command=serve {port}"],
        "--vla-policy-command has {port}",
    ),
    "port without a command": ([URL], "has {port}"),
    "no port": (
        ["--vla-policy-url=tcp://127.0.0.1", "--vla-policy-command=serve"],
        "not like tcp://HOST:PORT",
    ),
    "a port that is none": (
        ["--vla-policy-url=tcp://127.0.0.1:99999", "--vla-policy-command=serve"],
        "not like tcp://HOST:PORT",
    ),
    "no URL at all": (
        ["--vla-policy-url=127.0.0.1:8000", "--vla-policy-command=serve"],
        "not like tcp://HOST:PORT",
    ),
    "quotes": ([URL, "--vla-policy-command='serve {port}"], "No closing quotation"),
    "another axis": (["--vla-axis=camra"], "no suite of this run has"),
    "another argument": (["--vla-policy-arg=colour=red"], "colour"),
    "a second URL": (["--vla-policy-arg=url=tcp://127.0.0.1:1"], "url is given twice"),
}


@pytest.mark.parametrize("case", WRONG)
def test_nothing_is_started_while_the_command_line_is_wrong(
    pytester: pytest.Pytester, service: Service, case: str
) -> None:
    ToyProject(pytester.path)
    options, message = WRONG[case]
    if not any("policy-url" in option or "command" in option for option in options):
        options = [*service.options(), *options]
    run = inprocess.run(pytester, *ANY, f"--vla-policy={SERVED}", *options)
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    assert message in f"{run.stdout}{run.stderr}"
    assert not service.diary.exists()


def test_a_policy_that_takes_no_url_or_needs_one_says_so_before_anything_starts(
    pytester: pytest.Pytester, service: Service
) -> None:
    ToyProject(pytester.path)
    for policy, options, message in (
        (EXPERT, service.options(), "takes no url"),
        ("tests.fakes.served_policy:ready", service.options(), "made already"),
        ("tests.fakes.served_policy:OnlyServed", [], "say where with --vla-policy-url"),
        ("tests.fakes.served_policy:function", [], "say where with --vla-policy-url"),
    ):
        run = inprocess.run(pytester, *ANY, f"--vla-policy={policy}", *options)
        assert run.ret == pytest.ExitCode.USAGE_ERROR
        assert message in f"{run.stdout}{run.stderr}"
    assert not service.diary.exists()


@pytest.mark.parametrize("option", ["--vla-list", "--collect-only", "-knothing", None])
def test_a_run_without_rollouts_starts_no_server(
    pytester: pytest.Pytester, service: Service, option: str | None
) -> None:
    ToyProject(pytester.path)
    asks = [] if option is None else [f"--vla-policy={SERVED}", option]
    run = inprocess.run(pytester, *ANY, *service.options(), *asks)
    assert run.ret in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert not service.diary.exists()


def test_an_audit_alone_asks_the_server_as_well(tmp_path: Path, service: Service) -> None:
    module = "def test_pairing_audit(audit):\n    audit.assert_pairing()\n"
    project = ToyProject(tmp_path / "project", module=module)
    policy = "tests.fakes.served_policy:OnlyServed"
    run = project.run("--vla-run=r", "--vla-episodes=0", *service.options(), policy=policy, code=0)
    assert "1 passed" in run.out
    assert len(service.lines("client")) == 1


ENDS = {
    "Ctrl-C": ("-n0", "--children", [signal.SIGINT]),
    "Ctrl-C under xdist": ("-n2", "--children", [signal.SIGINT]),
    "Ctrl-C twice": ("-n0", "--stubborn", [signal.SIGINT, signal.SIGINT]),
    "SIGTERM": ("-n0", "--children", [signal.SIGTERM]),
    "kill -9": ("-n0", "--stubborn", [signal.SIGKILL]),
    "kill -9 under xdist": ("-n2", "--children", [signal.SIGKILL]),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_server_and_all_that_it_started_end_with_the_run_however_that_goes(
    project: ToyProject, service: Service, end: str
) -> None:
    processes, children, signals = ENDS[end]
    project.environment["TOY_STEP_SECONDS"] = "0.01"
    run = project.start("--vla-run=r", processes, *service.options(children), policy=SERVED)
    service.wait_for(lambda: bool(service.lines("client")), run)
    for number in signals:
        os.kill(run.pid, number)
        time.sleep(0.3)
    run.communicate(timeout=60)
    assert run.returncode != 0
    assert len(service.pids()) == 3
    # That nothing is left is seen by the fixture.


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_ctrl_c_while_a_server_loads_ends_both(
    project: ToyProject, service: Service, processes: str
) -> None:
    command = service.options("--loads-s=300", "--children")
    run = project.start(*ANY, processes, *command, policy=SERVED)
    service.wait_for(lambda: len(service.pids()) == 3, run)
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == pytest.ExitCode.INTERRUPTED, out


def test_the_server_ends_with_an_internal_error_and_at_x(
    project: ToyProject, service: Service
) -> None:
    project.run("--vla-run=x", "-x", *service.options(), policy=SERVED, code=1)
    assert not any(map(alive, service.pids()))
    (project.path / "conftest.py").write_text(
        "def pytest_vla_pair_finished(pair):\n    import os\n    os._exit(77)\n"
    )
    project.run("--vla-run=y", *service.options(), policy=SERVED, code=77)
    (project.path / "conftest.py").write_text(
        "def pytest_runtest_logfinish():\n    raise RuntimeError('a broken plugin')\n"
    )
    run = project.run("--vla-run=z", *service.options(), policy=SERVED, code=3)
    assert "a broken plugin" in run.out
    assert len(service.pids()) == 3


def test_the_supervisor_takes_the_server_with_it(project: ToyProject, service: Service) -> None:
    project.environment["TOY_STEP_SECONDS"] = "0.01"
    run = project.start("--vla-run=r", *service.options(), policy=SERVED)
    service.wait_for(lambda: bool(service.lines("client")), run)
    (server,) = service.pids()
    supervisor = psutil.Process(server).parent()
    assert supervisor is not None
    assert "supervise.py" in " ".join(supervisor.cmdline())
    supervisor.kill()
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 2
    assert "lost its supervisor" in out
