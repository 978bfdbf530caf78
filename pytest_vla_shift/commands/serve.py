"""``vla-shift serve``: any policy of ours behind any wire that ``--vla-policy`` speaks."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import logging
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO, cast

from pytest_vla_shift.commands import arguments

if TYPE_CHECKING:
    from pytest_vla_shift.policies.serving.host import Host, Service

DESCRIPTION = (
    "Serve a policy of this package, or module:attr, to clients of a model's own protocol, until"
    " Ctrl-C or SIGTERM. Exit code 0 then; 1 if the server broke."
)

LEAVE_S = 2.0
"""How long what runs in other threads is waited for at the end."""


@dataclass(frozen=True, slots=True)
class WireChoice:
    """One value of ``--wire``.

    Attributes:
        wire: what its profiles call it.
        profile: the default one.
        port: that of the model's own server.
        module: of :mod:`pytest_vla_shift.policies.serving`.
    """

    wire: str
    profile: str
    port: int
    module: str


WIRES = {
    "gr00t": WireChoice("gr00t", "libero", 5555, "gr00t"),
    "openpi": WireChoice("openpi", "libero", 8000, "openpi"),
    "vla-eval": WireChoice("vla-eval", "libero", 8000, "vla_eval"),
    "openvla": WireChoice("openvla", "libero", 8000, "openvla"),
    "openvla-oft": WireChoice("openvla", "oft-libero", 8777, "openvla"),
}
"""Name -> wire; each is also the ``--vla-policy`` that asks such a server."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift serve``."""
    parser.add_argument(
        "--wire", required=True, choices=tuple(WIRES), help="the protocol that clients speak"
    )
    arguments.add_policy(parser)
    parser.add_argument(
        "--profile", metavar="NAME", help="how clients lay out observations: a name, or a .toml"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where to listen (default: 127.0.0.1, this machine alone)",
    )
    parser.add_argument(
        "--port",
        type=_port,
        metavar="N",
        help="port to listen at; 0 for a free one (default: that of the model's own server)",
    )
    parser.add_argument(
        "--token-variable",
        metavar="VARIABLE",
        help="environment variable with a token that clients must have",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="policy seed of the rollouts of clients that send none (default 0)",
    )


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command.

    Raises:
        UsageError: policy, profile, address or token cannot be used.
    """
    from pytest_vla_shift.policies.profile import find_profile
    from pytest_vla_shift.policies.serving.host import Host
    from pytest_vla_shift.policies.settings import read_token

    choice = WIRES[given.wire]
    variable = given.token_variable
    token = None if variable is None else read_token(variable, "--token-variable")
    profile = find_profile(given.profile or choice.profile, choice.wire)
    port = choice.port if given.port is None else given.port
    policy = arguments.policy_of(given)
    try:
        host = Host(policy, profile, seed=given.seed)
        service = _module(choice).open_service(host, given.host, port, token)
        with _logged(), _until_a_signal() as ended:
            try:
                asked = _client(given, service)
                out.write(f"serving {policy.spec.name} at {service.url}: {asked}\n")
                out.flush()
                if token is None and not _is_loopback(given.host):
                    print(
                        f"vla-shift serve: whoever reaches {given.host} can ask this policy;"
                        " --token-variable asks clients for a token",
                        file=sys.stderr,
                    )
                return _serve(service, ended)
            finally:
                service.close()
                _leave(host.close)
    finally:
        _leave(policy.close)


class _Serving(Protocol):
    """A module of :mod:`pytest_vla_shift.policies.serving`."""

    def open_service(self, host: Host, address: str, port: int, token: str | None) -> Service: ...


def _module(choice: WireChoice) -> _Serving:
    import importlib

    name = f"pytest_vla_shift.policies.serving.{choice.module}"
    return cast("_Serving", importlib.import_module(name))


def _serve(service: Service, ended: threading.Event) -> int:
    """Until a signal comes, 0; or the server breaks, 1."""
    broken: list[BaseException] = []

    def serve() -> None:
        try:
            service.serve()
        except BaseException as error:
            broken.append(error)
        finally:
            ended.set()

    # In a thread: a signal's handler runs between any two lines of the main one, where a server's
    # code may be in the middle of anything.
    thread = threading.Thread(target=serve, name="vla-shift-serve", daemon=True)
    thread.start()
    ended.wait()
    service.close()
    thread.join(LEAVE_S)
    if broken:
        print(f"vla-shift serve: {type(broken[0]).__name__}: {broken[0]}", file=sys.stderr)
    return 1 if broken else 0


@contextlib.contextmanager
def _until_a_signal() -> Iterator[threading.Event]:
    """An event that SIGINT, SIGTERM and SIGHUP set, once: the next one has its usual effect."""
    ended = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(number: int, frame: object) -> None:  # noqa: ARG001
        restore()
        ended.set()

    for number in numbers:
        if before[number] is not signal.SIG_IGN:  # nohup's
            signal.signal(number, end)
    try:
        yield ended
    finally:
        restore()


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """What goes wrong with a client, a line each on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("vla-shift serve: %(message)s"))
    logger = logging.getLogger("pytest_vla_shift")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _leave(close: Callable[[], None]) -> None:
    """Close the policy, which may be in a call that does not end."""
    thread = threading.Thread(target=close, daemon=True)
    thread.start()
    thread.join(LEAVE_S)


def _client(given: argparse.Namespace, service: Service) -> str:
    """The command that asks this server."""
    words = ["pytest", f"--vla-policy={given.wire}", f"--vla-policy-url={service.url}"]
    if given.profile is not None:
        words.append(f"--vla-policy-arg=profile={given.profile}")
    if given.token_variable is not None:
        words.append(f"--vla-policy-token={given.token_variable}")
    return shlex.join([*words, "suites/quickstart"])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port")
