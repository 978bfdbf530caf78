"""What allure-pytest writes of every node, written faster and without what says nothing.

allure-pytest writes a file for every fixture of every node, through a generic copy of the whole
result and an encoder in Python. At 10,000 nodes that is most of what a report costs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import allure_commons
from allure_commons.logger import AllureFileLogger
from allure_commons.model2 import Status, TestResultContainer

from pytest_vla_shift.rollouts.storage import replace_whole, write_new

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
    manager = allure_commons.plugin_manager
    for plugin in list(manager.get_plugins()):
        if type(plugin) is AllureFileLogger and hasattr(plugin, "_report_item"):
            # The same object, which allure-pytest unregisters at the end; registered again since
            # the methods that are called are looked up then.
            name = manager.get_name(plugin)
            manager.unregister(plugin)
            plugin.__class__ = FasterLogger
            manager.register(plugin, name)


class FasterLogger(AllureFileLogger):
    """allure-commons' own logger, but for how files are written."""

    _report_dir: Path

    def _report_item(self, item: Item) -> None:
        if os.environ.get("ALLURE_INDENT_OUTPUT"):
            super()._report_item(item)  # type: ignore[no-untyped-call]
        elif not (isinstance(item, TestResultContainer) and says_nothing(item)):
            write_item(self._report_dir, item)

    @allure_commons.hookimpl
    def report_attached_data(self, body: str | bytes, file_name: str) -> None:
        """A picture or a text; the result that names it is written later."""
        data = body.encode() if isinstance(body, str) else body
        write_new(self._report_dir / file_name, data)


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
        directory / item.file_pattern.format(prefix=uuid4()), _ENCODER.encode(plain(item)).encode()
    )


# Made once: json.dumps with options makes a new encoder for every call.
_ENCODER = json.JSONEncoder(ensure_ascii=False)


class Members(list[str]):
    """A list that is quick to say whether something is in it."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        super().__init__(values)
        self._set = set(self)

    def __contains__(self, value: object) -> bool:
        return value in self._set

    def append(self, value: str) -> None:
        super().append(value)
        self._set.add(value)


def quicken(items: Iterable[object]) -> None:
    """Let containers that are open say quickly which nodes are theirs.

    allure-pytest asks at every node, of every fixture that it could have. One that is never set up,
    as ``cell``, whose value is a parameter, is never closed: its nodes become ever more.
    """
    for item in items:
        if type(item) is TestResultContainer and type(item.children) is list:
            item.children = Members(item.children)


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
