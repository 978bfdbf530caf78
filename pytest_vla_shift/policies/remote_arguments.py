"""Arguments that every policy behind a server takes, from the texts of ``--vla-policy-arg``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.profile import Profile


@dataclass(frozen=True, slots=True)
class RemoteArguments:
    """What the user said about a policy behind a server.

    Attributes:
        profile: how observations and actions are laid out.
        chunk: the most actions in an answer; None for what the server says.
        seeded: whether a seed decides its randomness; None for what the server says.
    """

    profile: Profile
    chunk: int | None
    seeded: bool | None


def remote_arguments(
    wire: str, profile: str, chunk: str | None, seeded: str | None
) -> RemoteArguments:
    """The three, read.

    Args:
        wire: of :data:`~pytest_vla_shift.policies.profile.WIRES`.
        profile: ``profile=``, or its default.
        chunk: ``chunk=``, a whole number from 1.
        seeded: ``seeded=true`` or ``false``.

    Raises:
        UsageError: there is no such profile, or a text cannot be read.
    """
    return RemoteArguments(
        find_profile(profile, wire),
        None if chunk is None else whole("chunk", chunk),
        None if seeded is None else truth("seeded", seeded),
    )


def whole(name: str, text: str) -> int:
    """A whole number from 1.

    Raises:
        UsageError: it is none.
    """
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0:
        return int(text)
    raise UsageError(f"--vla-policy-arg={name}: {text!r} is not a whole number from 1")


def truth(name: str, text: str) -> bool:
    """``true`` or ``false``.

    Raises:
        UsageError: it is neither.
    """
    if text in ("true", "false"):
        return text == "true"
    raise UsageError(f"--vla-policy-arg={name}: {text!r} is neither true nor false")
