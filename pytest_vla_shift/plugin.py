"""The pytest plugin: hooks only. Nothing heavy is imported before a run asks for rollouts.

The hooks of a run itself are in :mod:`pytest_vla_shift.hooks`, registered only when there is one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vla_shift.fixtures import audit, cell, condition, pair
from pytest_vla_shift.option_list import add_options
from pytest_vla_shift.options import asks_for_rollouts

if TYPE_CHECKING:
    from pytest_vla_shift.scheduling import EpisodeScheduling

__all__ = ["audit", "cell", "condition", "pair"]

MARKERS = (
    "vla_suite(name_or_path): the suite that a test module runs: a shipped suite's name, or the"
    " path of a TOML file relative to the module",
    "vla(suite, task, episode, condition, axis, level): set on every cell, to select with -m",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the hooks that other plugins may implement."""
    from pytest_vla_shift import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True)  # before allure-pytest and xdist read their options
def pytest_configure(config: pytest.Config) -> None:
    """Open a session if this run asks for rollouts."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if asks_for_rollouts(config):
        from pytest_vla_shift.hooks import open_run

        open_run(config)


@pytest.hookimpl(optionalhook=True)  # at module level: what is registered later comes too late
def pytest_xdist_make_scheduler(config: pytest.Config) -> EpisodeScheduling | None:
    """Keep an episode's cells together, unless ``--dist`` asks for something else than ``load``."""
    if config.getoption("dist") != "load" or not asks_for_rollouts(config):
        return None
    from pytest_vla_shift.scheduling import episode_scheduling

    return episode_scheduling(config)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the folder of a run: thousands of files, and none of them a test."""
    if collection_path.suffix == ".py" or not (collection_path / "rollouts").is_dir():
        return None
    found = any((collection_path / name).is_file() for name in ("run.json", "run.lock"))
    return True if found else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once that suites want a policy: pytest shows the reasons of skips only with -rs."""
    skipped = terminalreporter.stats.get("skipped", ())
    if any(report.nodeid.endswith("[no-policy]") for report in skipped):
        from pytest_vla_shift.collection import print_skips

        print_skips(terminalreporter)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Turn a suite's test function into its cells."""
    if "cell" in metafunc.fixturenames:
        from pytest_vla_shift.collection import parametrise

        parametrise(metafunc)
