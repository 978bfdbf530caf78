"""Commands as a table of names: each is a module, loaded when it is needed.

Such a module has ``DESCRIPTION``, ``add_arguments(parser)`` and ``run(given, out) -> int``, and
imports nothing heavy until it runs.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping
from typing import TextIO


def add_commands(
    parser: argparse.ArgumentParser, dest: str, package: str, table: Mapping[str, str]
) -> None:
    """One sub-command of ``parser`` for each name of ``table``.

    Args:
        parser: of the command that they belong to.
        dest: the attribute of the parsed arguments that holds the chosen name.
        package: whose modules they are, for example ``commands.audits``.
        table: name -> its line of help.
    """
    commands = parser.add_subparsers(dest=dest, required=True, metavar=dest.upper())
    for name, text in table.items():
        module = _module(package, name)
        command = commands.add_parser(name, help=text, description=module.DESCRIPTION)
        module.add_arguments(command)


def run_command(package: str, name: str, given: argparse.Namespace, out: TextIO) -> int:
    """Run the chosen one; its exit code."""
    code: int = _module(package, name).run(given, out)
    return code


def _module(package: str, name: str):  # type: ignore[no-untyped-def]  # a module is no type
    return importlib.import_module(f"pytest_vla_shift.{package}.{name.replace('-', '_')}")
