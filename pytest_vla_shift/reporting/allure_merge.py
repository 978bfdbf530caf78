"""Allure results of several runs in one folder: a result a node, with its attachments and fixtures.

Aggregates, and broken results of nodes that nobody reported, are a run's own and are not taken:
the merged run writes them anew.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_vla_shift.reporting.allure_writer import AGGREGATES, NOT_REPORTED
from pytest_vla_shift.rollouts.record import JSON

FOLDER = "allure-results"
"""In a run's directory."""


@dataclass(frozen=True, slots=True)
class _Result:
    """One result as it stands in a folder."""

    file: Path
    raw: Mapping[str, JSON]
    rank: tuple[bool, int]

    @property
    def history(self) -> str:
        return str(self.raw.get("historyId", self.file.name))


def merge_allure(directories: Sequence[Path], target: Path) -> set[str]:
    """Copy every node's result from the run that has the best one.

    Of two runs that both reported a node, as of pieces of one run, the one counts that did not
    break on it, and then the later one. All results that this run has of the node are copied: a
    node that was tried again has several.

    Args:
        directories: of the runs; those without a folder of results have none to give.
        target: the merged folder; made if there is anything to copy.

    Returns:
        Ids of the histories that the results belong to.

    Raises:
        OSError: something cannot be written.
    """
    best: dict[str, tuple[tuple[bool, int], list[_Result]]] = {}
    for directory in directories:
        found: dict[str, list[_Result]] = {}
        for result in _results(directory / FOLDER):
            found.setdefault(result.history, []).append(result)
        for history, results in found.items():
            rank = max(result.rank for result in results)
            if history not in best or rank > best[history][0]:
                best[history] = rank, results
    chosen = [result for _, results in best.values() for result in results]
    uuids = {str(result.raw.get("uuid")) for result in chosen}
    for result in chosen:
        _copy(result.file, result.raw, target)
    for directory in directories:
        for file, container in _read(directory / FOLDER, "*-container.json"):
            children = container.get("children")
            if isinstance(children, list) and uuids.intersection(map(str, children)):
                _copy(file, container, target)
    return set(best)


def _results(folder: Path) -> Iterator[_Result]:
    for file, raw in _read(folder, "*-result.json"):
        details = raw.get("statusDetails")
        message = str(details.get("message", "")) if isinstance(details, dict) else ""
        own = str(raw.get("fullName", "")).startswith(f"{AGGREGATES}.")
        if not own and not message.startswith(NOT_REPORTED):
            stop = raw.get("stop")
            answered = raw.get("status") not in ("broken", "unknown", None)
            yield _Result(file, raw, (answered, stop if isinstance(stop, int) else 0))


def _read(folder: Path, pattern: str) -> Iterator[tuple[Path, dict[str, JSON]]]:
    """Every file that is whole; one that a killed process left half is of no use to Allure."""
    for file in sorted(folder.glob(pattern)):
        try:
            raw = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(raw, dict):
            yield file, raw


def _copy(file: Path, raw: Mapping[str, JSON], target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in (file.name, *_attachments(dict(raw))):
        path = file.parent / name
        # A name leads nowhere but into the folder itself.
        if Path(name).name == name and path.is_file():
            shutil.copyfile(path, target / name)


def _attachments(raw: JSON) -> Iterator[str]:
    """Names of all attached files: of a result, of its steps and of their steps."""
    if isinstance(raw, dict):
        attached = raw.get("attachments")
        for item in attached if isinstance(attached, list) else ():
            if isinstance(item, dict) and isinstance(item.get("source"), str):
                yield str(item["source"])
        for part in ("steps", "befores", "afters"):
            yield from _attachments(raw.get(part))
    elif isinstance(raw, list):
        for item in raw:
            yield from _attachments(item)
