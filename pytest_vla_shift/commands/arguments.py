"""Arguments that several commands share: a suite, a policy, a cut, simulators."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.protocol.plan import Cell, Cut
    from pytest_vla_shift.protocol.suite import Suite


MOST_SECONDS = 1e6


def add_suite(parser: argparse.ArgumentParser) -> None:
    """``SUITE``."""
    parser.add_argument("suite", metavar="SUITE", help="a shipped suite's name, or a TOML file")


def add_policy(parser: argparse.ArgumentParser) -> None:
    """``--policy``, its arguments, and how it is reached."""
    parser.add_argument(
        "--policy", required=True, metavar="NAME", help="policy under test: a name, or module:attr"
    )
    parser.add_argument(
        "--policy-arg",
        action="append",
        default=[],
        metavar="K=V",
        help="argument of the policy, may be given several times",
    )
    for name, metavar, text in (
        ("url", "URL", "where the policy's server listens"),
        ("token", "VARIABLE", "environment variable that holds the token of the server"),
    ):
        parser.add_argument(f"--policy-{name}", metavar=metavar, help=text)
    parser.add_argument(
        "--policy-timeout",
        type=_seconds,
        default=120.0,
        metavar="SECONDS",
        help="seconds after which a call of the policy's server counts as hung (default 120; the"
        " first: 10 x)",
    )
    parser.add_argument(
        "--checkpoint", metavar="CHECKPOINT", help="the weights under test: their path, or a label"
    )
    parser.add_argument(
        "--replan",
        type=_count,
        metavar="N",
        help="actions of a chunk that are executed before the policy is asked again",
    )


def add_simulator(parser: argparse.ArgumentParser) -> None:
    """``--envs`` and ``--rollout-timeout``."""
    parser.add_argument(
        "--envs",
        type=int,
        choices=(0, 1),
        default=1,
        help="0: simulator in this process, for a debugger; 1 (default): in its own process",
    )
    parser.add_argument(
        "--rollout-timeout",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="seconds after which a simulator worker counts as hung (default 600)",
    )


def add_cut(parser: argparse.ArgumentParser, *, axes: bool) -> None:
    """``--task``, ``--episodes`` and, with ``axes``, ``--axis`` and ``--level``."""
    parser.add_argument(
        "--task",
        "--tasks",
        dest="task",
        metavar="WORDS",
        help="keep tasks whose name contains a word of this comma list",
    )
    parser.add_argument(
        "--episodes",
        metavar="RANGE",
        help="audit these episodes: 0:3, 3, or 0,4,7 (default: the first three of a task)",
    )
    if axes:
        parser.add_argument("--axis", metavar="NAMES", help="keep axes of this comma list")
        parser.add_argument("--level", metavar="LEVELS", help="keep levels of this comma list: L1")


def suite_of(given: argparse.Namespace) -> Suite:
    """The suite that was asked for, with axes that its shifts can take.

    Raises:
        UsageError: unknown, unreadable, malformed, or with axes that do not fit.
    """
    from pytest_vla_shift.protocol.suite import load_suite
    from pytest_vla_shift.rollouts.request import check_axes

    reference: str = given.suite
    is_path = reference.endswith(".toml") or "/" in reference
    suite = load_suite(Path(reference) if is_path else reference)
    check_axes(suite)
    return suite


def add_out(parser: argparse.ArgumentParser) -> None:
    """``--out``, the folder of an audit's report."""
    parser.add_argument(
        "--out",
        type=Path,
        default=None,
        metavar="DIR",
        help="folder of the report (default: reports/audit-<suite>)",
    )


def out_of(given: argparse.Namespace, suite: Suite) -> Path:
    """Where an audit of ``suite`` reports."""
    chosen: Path | None = given.out
    return chosen or Path("reports") / f"audit-{suite.name}"


def policy_args(given: argparse.Namespace) -> dict[str, str]:
    """``--policy-arg`` as a table.

    Raises:
        UsageError: one is not ``name=value``, or is given twice.
    """
    from pytest_vla_shift.options import parse_policy_args

    return parse_policy_args(given.policy_arg, "--policy-arg")


def policy_of(given: argparse.Namespace) -> Policy:
    """The policy that was asked for.

    Raises:
        UsageError: unknown, or it cannot be made.
    """
    from pytest_vla_shift.policies.registry import resolve
    from pytest_vla_shift.policies.settings import PolicySettings, read_checkpoint, read_token

    variable, checkpoint = given.policy_token, given.checkpoint
    settings = PolicySettings(
        url=given.policy_url,
        timeout_s=given.policy_timeout,
        token=None if variable is None else read_token(variable, "--policy-token"),
        checkpoint=None if checkpoint is None else read_checkpoint(checkpoint),
        replan=given.replan,
    )
    return resolve(given.policy, policy_args(given), settings=settings)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.0 < value <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a positive number of seconds, at most {MOST_SECONDS:,.0f}"
        )
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def cut_of(given: argparse.Namespace, suite: Suite) -> Cut:
    """How the audit is narrowed.

    Raises:
        UsageError: a word matches nothing of the suite, or nothing is left.
    """
    from pytest_vla_shift.protocol.plan import Cut, CutCheck
    from pytest_vla_shift.protocol.suite import parse_episodes

    episodes = given.episodes
    cut = Cut(
        tasks=_words(given.task),
        episodes=() if episodes is None else parse_episodes(episodes, "--episodes"),
        axes=_words(getattr(given, "axis", None)),
        levels=tuple(
            f"L{word}" if word.isdigit() else word for word in _words(getattr(given, "level", None))
        ),
    )
    check = CutCheck(cut)
    check.see(suite)
    problem = check.problem()
    if problem is not None:
        raise UsageError(problem.replace("--vla-", "--").replace(" of this run", ""))
    return cut


def check_fit(policy: Policy, suite: Suite, cells: Sequence[Cell]) -> None:
    """Refuse a policy that does not fit the suite and the tasks of ``cells``.

    Raises:
        UsageError: shows both sides.
    """
    from pytest_vla_shift.contract import check_contract

    check_contract(policy, [(cell.id, suite, cell) for cell in cells])


def _words(value: str | None) -> tuple[str, ...]:
    return () if value is None else tuple(w.strip() for w in value.split(",") if w.strip())
