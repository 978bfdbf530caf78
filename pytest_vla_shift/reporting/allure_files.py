"""What allure-pytest writes of every node, written faster and without what says nothing.

allure-pytest writes a file for every fixture of every node, through a generic copy of the whole
result and an encoder in Python. At 10,000 nodes that is most of what a report costs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import allure_commons
from allure_commons.logger import AllureFileLogger
from allure_commons.model2 import Status, TestResultContainer

from pytest_vla_shift.rollouts.storage import replace_whole

if TYPE_CHECKING:
    from allure_commons.model2 import ExecutableItem, Globals, TestResult

    Item = TestResult | TestResultContainer | Globals

OURS = frozenset({"cell", "pair", "condition"})
"""Fixtures whose set-up is told only where it took time or went wrong."""

TELLING_MS = 100


def write_faster() -> None:
    """Let allure-pytest's loggers of this process write as this module does.

    Those of another kind, or of a version that writes in another way, are left alone.
    """
    for plugin in allure_commons.plugin_manager.get_plugins():
        if type(plugin) is AllureFileLogger and hasattr(plugin, "_report_item"):
            directory: Path = plugin._report_dir
            vars(plugin)["_report_item"] = partial(_report, directory, plugin._report_item)


def _report(directory: Path, written: Callable[[Item], None], item: Item) -> None:
    if os.environ.get("ALLURE_INDENT_OUTPUT"):
        written(item)
    elif not (isinstance(item, TestResultContainer) and says_nothing(item)):
        write_item(directory, item)


def says_nothing(container: TestResultContainer) -> bool:
    """Whether a fixture's container is of this plugin's own, and its set-up took no time."""
    steps: Iterable[ExecutableItem] = [*container.befores, *container.afters]
    return all(
        step.name.partition("::")[0] in OURS
        and step.status in (Status.PASSED, None)  # None: this finalizer is just running
        and not (step.steps or step.attachments or step.statusDetails or step.description)
        and (step.stop or step.start) - step.start < TELLING_MS
        for step in steps
    )


def write_item(directory: Path, item: Item) -> None:
    """Write a result as allure-commons does: whole, under a name of its own, in UTF-8.

    Raises:
        OSError: it cannot be written.
    """
    replace_whole(
        directory / item.file_pattern.format(prefix=uuid4()),
        json.dumps(plain(item), ensure_ascii=False).encode(),
    )


def plain(value: object) -> object:
    """An item as JSON, without what is empty: ``attr.asdict`` with allure-commons' filter."""
    if isinstance(value, str):
        return value
    names = _names(type(value))
    if names:
        found = ((name, getattr(value, name)) for name in names)
        return {name: plain(each) for name, each in found if each or each is False}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def _names(kind: type) -> tuple[str, ...]:
    """Names of the fields of an attrs class; none of any other."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(field.name for field in getattr(kind, "__attrs_attrs__", ()))
    return _FIELDS[kind]


_FIELDS: dict[type, tuple[str, ...]] = {}
