"""The command line and the ini file, read once into a frozen RunConfig.

The options themselves are in :mod:`pytest_vla_shift.option_list`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    import pytest

    from pytest_vla_shift.protocol.plan import Cut, Extras

VIDEO = ("on", "off", "degraded")
EXECUTORS = ("local", "ray")

MAX_ERRORS = 20
MOST = 1e6
"""Of seconds, eleven days, and of GiB: what clocks and counters of a system take beyond doubt."""

MOST_SHARDS = 100_000
MOST_ENVS = 256
"""Rollouts at once of one pytest process; each has a simulator process of its own."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What this run was asked to do.

    Attributes:
        policy: ``--vla-policy``; None only with ``--vla-list``.
        policy_args: ``--vla-policy-arg``, name to text.
        checkpoint: ``--vla-checkpoint``, as it was typed; None if nothing was said.
        replan: ``--vla-replan``; None for what the policy says.
        policy_token: ``--vla-policy-token``, the name of an environment variable.
        cut: how the grid is narrowed.
        extras: what is run on top of the suites' own conditions.
        list_only: print the plan and run nothing.
        policy_url: ``--vla-policy-url``, where the policy's server listens; not part of any key.
        policy_command: ``--vla-policy-command``, the server that the run starts itself.
        policy_start_s: how long that server may take to listen.
        policy_timeout_s: after this a call of the policy counts as hung; the first one of a process
            has ten times as long, for compilers and loading.
        executor: ``local``, or ``ray`` for actors of a cluster.
        envs: 0 runs simulators in the pytest process, N gives each of N rollouts at once a
            simulator in a process of its own.
        rollout_timeout_s: after this a simulator worker counts as hung.
        recycle_rollouts: a simulator worker is replaced after so many rollouts; None for never.
        recycle_bytes: a simulator worker is replaced when its resident memory exceeds this.
        max_errors: a run stops after so many errors in a row in one process; None for never.
        gpus: ``--vla-gpus``, the devices of the run; None for those that are visible.
        render_gpus: ``--vla-render-gpus``, the devices that draw; None for those of the policy.
        shard: which part of the plan this run is, ``(i, n)`` with 1 <= i <= n; None for all.
        reports: the folder that holds runs.
        run: the run's name, a folder within ``reports``.
        fresh: set the run's records aside and start over.
        video: ``on``, ``off`` or ``degraded``.
        video_asked: whether ``video`` was given, so that a missing encoder is an error.
    """

    policy: str | None
    policy_args: Mapping[str, str]
    checkpoint: str | None
    replan: int | None
    policy_token: str | None
    cut: Cut
    extras: Extras
    list_only: bool
    policy_url: str | None
    policy_command: str | None
    policy_start_s: float
    policy_timeout_s: float
    executor: str
    envs: int
    rollout_timeout_s: float
    recycle_rollouts: int | None
    recycle_bytes: int
    max_errors: int | None
    gpus: tuple[str, ...] | None
    render_gpus: tuple[str, ...] | None
    shard: tuple[int, int] | None
    reports: Path
    run: str
    fresh: bool
    video: str
    video_asked: bool

    @property
    def directory(self) -> Path:
        """Where this run records and reports."""
        return self.reports / self.run


def asks_for_rollouts(config: pytest.Config) -> bool:
    """Whether this pytest run evaluates a policy, or lists what that would take."""
    return bool(config.getoption("--vla-list")) or _value(config, "policy") is not None


def read_options(config: pytest.Config) -> RunConfig:
    """The RunConfig of a run that :func:`asks_for_rollouts`.

    Raises:
        UsageError: a value is malformed.
    """
    policy = _value(config, "policy")
    shard = _shard(config.getoption("--vla-shard"))
    run = _value(config, "run") or _default_run(config, policy)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", run):
        raise UsageError(f"--vla-run: {run!r} must be a plain folder name")
    return RunConfig(
        policy=policy,
        policy_args=_policy_args(config),
        checkpoint=_value(config, "checkpoint"),
        replan=_count_from_one(config, "replan"),
        policy_token=_value(config, "policy-token"),
        cut=_cut(config),
        extras=_extras(config),
        list_only=bool(config.getoption("--vla-list")),
        policy_url=_value(config, "policy-url"),
        policy_command=_value(config, "policy-command"),
        policy_start_s=_positive(config, "policy-start-timeout", 600.0, "number of seconds"),
        policy_timeout_s=_positive(config, "policy-timeout", 120.0, "number of seconds"),
        executor=_choice(config, "executor", EXECUTORS, default="local"),
        envs=_envs(_value(config, "envs")),
        rollout_timeout_s=_positive(config, "rollout-timeout", 600.0, "number of seconds"),
        recycle_rollouts=_count_from_one(config, "recycle-rollouts"),
        recycle_bytes=int(_positive(config, "recycle-memory", 8.0, "number of GiB") * 2**30),
        max_errors=_max_errors(_value(config, "max-errors")),
        gpus=_words(config, "gpus") or None,
        render_gpus=_words(config, "render-gpus") or None,
        shard=shard,
        reports=_reports(config),
        # Shards never share a folder: each may be on a host of its own.
        run=run if shard is None else f"{run}-shard{shard[0]}of{shard[1]}",
        fresh=bool(config.getoption("--vla-fresh")),
        video=_choice(config, "video", VIDEO, default="degraded"),
        video_asked=_value(config, "video") is not None,
    )


def _value(config: pytest.Config, name: str) -> str | None:
    given = config.getoption(f"--vla-{name}")
    if given is None and name != "run":
        given = config.getini(f"vla_{name.replace('-', '_')}")
    return None if given is None or given == "" else str(given)


def _reports(config: pytest.Config) -> Path:
    """A path of the command line is relative to where it was typed, one of the ini to its file."""
    value = _value(config, "reports")
    if value is None:
        return config.rootpath / "reports"
    if config.getoption("--vla-reports") is not None:
        return config.invocation_params.dir / value
    return (config.rootpath if config.inipath is None else config.inipath.parent) / value


def _words(config: pytest.Config, name: str) -> tuple[str, ...]:
    value = _value(config, name)
    if value is None:
        return ()
    words = tuple(word.strip() for word in value.split(","))
    if not all(words):
        raise UsageError(f"--vla-{name}: {value!r} has an empty word")
    return words


def _cut(config: pytest.Config) -> Cut:
    from pytest_vla_shift.protocol.plan import Cut
    from pytest_vla_shift.protocol.suite import parse_episodes

    episodes = _value(config, "episodes")
    places = _value(config, "configuration")
    levels = []
    for word in _words(config, "level"):
        name = f"L{word}" if word.isdigit() else word
        if not re.fullmatch(r"L[1-9]", name):
            raise UsageError(f"--vla-level: {word!r} is not a level; use L1 or 1")
        levels.append(name)
    return Cut(
        tasks=_words(config, "task"),
        episodes=() if episodes is None else parse_episodes(episodes, "--vla-episodes"),
        configurations=() if places is None else parse_episodes(places, "--vla-configuration"),
        axes=_words(config, "axis"),
        levels=tuple(levels),
    )


def _extras(config: pytest.Config) -> Extras:
    from pytest_vla_shift.protocol.conditions import SIMULTANEOUS
    from pytest_vla_shift.protocol.plan import Extras

    compounds = []
    for word in _words(config, "compound"):
        names = tuple(sorted({name.strip() for name in word.split("+")}))
        if not all(names):
            raise UsageError(f"--vla-compound: {word!r} is not like camera+lighting")
        compounds.append((SIMULTANEOUS,) if word == "all" else names)
    return Extras(
        compounds=tuple(compounds),
        nominal=bool(config.getoption("--vla-nominal")),
        replicate=bool(config.getoption("--vla-replicate")),
    )


def _policy_args(config: pytest.Config) -> dict[str, str]:
    """Those of the ini file, and over them those of the command line."""
    args = parse_policy_args(list(config.getini("vla_policy_arg")), "vla_policy_arg")
    typed = config.getoption("--vla-policy-arg") or []
    return args | parse_policy_args(typed, "--vla-policy-arg")


def parse_policy_args(pairs: list[str], option: str) -> dict[str, str]:
    """``name=value`` texts as a table.

    Raises:
        UsageError: one is malformed, or given twice; ``option`` is what the message calls it.
    """
    args: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.isidentifier():
            raise UsageError(f"{option}: {pair!r} is not like name=value")
        if name in args:
            raise UsageError(f"{option}: {name!r} is given twice")
        args[name] = value
    return args


def _choice(config: pytest.Config, name: str, choices: tuple[str, ...], *, default: str) -> str:
    value = _value(config, name)
    if value is not None and value not in choices:
        raise UsageError(f"--vla-{name}: {value!r} is none of {', '.join(choices)}")
    return value or default


def _envs(value: str | None) -> int:
    if value is None:
        return 1
    if not (value.isascii() and value.isdecimal()) or int(value) > MOST_ENVS:
        raise UsageError(
            f"--vla-envs: {value!r} is neither 0 (simulator in the pytest process) nor a number of"
            f" rollouts at once, 1 to {MOST_ENVS}"
        )
    return int(value)


def _count_from_one(config: pytest.Config, name: str) -> int | None:
    value = _value(config, name)
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal()) or len(value) > 9 or int(value) < 1:
        raise UsageError(f"--vla-{name}: {value!r} is not a whole number from 1")
    return int(value)


def _max_errors(value: str | None) -> int | None:
    if value is None:
        return MAX_ERRORS
    if not (value.isascii() and value.isdecimal()) or len(value) > 9:
        raise UsageError(f"--vla-max-errors: {value!r} is not a whole number from 0")
    return int(value) or None


def _shard(value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    # An empty one is a variable that was not set: running everything would be the worst answer.
    match = re.fullmatch(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,8})", value)
    if match is None or int(match[1]) > int(match[2]):
        raise UsageError(f"--vla-shard: {value!r} is not like 1/3, which is the first of three")
    if int(match[2]) > MOST_SHARDS:
        raise UsageError(f"--vla-shard: {value!r}: there can be at most {MOST_SHARDS} shards")
    return int(match[1]), int(match[2])


def _positive(config: pytest.Config, name: str, default: float, what: str) -> float:
    value = _value(config, name)
    if value is None:
        return default
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise UsageError(f"--vla-{name}: {value!r} is not a positive {what}")
    if number > MOST:
        raise UsageError(f"--vla-{name}: {value!r} is more than {MOST:,.0f}, which is for ever")
    return number


def _default_run(config: pytest.Config, policy: str | None) -> str:
    """``<policy>-<folder>``: the same command finds the same records again.

    The folder is that of what was asked for: ``suites/quickstart`` and any node within it give
    ``quickstart``.
    """
    paths = []
    for argument in config.args:
        # normpath and not resolve: a link keeps the name by which it was asked for.
        path = Path(os.path.normpath(config.invocation_params.dir / argument.split("::", 1)[0]))
        paths.append(path.parent if path.suffix == ".py" else path)
    common = paths[0] if paths else config.rootpath
    for path in paths[1:]:
        while common not in (path, *path.parents):
            common = common.parent
    words = f"{policy or 'plan'}-{common.name or 'root'}"
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", words).strip("-._+")
