"""Addresses of policies' servers: one reading of ``--vla-policy-url`` for every wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

SECURE = ("https", "wss")


def refuse_secrets(url: str) -> None:
    """See that nobody's name or password is in ``url``, however it is malformed.

    Raises:
        UsageError: there is, or might be, one; the message does not have the URL.
    """
    if "@" in url:
        raise UsageError(
            "--vla-policy-url: a URL is printed and recorded, so that no user name or password may"
            " be in it (this one has an @); --vla-policy-token takes one"
        )


def read_address(url: str, schemes: Sequence[str], port: int, *, bare: bool = False) -> SplitResult:
    """The parts of ``url``, whose ``hostname`` is there and whose ``port`` can be read.

    Args:
        url: what was given.
        schemes: that it may have; the first is the plain one, the last the encrypted one.
        port: of an example.
        bare: whether the protocol has no place for a path or a query.

    Raises:
        UsageError: it is of another form, and the message says how it is spelled; or it holds a
            name or a password, and the message does not have it.
    """
    refuse_secrets(url)
    rest = url.partition("://")[2] or url
    try:
        parts = urlsplit(url)
        scheme, host, _ = parts.scheme, parts.hostname, parts.port
    except ValueError as error:
        scheme, host, why = schemes[0], None, str(error)
    else:
        why = "it names no host"
    if scheme not in schemes:
        why = f"write {schemes[-1] if scheme in SECURE else schemes[0]}://{rest}"
    elif host and not (bare and (parts.path.strip("/") or parts.query or parts.fragment)):
        return parts
    elif host:
        why = "it has more than a host and a port"
    raise UsageError(f"--vla-policy-url: {url!r} is not like {schemes[0]}://HOST:{port}: {why}")
