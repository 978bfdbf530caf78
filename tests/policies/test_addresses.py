"""No wire takes a URL with a password in it, and none shows one, however it is spelled."""

from __future__ import annotations

import pytest

from pytest_vla_shift.policies.addresses import read_address
from pytest_vla_shift.policies.endpoint import settle
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.protocol.errors import UsageError

SCHEMES = {"gr00t": "tcp", "openpi": "ws", "vla-eval": "ws", "openvla": "http"}
NAMES = [*SCHEMES, "openvla-oft", "pi05", "lerobot"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "url",
    [
        "SCHEME://user:geheim@127.0.0.1:1",
        "SCHEME://geheim@127.0.0.1:1",
        "SCHEME://user:ge/geheim@127.0.0.1:1",
        "SCHEME://user:geheim@",
        "SCHEME://user:geheim@[127.0.0.1:port",
        "user:geheim@127.0.0.1:1",
        "ftp://user:geheim@127.0.0.1:1",
    ],
)
def test_a_password_is_refused_and_not_shown(name: str, url: str) -> None:
    scheme = SCHEMES.get(name, "http" if name == "openvla-oft" else "ws")
    with pytest.raises(UsageError, match="--vla-policy-token takes one") as refused:
        resolve(name, {}, settings=PolicySettings(url=url.replace("SCHEME", scheme)))
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("url", ["tcp://user:geheim@127.0.0.1:{port}", "user:geheim@127.0.0.1"])
def test_nor_is_it_shown_where_a_server_is_started(url: str) -> None:
    with pytest.raises(UsageError, match="--vla-policy-token takes one") as refused:
        settle(url, "serve {port}")
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("name", NAMES)
def test_where_to_say_the_address_is_said_when_nobody_answers(name: str) -> None:
    scheme = SCHEMES.get(name, "http" if name == "openvla-oft" else "ws")
    url = f"{scheme}://127.0.0.1:1"
    with pytest.raises(UsageError, match="no server answers") as refused:
        resolve(name, {}, settings=PolicySettings(url=url))
    assert f"--vla-policy-url={scheme}://HOST:PORT" in str(refused.value)


@pytest.mark.parametrize(
    "url, words",
    [
        ("127.0.0.1:7", "write ws://127.0.0.1:7"),
        ("https://gpu-box/x", "write wss://gpu-box/x"),
        ("ws://:7", "names no host"),
        ("ws://gpu-box:seven", "cast"),
        ("ws://gpu-box:7/x", "more than a host and a port"),
        ("ws://gpu-box:7?x", "more than a host and a port"),
        ("ws://[gpu-box:7", "Invalid IPv6"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"is not like ws://HOST:8000: .*{words}"):
        read_address(url, ("ws", "wss"), 8000, bare=True)


@pytest.mark.parametrize("url", ["ws://gpu-box", "ws://gpu-box:7/", "wss://[::1]:7"])
def test_what_is_right_is_taken_apart(url: str) -> None:
    assert read_address(url, ("ws", "wss"), 8000, bare=True).geturl() == url
