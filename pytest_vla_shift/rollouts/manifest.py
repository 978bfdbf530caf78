"""The plan of one session on disk, and ``run.json``, the manifest that people and tools read.

Under pytest-xdist the controller does not collect: the first worker that has, writes the plan, and
the controller reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts.record import JSON
from pytest_vla_shift.rollouts.storage import replace_whole

SCHEMA = 2


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """One node of the plan and the keys that answer it.

    Attributes:
        node: pytest's node id.
        suite, cell: the cell, by id.
        task_suite, task, episode, condition, axis, level, replicate: the cell, by parts.
        axes: what is shifted, sorted; several in a compound.
        clean_key, shifted_key: keys of its rollouts.
    """

    node: str
    suite: str
    cell: str
    task_suite: str
    task: str
    episode: int
    condition: str
    axis: str | None
    level: str | None
    replicate: int
    axes: tuple[str, ...]
    clean_key: str
    shifted_key: str


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """What one session is going to do.

    Attributes:
        policy: the policy's spec and arguments.
        versions: distribution name -> version of all simulators of the plan.
        renderers: simulator -> GL platform.
        protocols: suite -> protocol digest.
        grid: suite -> cells of its protocol, of which the plan may be a selection.
        suites: suite -> the TOML of its protocol.
        nodes: in the order in which they run; of a shard, its own.
        shard: ``(i, n)`` of ``--vla-shard``; None for a run of everything that was selected.
        others: the nodes of the other shards, each with its place in the whole selection, so that
            merging can tell what no shard has run.
    """

    policy: Mapping[str, JSON]
    versions: Mapping[str, str]
    renderers: Mapping[str, str]
    protocols: Mapping[str, str]
    grid: Mapping[str, int]
    suites: Mapping[str, str]
    nodes: tuple[PlannedNode, ...]
    shard: tuple[int, int] | None = None
    others: tuple[tuple[int, PlannedNode], ...] = ()

    @property
    def selection(self) -> tuple[PlannedNode, ...]:
        """The nodes of all shards, in the order in which they were collected.

        Raises:
            ValueError: the places of ``others`` are not those of one selection.
        """
        elsewhere = dict(self.others)
        total = len(self.nodes) + len(self.others)
        if len(elsewhere) != len(self.others) or not all(0 <= at < total for at in elsewhere):
            raise ValueError("two nodes have one place in the selection, or one has none")
        own = iter(self.nodes)
        return tuple(elsewhere[n] if n in elsewhere else next(own) for n in range(total))


def kept_plan_path(directory: Path) -> Path:
    """Where a run keeps the plan of its latest session, for whoever reads the records later."""
    return directory / "plan.json"


def plan_path(directory: Path, session: str) -> Path:
    """Where a session's plan is between collection and the end."""
    return directory / "rollouts" / f"plan-{session}.json"


def discard_plans(directory: Path) -> None:
    """Remove what killed sessions left. Only while no other session is open on the run."""
    for path in (directory / "rollouts").glob("plan-*.json"):
        path.unlink(missing_ok=True)


def write_plan(path: Path, plan: SessionPlan) -> None:
    """Write the plan whole; workers that collected the same plan may write it again.

    Raises:
        StorageError: it cannot be written.
    """
    _replace(path, plan_json(plan))


def plan_json(plan: SessionPlan) -> dict[str, JSON]:
    """The plan as it is written."""
    return {
        "policy": dict(plan.policy),
        "versions": dict(plan.versions),
        "renderers": dict(plan.renderers),
        "protocols": dict(plan.protocols),
        "grid": dict(plan.grid),
        "suites": dict(plan.suites),
        "nodes": [_parts(node) for node in plan.nodes],
        "shard": None if plan.shard is None else list(plan.shard),
        "others": [[place, *_parts(node)] for place, node in plan.others],
    }


def _parts(n: PlannedNode) -> list[JSON]:
    return [
        n.node,
        n.suite,
        n.cell,
        n.task_suite,
        n.task,
        n.episode,
        n.condition,
        n.axis,
        n.level,
        n.replicate,
        list(n.axes),
        n.clean_key,
        n.shifted_key,
    ]


def read_plan(path: Path) -> SessionPlan | None:
    """The plan of this session, or None if no process has collected yet.

    Raises:
        UsageError: the file is damaged, or cannot be read.
    """
    try:
        return plan_from_json(json.loads(path.read_bytes().decode()))
    except FileNotFoundError:
        return None
    except (OSError, *NO_PLAN) as error:
        raise UsageError(
            f"{path} is no plan of a run ({type(error).__name__}: {str(error)[:200]}). Run the"
            " run's command again: what is recorded is found, and the plan is written anew"
        ) from error


NO_PLAN = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""What reading JSON that is no plan raises."""


def plan_from_json(raw: dict[str, Any]) -> SessionPlan:
    """The plan of what :func:`plan_json` gave.

    Raises:
        NO_PLAN: it is something else.
    """
    # A plan without shards is older than they are: it was all that was selected.
    shard = raw.get("shard")
    return SessionPlan(
        raw["policy"],
        raw["versions"],
        raw["renderers"],
        raw["protocols"],
        raw["grid"],
        raw["suites"],
        tuple(_node(node) for node in raw["nodes"]),
        None if shard is None else (shard[0], shard[1]),
        tuple((place, _node(parts)) for place, *parts in raw.get("others", ())),
    )


def _node(parts: list[Any]) -> PlannedNode:
    """A node as it was written; JSON knows no tuples."""
    fields: list[Any] = [tuple(part) if isinstance(part, list) else part for part in parts]
    node = PlannedNode(*fields)
    texts = [node.node, node.suite, node.cell, node.task_suite, node.task, node.condition]
    texts += [node.axis or "", node.level or "", node.clean_key, node.shifted_key, *node.axes]
    numbers = [node.episode, node.replicate]
    if (
        not isinstance(node.axes, tuple)
        or not all(isinstance(text, str) for text in texts)
        or not all(type(number) is int for number in numbers)
    ):
        raise ValueError(f"a node of {fields!r}")
    return node


def check_manifest(directory: Path) -> None:
    """Refuse a run directory whose manifest is of another schema.

    A manifest that cannot be read says nothing about the rows, which carry their own schema; it is
    written anew.

    Raises:
        UsageError: it was written by another version of this package, or cannot be opened.
    """
    try:
        raw = json.loads((directory / "run.json").read_text("utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return
    except OSError as error:
        raise UsageError(f"{directory} is no run's directory: {error}") from error
    found = raw.get("schema") if isinstance(raw, dict) else None
    if found is not None and found != SCHEMA:
        raise UsageError(
            f"{directory / 'run.json'} has schema {found}, this version reads and writes {SCHEMA};"
            " choose another run (--vla-run=NAME), or set its records aside (--vla-fresh)"
        )


def write_manifest(
    directory: Path, session: str, package: str, options: Mapping[str, JSON], plan: SessionPlan
) -> None:
    """Write ``run.json``.

    Raises:
        StorageError: it cannot be written.
    """
    cells: list[JSON] = [n.node for n in plan.nodes]
    _replace(
        directory / "run.json",
        {
            "kind": "run",
            "schema": SCHEMA,
            "session": session,
            "pytest_vla_shift": package,
            "options": dict(options),
            "policy": dict(plan.policy),
            "versions": dict(plan.versions),
            "renderers": dict(plan.renderers),
            "protocols": dict(plan.protocols),
            "grid": dict(plan.grid),
            "planned": len(plan.nodes),
            "shard": None if plan.shard is None else list(plan.shard),
            "in_other_shards": len(plan.others),
            "nodes": cells,
        },
        indent=1,
    )


def _replace(path: Path, value: Mapping[str, JSON], indent: int | None = None) -> None:
    replace_whole(path, json.dumps(value, indent=indent, allow_nan=False).encode() + b"\n")
