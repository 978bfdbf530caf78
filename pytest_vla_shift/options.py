"""The command line and the ini file, read once into a frozen RunConfig."""

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


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What this run was asked to do.

    Attributes:
        policy: ``--vla-policy``; None only with ``--vla-list``.
        policy_args: ``--vla-policy-arg``, name to text.
        cut: how the grid is narrowed.
        extras: what is run on top of the suites' own conditions.
        list_only: print the plan and run nothing.
        envs: 0 runs simulators in the pytest process, 1 in a process of their own.
        rollout_timeout_s: after this a simulator worker counts as hung.
        reports: the folder that holds runs.
        run: the run's name, a folder within ``reports``.
        fresh: set the run's records aside and start over.
        video: ``on``, ``off`` or ``degraded``.
        video_asked: whether ``video`` was given, so that a missing encoder is an error.
    """

    policy: str | None
    policy_args: Mapping[str, str]
    cut: Cut
    extras: Extras
    list_only: bool
    envs: int
    rollout_timeout_s: float
    reports: Path
    run: str
    fresh: bool
    video: str
    video_asked: bool

    @property
    def directory(self) -> Path:
        """Where this run records and reports."""
        return self.reports / self.run


def add_options(parser: pytest.Parser) -> None:
    """Register every option; those that make sense in a project's ini are there as well."""
    group = parser.getgroup("vla-shift", "robustness of vision-language-action policies")

    def option(name: str, text: str, *, ini: bool = True, **extra: object) -> None:
        group.addoption(f"--vla-{name}", help=text, default=None, **extra)
        if ini:
            parser.addini(f"vla_{name.replace('-', '_')}", f"default of --vla-{name}", default=None)

    option("policy", "policy under test: a name, or module:attr for your own", metavar="NAME")
    option(
        "policy-arg",
        "argument of the policy, may be given several times",
        ini=False,
        action="append",
        metavar="K=V",
    )
    option("task", "keep tasks whose name contains a word of this comma list", metavar="WORDS")
    option("episodes", "keep episodes: 0:10, 3, or 0,4,7:9", metavar="RANGE")
    option(
        "configuration",
        "keep configurations: places of a task's episodes in the suite, 0:2, 3 or 0,4",
        metavar="RANGE",
    )
    option(
        "axis",
        "keep axes of this comma list; null is the null arm, simultaneous all axes at once",
        metavar="NAMES",
    )
    option("level", "keep levels of this comma list: L1 or 1", metavar="LEVELS")
    option(
        "compound",
        "shift axes at once as well: camera+lighting; several in a comma list, all for every axis",
        metavar="AXES",
    )
    option(
        "nominal",
        "run every released initial state clean as well",
        ini=False,
        action="store_true",
    )
    option(
        "replicate",
        "run every compared cell again with another policy seed",
        ini=False,
        action="store_true",
    )
    option("list", "print the plan and what it costs, run nothing", ini=False, action="store_true")
    option(
        "envs",
        "0: simulator in the pytest process, for a debugger; 1 (default): in its own process",
        metavar="N",
    )
    option(
        "rollout-timeout",
        "seconds after which a simulator worker counts as hung (default 600)",
        metavar="SECONDS",
    )
    option("reports", "folder of all runs (default: reports in the root)", metavar="DIR")
    option(
        "run",
        "name of this run's folder; records found there are reused (default: policy and suite)",
        ini=False,
        metavar="NAME",
    )
    option(
        "fresh",
        "set the run's records aside and run everything again",
        ini=False,
        action="store_true",
    )
    option("video", "side-by-side videos: on, off or degraded (default)", metavar="WHICH")


def asks_for_rollouts(config: pytest.Config) -> bool:
    """Whether this pytest run evaluates a policy, or lists what that would take."""
    return bool(config.getoption("--vla-list")) or _value(config, "policy") is not None


def read_options(config: pytest.Config) -> RunConfig:
    """The RunConfig of a run that :func:`asks_for_rollouts`.

    Raises:
        UsageError: a value is malformed.
    """
    policy = _value(config, "policy")
    video = _value(config, "video")
    if video is not None and video not in VIDEO:
        raise UsageError(f"--vla-video: {video!r} is none of {', '.join(VIDEO)}")
    run = _value(config, "run") or _default_run(config, policy)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", run):
        raise UsageError(f"--vla-run: {run!r} must be a plain folder name")
    return RunConfig(
        policy=policy,
        policy_args=parse_policy_args(
            config.getoption("--vla-policy-arg") or [], "--vla-policy-arg"
        ),
        cut=_cut(config),
        extras=_extras(config),
        list_only=bool(config.getoption("--vla-list")),
        envs=_envs(_value(config, "envs")),
        rollout_timeout_s=_seconds(_value(config, "rollout-timeout")),
        reports=_reports(config),
        run=run,
        fresh=bool(config.getoption("--vla-fresh")),
        video=video or "degraded",
        video_asked=video is not None,
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


def _envs(value: str | None) -> int:
    if value is None:
        return 1
    if value not in ("0", "1"):
        raise UsageError(
            f"--vla-envs: {value!r} is neither 0 (simulator in the pytest process) nor 1 (in a"
            " process of its own); run several at once with pytest-xdist: -n N"
        )
    return int(value)


def _seconds(value: str | None) -> float:
    if value is None:
        return 600.0
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise UsageError(f"--vla-rollout-timeout: {value!r} is not a positive number of seconds")
    return seconds


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
