"""How a policy is reached and run, as far as it is no argument of the policy's own."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pytest_vla_shift.protocol.errors import UsageError

FIRST = 10.0
"""The first decisions may take so many times the limit: they compile and load."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{8,64}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,40}")
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The weights under test, as the key of every rollout has them.

    Attributes:
        label: what people call it: never a path, since another machine has other paths.
        digest: ``sha256:`` and hex digits over its files, or what the user said it is; empty if
            nobody knows. Then the label alone tells two checkpoints apart.
        path: where its files are on this machine; None if only a server has them. Not in the key.
    """

    label: str
    digest: str = ""
    path: Path | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.label}@{self.digest}" if self.digest else self.label


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """What the options of a run say about reaching its policy; all but two are in no key.

    Attributes:
        url: ``--vla-policy-url``: where the policy's server listens.
        timeout_s: ``--vla-policy-timeout``: after this a call counts as hung; the first
            decision has :data:`FIRST` times as long.
        token: what the variable that ``--vla-policy-token`` names holds. Never printed or recorded.
        checkpoint: ``--vla-checkpoint``; in the key.
        replan: ``--vla-replan``: how many actions of a chunk are executed before the policy is
            asked again; None for what the policy or its profile says. In the key.
    """

    url: str | None = None
    timeout_s: float = 120.0
    token: str | None = field(default=None, repr=False)
    checkpoint: Checkpoint | None = None
    replan: int | None = None

    def redacted(self, text: str) -> str:
        """``text`` with ``***`` in the token's place."""
        return text.replace(self.token, "***") if self.token else text


def read_token(variable: str, option: str) -> str:
    """What the environment variable holds.

    Raises:
        UsageError: it is not set, or empty; ``option`` is what the message calls it.
    """
    token = os.environ.get(variable)
    if not token:
        # It may be the token itself, given by mistake.
        shown = f" {variable!r}" if _VARIABLE.fullmatch(variable) else ""
        raise UsageError(
            f"{option} names an environment variable{shown} that is not set. It takes a variable's"
            " name, so that the token itself is in no history"
        )
    return token


def read_checkpoint(value: str) -> Checkpoint:
    """``--vla-checkpoint``: a path, a label, or either with ``@sha256:...`` behind it.

    The digest of a path covers every file in it, by relative name and content: two copies agree.
    A digest that is given as well must agree with it.

    Raises:
        UsageError: empty or malformed; the files cannot be read or are others than the digest says.
    """
    label, separator, said = value.rpartition("@") if "@sha256" in value else (value, "", "")
    label, said = label.strip(), said.strip().lower()
    if not label.isprintable() or not label or (separator and _DIGEST.fullmatch(said) is None):
        raise UsageError(
            f"checkpoint: {value!r} is neither a path nor a label, either with"
            " @sha256:<8 to 64 hex digits> behind it or not"
        )
    path = Path(label).expanduser()
    if not path.exists():
        if path.is_symlink():
            raise UsageError(f"checkpoint: {label!r} is a link to what is not there")
        # A label may have a slash, as names of hubs do; where its folder is, it is a slip.
        if label.startswith((".", "/", "~")) or (len(path.parts) > 1 and path.parent.is_dir()):
            raise UsageError(f"checkpoint: there is no {label!r}")
        return Checkpoint(label, said)
    try:
        found = files_digest(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"checkpoint: {label!r} cannot be read: {error}") from error
    if said and not found.startswith(said):
        raise UsageError(f"checkpoint: {label!r} has the digest {found}, not {said}")
    return Checkpoint(path.resolve().name, found, path.resolve())


def files_digest(path: Path) -> str:
    """``sha256:`` and the digest of a file, or of every file in a folder by relative name.

    Links are followed: what counts is what a loader would read.

    Raises:
        OSError: something cannot be read, or is a link to nothing.
        ValueError: there is no file, something is no file, or links lead around in a circle.
    """
    whole = hashlib.sha256()
    files = [path] if path.is_file() else sorted(_files(path, frozenset()))
    if not files:
        raise ValueError("there is no file in it")
    for file in files:
        one = hashlib.sha256()
        with file.open("rb") as stream:
            while block := stream.read(_BLOCK):
                one.update(block)
        name = "" if file == path else file.relative_to(path).as_posix()
        whole.update(f"{name}\0{one.hexdigest()}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def _files(folder: Path, above: frozenset[Path]) -> Iterator[Path]:
    """Every file within ``folder``; ``above`` are the real folders that lead to it."""
    real = folder.resolve()
    if real in above:
        raise ValueError(f"links lead around in a circle at {folder.name!r}")
    for item in folder.iterdir():
        if item.is_dir():
            yield from _files(item, above | {real})
        elif item.is_file():
            yield item
        elif item.is_symlink():
            raise FileNotFoundError(f"{item.name!r} is a link to what is not there")
        else:
            raise ValueError(f"{item.name!r} is no file")
