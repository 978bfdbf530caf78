"""The same work for many tasks at once: what the scripts that roll policies out have in common."""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from training import episodes

Given = TypeVar("Given")
Made = TypeVar("Made")


def options(described: str | None) -> argparse.ArgumentParser:
    """A command line on which tasks can be chosen.

    Args:
        described: the script's docstring.
    """
    parser = argparse.ArgumentParser(description=(described or "").partition("\n")[0])
    parser.add_argument("--suite", choices=episodes.SUITES, action="append")
    parser.add_argument("--task", default="", help="only tasks whose name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    return parser


def chosen(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Task suites and tasks, as they were chosen."""
    return [
        (suite, task)
        for suite in args.suite or episodes.SUITES
        for task in episodes.tasks(suite)
        if args.task in task
    ]


def spread(work: Callable[[Given], Made], over: Sequence[Given], jobs: int) -> Iterator[Made]:
    """What ``work`` gives, in processes that serve one task each, as each is done."""
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(work, over, chunksize=1)
