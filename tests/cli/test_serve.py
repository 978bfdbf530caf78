"""``vla-shift serve`` in processes of its own: it says where it listens, serves, and ends."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.cli import main
from pytest_vla_shift.commands.serve import WIRES
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.wires.json_numpy import encode
from pytest_vla_shift.protocol.registry import BUILTIN

ROOT = Path(__file__).resolve().parents[2]

HANGS = """
import time
import numpy as np

def act(observation):
    if observation.instruction == "hang":
        time.sleep(600)
    return np.zeros((1, 7))
"""


@contextmanager
def serving(
    *words: str, cwd: Path = ROOT, environment: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the line that it printed; it is ended after the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_vla_shift.cli", "serve", "--port", "0", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            pytest.fail(process.communicate()[1])
        yield process, line
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def url_of(line: str) -> str:
    found = re.search(r" at (\S+): ", line)
    assert found, line
    return found[1]


def end(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> str:
    """What it had to say on stderr until it ended, with code 0."""
    process.send_signal(number)
    out, error = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, ""), error
    return error


def connect(wire: str, url: str, token: str | None = None) -> RemotePolicy:
    policy = resolve(wire, {}, settings=PolicySettings(url=url, timeout_s=10, token=token))
    assert isinstance(policy, RemotePolicy)
    return policy


@pytest.mark.parametrize("wire", WIRES)
def test_a_privileged_policy_is_served_on_every_wire(wire: str) -> None:
    with serving("--wire", wire, "--policy", "scripted") as (process, line):
        url = url_of(line)
        assert line.endswith(
            f"pytest --vla-policy={wire} --vla-policy-url={url} suites/quickstart\n"
        )
        policy = connect(wire, url)
        assert policy.spec.privileged
        assert "serves scripted" in policy.spec.revision
        policy.close()
        assert end(process) == ""
        with socket.create_server(("127.0.0.1", int(url.rpartition(":")[2]))):
            pass


def test_ctrl_c_ends_it_while_a_policy_hangs(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(HANGS)
    words = ("--wire", "openvla", "--policy", "hanging:act", "--policy-arg", "cameras=agentview")
    with serving(*words, cwd=tmp_path) as (process, line):
        address = url_of(line).removeprefix("http://")
        connection = http.client.HTTPConnection(address)
        payload = {"image": np.zeros((8, 8, 3), np.uint8), "instruction": "go"}
        connection.request("POST", "/act", encode(payload))
        assert b"__numpy__" in connection.getresponse().read()
        connection.request("POST", "/act", encode({**payload, "instruction": "hang"}))
        time.sleep(0.1)
        assert end(process, signal.SIGINT) == ""
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.getresponse()
        connection.close()


def test_what_goes_wrong_with_a_client_is_a_line_on_stderr(tmp_path: Path) -> None:
    with serving("--wire", "openvla", "--policy", "zero") as (process, line):
        connection = http.client.HTTPConnection(url_of(line).removeprefix("http://"))
        connection.request("POST", "/act", "nonsense\nand more")
        assert connection.getresponse().read() == b'"error"'
        connection.close()
        (said,) = end(process).splitlines()
    assert said.startswith("vla-shift serve: 127.0.0.1: CodecError: not JSON")


def test_token_profile_and_replan_are_taken_and_the_token_is_never_printed() -> None:
    words = ["--wire", "openvla-oft", "--policy", "zero", "--token-variable", "THE_TOKEN"]
    words += ["--profile", "openvla-oft-libero", "--replan", "3"]
    with serving(*words, environment={"THE_TOKEN": "geheim-42"}) as (process, line):
        asked = shlex.split(line.partition(": pytest ")[2])
        assert "--vla-policy-token=THE_TOKEN" in asked
        assert "--vla-policy-arg=profile=openvla-oft-libero" in asked
        policy = connect("openvla-oft", url_of(line), token="geheim-42")
        policy.reset(EPISODE, seed=0)
        assert policy.act(probe_observation(policy.profile)).shape == (8, 7)
        assert policy.spec.replan == 3
        policy.close()
        assert "geheim" not in line + end(process)


@pytest.mark.parametrize(
    "words,said",
    [
        (("--wire", "openvla", "--policy", "nobody"), "unknown policy 'nobody'"),
        (("--wire", "openvla", "--policy", "zero", "--profile", "gr00t-libero"), "is for the wire"),
        (("--wire", "openvla", "--policy", "zero", "--profile", "nothing"), "unknown profile"),
        (("--wire", "openvla", "--policy", "zero", "--token-variable", "NO_SUCH"), "'NO_SUCH'"),
        (("--wire", "openvla", "--policy", "zero", "--host", "no.such.invalid"), "cannot listen"),
        (("--wire", "openvla", "--policy", "zero", "--policy-arg", "a=b"), "cannot be made"),
    ],
)
def test_what_cannot_be_served_is_a_usage_error(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--port", "70000"), ("--port", "x"), ("--wire", "telepathy")])
def test_a_wrong_command_line_is_a_usage_error(
    words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--policy", "zero", "--wire", "openvla", *words])
    assert ended.value.code == 2
    assert words[1] in capsys.readouterr().err


def test_a_port_that_is_taken_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--wire", "openvla", "--policy", "zero", "--port", port]) == 2
    assert f"cannot listen at 127.0.0.1:{port}" in capsys.readouterr().err


def test_every_wire_is_a_policy() -> None:
    assert set(WIRES) <= set(BUILTIN["policies"])
