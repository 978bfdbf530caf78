"""``vla-shift init``: a starter suite for people who installed the package."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import TextIO

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.suite import parse_suite, shipped_text
from pytest_vla_shift.protocol.suite import shipped as shipped_names

TEST = '''"""Runs suite.toml, the file beside this one: one test a task, episode and condition."""

from pytest_vla_shift import Pair


def test_shift(pair: Pair) -> None:
    pair.assert_not_degraded()
'''

DESCRIPTION = (
    "Write a starter suite, suite.toml and test_<DIR's name>.py, into DIR. Nothing is overwritten."
)

HEADER = """\
# Your own protocol, copied from the shipped suite {shipped!r}. The name below is in the key of
# every rollout, so that results of this file are never taken for those of {shipped!r}.
# Every field: docs/reference/suite-file.md of pytest-vla-shift.

"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift init``."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="made if it is not there")
    parser.add_argument(
        "--suite",
        default="quickstart",
        metavar="NAME",
        help=f"the shipped suite to start from: {', '.join(shipped_names())} (default: quickstart)",
    )


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command."""
    return init(given.directory, given.suite, out)


def init(directory: Path, shipped: str, out: TextIO) -> int:
    """Write ``suite.toml`` and a test module into ``directory``.

    Both are called after the folder: two suites of one name, or two test modules of one name
    without packages around them, cannot be in one run of pytest.

    Args:
        directory: made if it is not there; its name becomes the suite's and the module's.
        shipped: the shipped suite to start from.
        out: where the next commands are printed.

    Returns:
        0.

    Raises:
        UsageError: unknown suite, a file that is already there, or a folder that cannot be
            written. Nothing is left behind then.
    """
    name = suite_name(directory)
    text = HEADER.format(shipped=shipped) + _renamed(shipped_text(shipped), name)
    parse_suite(text, "the starter suite")  # what we write must be readable
    module = directory / f"test_{name}.py"
    files = {directory / "suite.toml": text, module: TEST}
    there = [path for path in files if path.exists() or path.is_symlink()]
    if there:
        raise UsageError(f"{there[0]} is there already; choose another folder, or move it away")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            with path.open("x", encoding="utf-8") as stream:
                stream.write(content)
    except OSError as error:
        raise UsageError(f"cannot write into {directory}: {error}") from error
    where = shlex.quote(str(directory))
    out.write(
        f"wrote {directory / 'suite.toml'} and {module}\n\n"
        "next:\n"
        "  # what would run, and for how long\n"
        f"  pytest {where} --vla-list\n"
        "  # run it with a small policy that sees, two processes at once\n"
        f"  pytest {where} --vla-policy=tiny -n 2\n"
        "  # if something is missing\n"
        "  vla-shift doctor\n"
    )
    return 0


def suite_name(directory: Path) -> str:
    """The folder's name in a suite's alphabet: lower-case letters, digits and ``_``.

    It begins with a letter, so that it is an identifier too, and is no shipped suite's.
    """
    name = re.sub(r"[^a-z0-9]+", "_", directory.resolve().name.lower()).strip("_")
    if not name:
        return "my_suite"
    if name in shipped_names():
        return f"my_{name}"
    return name if name[0].isalpha() else f"suite_{name}"


def _renamed(text: str, name: str) -> str:
    """The TOML with another name; everything else, comments included, as it was."""
    renamed, count = re.subn(r'(?m)^name = "[^"\n]*"$', f'name = "{name}"', text)
    if count != 1:
        raise ValueError(f"a shipped suite must have one name line, not {count}")
    return renamed
