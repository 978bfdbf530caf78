"""A suite as the text of a TOML file: the same protocol for other tasks, under its own name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.suite import SCHEMA, Suite, parse_suite


def with_tasks(
    suite: Suite,
    name: str,
    title: str,
    tasks: Sequence[tuple[str, str]],
    horizons: Mapping[str, int],
    *,
    comment: Sequence[str] = (),
) -> str:
    """``suite``'s protocol for ``tasks``, each with the episodes that all of its own tasks have.

    Args:
        suite: whose seeds, observation, axes, levels and presets are kept; levels are written out,
            so that the file depends on no shipped table.
        name, title: of the new suite.
        tasks: (task suite, task).
        horizons: task suite -> control steps.
        comment: lines for people, at the top.

    Raises:
        UsageError: there are no tasks, the suite's tasks have different episodes, or ``name`` is no
            suite's name.
    """
    episodes = set(suite.episodes.values())
    if len(episodes) != 1:
        raise UsageError(f"{suite.source}: its tasks have different episodes, which are to be kept")
    (numbers,) = episodes
    lines = [f"# {line}".rstrip() for line in comment]
    lines += [
        f"schema = {SCHEMA}",
        f"name = {_text(name)}",
        f"title = {_text(title)}",
        f"simulator = {_text(suite.simulator)}",
        f"env_seed = {suite.env_seed}",
        f"policy_seed = {suite.policy_seed}",
        f"draw_seed = {suite.draw_seed}",
        f"settle_steps = {suite.settle_steps}",
        f"settle_speed_m_s = {suite.settle_speed!r}",
        f"null = {_truth(suite.null)}",
        f"simultaneous = {_truth(suite.simultaneous)}",
        "",
        "[observation]",
        f"cameras = {_list(suite.cameras)}",
        f"height = {suite.height}",
        f"width = {suite.width}",
    ]
    for task_suite in dict.fromkeys(task_suite for task_suite, _ in tasks):
        lines += [
            "",
            "[[tasks]]",
            f"suite = {_text(task_suite)}",
            f"tasks = {_list(task for owner, task in tasks if owner == task_suite)}",
            f"episodes = {list(numbers)}",
            f"horizon = {horizons[task_suite]}",
        ]
    for axis in suite.axes:
        lines += ["", f"[axes.{axis.name}]", f"shift = {_text(axis.shift)}"]
        lines += [f"{level.name} = {_inline(level.parameters)}" for level in axis.levels]
        for preset in axis.presets:
            lines += [f"[[axes.{axis.name}.presets]]", *_pairs(preset)]
    text = "\n".join(lines) + "\n"
    written = parse_suite(text, f"suite {name!r}")  # what we write must be readable
    if (written.axes, written.cameras) != (suite.axes, suite.cameras):
        raise ValueError("the written suite is not the same protocol")
    return text


def _text(value: str) -> str:
    # JSON's escapes are all TOML's, but for what Python leaves as surrogates, which no name has.
    return json.dumps(value, ensure_ascii=False)


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _list(values: Iterable[str]) -> str:
    return "[" + ", ".join(_text(value) for value in values) + "]"


def _pairs(values: Mapping[str, float]) -> list[str]:
    return [f"{name} = {value!r}" for name, value in sorted(values.items())]


def _inline(values: Mapping[str, float]) -> str:
    return "{ " + ", ".join(_pairs(values)) + " }"
