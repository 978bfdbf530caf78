"""A server of another kind than was asked for is named, where it can be told."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from importlib import import_module

import pytest

from pytest_vla_shift.policies.baselines import Zero
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.recognise import SCHEMES, kind_at, with_hint
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.protocol.errors import UsageError
from tests.fakes.services import answering
from tests.policies.websocket_peers import closed_port


@contextlib.contextmanager
def server(wire: str) -> Iterator[str]:
    """Host and port of one of ours, which answers as stock ones do."""
    module = import_module(f"pytest_vla_shift.policies.serving.{wire.replace('-', '_')}")
    host = Host(Zero(), find_profile("libero", wire))
    with answering(module.open_service(host, port=0)) as service:
        yield service.url.partition("://")[2]


@pytest.mark.parametrize("kind", SCHEMES)
def test_whoever_is_asked_in_another_language_is_named(kind: str) -> None:
    with server(kind) as where:
        for wire, scheme in SCHEMES.items():
            if wire == kind:
                continue
            url = f"{scheme}://{where}"
            with pytest.raises(UsageError) as refused:
                resolve(wire, {}, settings=PolicySettings(url=url, timeout_s=0.3))
            said = str(refused.value)
            assert said.count("--vla-policy=") == 1, (wire, said)
            assert f"--vla-policy={kind}" in said, (wire, said)
            if (wire, kind) != ("vla-eval", "openpi"):  # told from its first frame
                assert said.endswith(f"--vla-policy-url={SCHEMES[kind]}://{where}"), (wire, said)


@pytest.mark.parametrize("kind", SCHEMES)
def test_a_server_of_the_right_kind_that_is_not_well_is_not_misnamed(kind: str) -> None:
    with server(kind) as where:
        assert kind_at(f"{SCHEMES[kind]}://{where}") == kind
        assert with_hint("It raised", f"{SCHEMES[kind]}://{where}", kind) == "It raised"


@pytest.mark.parametrize("says", [b"", b"\xfe" * 10, b"SSH-2.0-OpenSSH\r\n", b"\xff" * 100])
def test_what_is_none_of_them_is_not_named_and_holds_nobody(says: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken: list[socket.socket] = []

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listening.accept()
                    taken.append(peer)
                    peer.sendall(says)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        began = time.monotonic()
        assert kind_at(f"ws://127.0.0.1:{listening.getsockname()[1]}") is None
        assert time.monotonic() - began < 6.0
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        for peer in taken:
            peer.close()


@pytest.mark.parametrize(
    "url", ["ws://127.0.0.1:PORT", "wss://127.0.0.1:PORT", "nonsense", "ws://["]
)
def test_nobody_is_nobody(url: str) -> None:
    assert kind_at(url.replace("PORT", str(closed_port()))) is None
