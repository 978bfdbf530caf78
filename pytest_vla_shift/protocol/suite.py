"""Suites: a frozen protocol as a TOML file, read strictly.

A misspelt key is an error, not an ignored wish: a protocol that silently runs with a default is
a wrong number that looks right.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.axes import read_axes
from pytest_vla_shift.protocol.conditions import (
    CLEAN,
    NOMINAL,
    NULL,
    SIMULTANEOUS,
    Axis,
    Condition,
    compounds,
    single,
)
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.screening import Screening, as_data, read_screening
from pytest_vla_shift.protocol.tables import Table

SCHEMA = 1

SEED_LIMIT = 2**32 - 1
"""The largest seed that numpy's global generator takes."""

EPISODE_LIMIT = 999_999
"""The largest episode number: a slip of the keyboard must not fill the memory."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A frozen protocol.

    Attributes:
        name: in keys and reports.
        title: one line for people.
        source: where it was read from, for messages only.
        text: the TOML that it was read from, so that a run can keep its protocol.
        simulator: entry-point name or ``module:attr``.
        env_seed: the simulator's seed, given before every reset.
        policy_seed: base of the pairs' policy seeds.
        draw_seed: base of the episodes' draws on every axis.
        settle_steps: no-op steps after the shift and before the policy looks.
        settle_speed: fastest that an object may still move after settling, m/s.
        cameras, height, width: the observation that the policy may be given.
        tasks: (task suite, task) in sorted order.
        episodes: initial-state numbers of each task, sorted.
        horizons: task suite -> control steps.
        axes: in sorted order of their names.
        null: whether the clean condition is run again as the flip floor.
        simultaneous: whether every axis is shifted at once as well, at every level.
        nominal: initial-state numbers of each task that ``--vla-nominal`` runs clean.
        screening: how its tasks are chosen for a policy, or None.
        protocol_digest: digest of everything above but ``title`` and ``source``.
    """

    name: str
    title: str
    source: str
    text: str
    simulator: str
    env_seed: int
    policy_seed: int
    draw_seed: int
    settle_steps: int
    settle_speed: float
    cameras: tuple[str, ...]
    height: int
    width: int
    tasks: tuple[tuple[str, str], ...]
    episodes: Mapping[tuple[str, str], tuple[int, ...]]
    horizons: Mapping[str, int]
    axes: tuple[Axis, ...]
    null: bool
    simultaneous: bool
    nominal: Mapping[tuple[str, str], tuple[int, ...]]
    protocol_digest: str
    screening: Screening | None = None

    def conditions(self) -> tuple[Condition, ...]:
        """Every condition that is compared with clean, in the order of the plan: null, then axes
        by level, then all axes at once."""
        shifted = tuple(single(axis, level) for axis in self.axes for level in axis.levels)
        return ((NULL,) if self.null else ()) + shifted + self._simultaneous()

    def _simultaneous(self) -> tuple[Condition, ...]:
        return compounds(self.axes, self.axis_names) if self.simultaneous else ()

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names of the axes, sorted."""
        return tuple(axis.name for axis in self.axes)

    def condition(self, name: str) -> Condition:
        """The condition of that name, clean and nominal included.

        Raises:
            KeyError: the suite has none of that name.
        """
        for condition in (CLEAN, NOMINAL, *self.conditions()):
            if condition.name == name:
                return condition
        raise KeyError(name)

    def configuration(self, episode: Episode) -> int | None:
        """j where ``episode`` is the j-th of its task's episodes, from 0: what presets go by.

        None for an initial state that is not among the task's episodes: it has no preset.
        """
        listed = self.episodes.get((episode.task_suite, episode.task), ())
        return listed.index(episode.index) if episode.index in listed else None

    def all_episodes(self) -> tuple[Episode, ...]:
        """Every episode in the order of the plan."""
        return tuple(
            Episode(task_suite, task, index)
            for task_suite, task in self.tasks
            for index in self.episodes[task_suite, task]
        )


def shipped() -> tuple[str, ...]:
    """Names of the suites that come with the package."""
    root = files("pytest_vla_shift.protocol") / "suites"
    return tuple(sorted(p.name[:-5] for p in root.iterdir() if p.name.endswith(".toml")))


def shipped_text(name: str) -> str:
    """The TOML of a shipped suite.

    Raises:
        UsageError: no suite of that name is shipped.
    """
    if name not in shipped():
        raise UsageError(f"unknown suite {name!r}; shipped suites: {', '.join(shipped())}")
    return (files("pytest_vla_shift.protocol") / "suites" / f"{name}.toml").read_text("utf-8")


def load_suite(reference: str | Path) -> Suite:
    """The suite of a shipped name, or of a path to a TOML file.

    Raises:
        UsageError: unknown name, unreadable file, malformed TOML, or a value out of range; the
            message names the file and the field.
    """
    if isinstance(reference, Path):
        try:
            text = reference.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read suite {reference}: {error}") from error
        return parse_suite(text, str(reference))
    return parse_suite(shipped_text(reference), f"suite {reference!r}")


def parse_suite(text: str, source: str) -> Suite:
    """A suite from its TOML text; ``source`` is what messages call it."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source}: malformed TOML: {error}") from error
    top = Table(raw, source)
    schema = top.integer("schema")
    if schema != SCHEMA:
        raise UsageError(f"{source}: schema {schema} is not supported; this version reads {SCHEMA}")
    name = top.text("name")
    if not re.fullmatch(r"[a-z0-9_]+", name):
        raise UsageError(f"{source}: name {name!r} must be lower-case letters, digits and _")
    observation = top.table("observation")
    simulator = top.text("simulator")
    tasks, nominal, horizons = _tasks(top, simulator)
    suite = {
        "name": name,
        "simulator": simulator,
        "env_seed": top.integer("env_seed", minimum=0, maximum=SEED_LIMIT),
        "policy_seed": top.integer("policy_seed", minimum=0),
        "draw_seed": top.integer("draw_seed", minimum=0),
        "settle_steps": top.integer("settle_steps", minimum=0),
        "settle_speed": top.number("settle_speed_m_s", minimum=0.0),
        "cameras": observation.texts("cameras"),
        "height": observation.integer("height", minimum=1),
        "width": observation.integer("width", minimum=1),
        "null": top.boolean("null"),
        "simultaneous": top.boolean("simultaneous", default=False),
    }
    title = top.text("title")
    axes = read_axes(top.table("axes", optional=True))
    _check_compound(top, axes, simultaneous=bool(suite["simultaneous"]))
    _check_presets(top, axes, tasks)
    screening = read_screening(top.table("screening", optional=True), horizons)
    observation.finish()
    top.finish()
    frozen = {
        **suite,
        "tasks": [[*task, list(episodes)] for task, episodes in sorted(tasks.items())],
        "horizons": horizons,
        "nominal": [[*task, list(episodes)] for task, episodes in sorted(nominal.items())],
        "axes": [
            [
                axis.name,
                axis.shift,
                [[lv.name, dict(lv.parameters)] for lv in axis.levels],
                [dict(preset) for preset in axis.presets],
            ]
            for axis in axes
        ],
        **({} if screening is None else {"screening": as_data(screening)}),
    }
    return Suite(
        title=title,
        source=source,
        text=text,
        tasks=tuple(sorted(tasks)),
        episodes=tasks,
        nominal=nominal,
        horizons=horizons,
        axes=axes,
        protocol_digest=digest(frozen),
        screening=screening,
        **suite,  # type: ignore[arg-type]  # each value was checked by its own reader above
    )


def _check_compound(top: Table, axes: tuple[Axis, ...], *, simultaneous: bool) -> None:
    """Several axes at once need several axes, and a level that they share."""
    if not simultaneous:
        return
    if len(axes) < 2:
        raise UsageError(f"{top.where}: 'simultaneous' needs at least two axes")
    if not compounds(axes, (axis.name for axis in axes)):
        raise UsageError(f"{top.where}: {SIMULTANEOUS!r}: the axes share no level")


def _check_presets(
    top: Table, axes: tuple[Axis, ...], tasks: Mapping[tuple[str, str], tuple[int, ...]]
) -> None:
    """Every configuration must have its preset: none is used twice, none is made up."""
    most = max(len(episodes) for episodes in tasks.values())
    for axis in axes:
        if axis.presets and len(axis.presets) < most:
            raise UsageError(
                f"{top.where}: axis {axis.name!r} has {len(axis.presets)} presets, but a task has"
                f" {most} episodes; preset j belongs to a task's j-th episode"
            )


Numbers = dict[tuple[str, str], tuple[int, ...]]


def _tasks(top: Table, simulator: str) -> tuple[Numbers, Numbers, dict[str, int]]:
    """``[[tasks]]`` blocks: a task suite, task names or ``"all"``, and episodes.

    Returns:
        Task -> its episodes; task -> the initial states of its nominal pass; horizons.
    """
    tasks: Numbers = {}
    nominal: Numbers = {}
    horizons: dict[str, int] = {}
    ids: dict[str, tuple[str, str]] = {}
    blocks = top.tables("tasks")
    if not blocks:
        raise UsageError(f"{top.where}: no [[tasks]] block: a suite needs at least one task")
    for block in blocks:
        task_suite = block.text("suite")
        listed = block.texts_or_text("tasks")
        episodes = parse_episodes(block.raw("episodes"), f"{block.where}: episodes")
        every = block.raw("nominal") if "nominal" in block.names() else None
        known = catalog.find(task_suite)
        # A simulator of ``module:attr`` may run anybody's tasks; a name is what it says.
        if known is not None and known.simulator != simulator and ":" not in simulator:
            raise UsageError(
                f"{block.where}: task suite {task_suite!r} belongs to simulator"
                f" {known.simulator!r}, but the suite's simulator is {simulator!r}"
            )
        if known is not None:
            names = known.tasks if listed == "all" else tuple(listed)
            unknown = sorted(set(names) - set(known.tasks))
            if unknown:
                raise UsageError(
                    f"{block.where}: {task_suite} has no task {unknown[0]!r}."
                    f" Its tasks: {', '.join(known.tasks)}"
                )
            every = f"0:{known.initial_states}" if every is None else every
            horizon = block.integer("horizon", minimum=1, default=known.horizon)
        elif listed == "all":
            raise UsageError(
                f"{block.where}: {task_suite!r} is in no catalogue, so its tasks must be listed."
                f" Catalogued: {', '.join(catalog.task_suites())}"
            )
        else:
            names = tuple(listed)
            horizon = block.integer("horizon", minimum=1)
        if horizons.setdefault(task_suite, horizon) != horizon:
            raise UsageError(f"{block.where}: a second horizon for {task_suite}")
        clean = episodes if every is None else parse_episodes(every, f"{block.where}: nominal")
        for number in (episodes[-1], clean[-1]):
            if known is not None and number >= known.initial_states:
                raise UsageError(
                    f"{block.where}: episode {number} is out of range: {task_suite} has"
                    f" initial states 0 to {known.initial_states - 1}"
                )
        for task in names:
            if (task_suite, task) in tasks:
                raise UsageError(f"{block.where}: task {task!r} is listed twice")
            _check_id(task_suite, task, ids, block.where)
            tasks[task_suite, task] = episodes
            nominal[task_suite, task] = clean
        block.finish()
    return tasks, nominal, horizons


def _check_id(task_suite: str, task: str, ids: dict[str, tuple[str, str]], where: str) -> None:
    """A task's part of a node's id must be readable in a shell, and no other task's."""
    for name in (task_suite, task):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", name):
            raise UsageError(
                f"{where}: {name!r} cannot be part of a node's id: use letters, digits and _ . + -"
            )
    known = ids.setdefault(f"{task_suite}-{task}", (task_suite, task))
    if known != (task_suite, task):
        raise UsageError(
            f"{where}: {task_suite!r} with {task!r} and {known[0]!r} with {known[1]!r} would give"
            " their nodes the same ids"
        )


def parse_episodes(value: object, where: str) -> tuple[int, ...]:
    """``"0:10"``, ``"3"``, ``"0,4,7:9"`` or a list of integers, as sorted numbers.

    Raises:
        UsageError: anything else, a negative number, or no number at all.
    """
    numbers: set[int] = set()
    if isinstance(value, str):
        for part in value.split(","):
            match = re.fullmatch(r"\s*(\d+)\s*(?::\s*(\d+)\s*)?", part)
            if match is None:
                raise UsageError(f"{where}: {value!r} is not like '0:10', '3' or '0,4,7:9'")
            first = int(match[1])
            stop = int(match[2]) if match[2] else first + 1
            if max(first, stop - 1) > EPISODE_LIMIT:
                raise UsageError(f"{where}: {value!r} goes beyond episode {EPISODE_LIMIT}")
            numbers.update(range(first, stop))
    elif isinstance(value, list) and all(type(v) is int and v >= 0 for v in value):
        numbers.update(value)
    else:
        raise UsageError(f"{where}: {value!r} is neither a range like '0:10' nor a list of numbers")
    if not numbers:
        raise UsageError(f"{where}: {value!r} names no episode")
    return tuple(sorted(numbers))
