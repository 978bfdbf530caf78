"""The page of a published run: made from its pack, but for one paragraph that people write.

Everything on it is a function of the pack, so whoever has the pack can make it again and compare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.reporting import levels, numbers, summary
from pytest_vla_shift.reporting.markup import code, escape
from pytest_vla_shift.reporting.run_report import run_facts
from pytest_vla_shift.rollouts.manifest import SessionPlan
from pytest_vla_shift.rollouts.packs import FACTS, ROLLOUTS, Pack
from pytest_vla_shift.statistics.pairs import planned_pairs
from pytest_vla_shift.statistics.report import RunReport, build_report

BEGIN = "<!-- Known causes: written by hand, and kept when the page is made again. -->"
END = "<!-- End of what is written by hand. -->"
UNWRITTEN = "Nobody has written this paragraph yet."


def page_path(directory: Path) -> Path:
    """The page of the pack in ``directory``: beside it, of its name."""
    return directory.with_name(f"{directory.name}.md")


def run_report(name: str, pack: Pack) -> RunReport:
    """The aggregates of a packed run, under the version of this package that ran it.

    Raises:
        UsageError: the records contradict the plan.
    """
    facts = run_facts(name, pack.plan, ())
    facts = replace(facts, versions={**facts.versions, "pytest-vla-shift": pack.package})
    try:
        return build_report(facts, planned_pairs(pack.plan.nodes), pack.records)
    except ValueError as error:
        raise UsageError(f"{name}: the records contradict the plan: {error}") from error


def known_causes(page: str) -> str:
    """What people wrote on a page.

    Raises:
        UsageError: its marks are not there once each, in order: what is between them would be lost.
    """
    found = re.findall(f"{re.escape(BEGIN)}\n(.*?){re.escape(END)}", page, re.DOTALL)
    if len(found) != 1 or page.count(BEGIN) != 1 or page.count(END) != 1:
        raise UsageError(
            f"the page has not exactly one part between {BEGIN!r} and {END!r}, so nobody can tell"
            " what of it was written by hand; put the marks back, or move the page away"
        )
    return str(found[0]).strip()


def render(pack: Pack, report: RunReport, causes: str = UNWRITTEN) -> str:
    """The page as GitHub-flavoured Markdown.

    Args:
        pack: the run; its folder lies beside the page.
        report: of it, by :func:`run_report` under the folder's name.
        causes: what people wrote under "Known causes".
    """
    parts = [
        f"# Results: {escape(report.facts.run)}",
        *_how(pack, report),
        *_shapes(report),
        "## Known causes",
        f"{BEGIN}\n\n{causes.strip() or UNWRITTEN}\n\n{END}",
        # One level lower: they are chapters of this page.
        re.sub("^#", "##", summary.markdown(report).rstrip("\n"), flags=re.MULTILINE),
    ]
    return "\n\n".join(parts) + "\n"


def _how(pack: Pack, report: RunReport) -> Iterator[str]:
    name = report.facts.run
    yield (
        f"Made by `vla-shift page` from [{escape(name)}/{FACTS}]({name}/{FACTS}) and"
        f" [{ROLLOUTS}]({name}/{ROLLOUTS}): {numbers.plural(len(pack.records), 'rollout')}, a line"
        " each. A test makes it again and compares."
    )
    yield "## How it was run"
    yield f"```sh\n{pack.command}\n```"
    args = pack.plan.policy.get("args")
    drawn = ", ".join(pack.drawn_with) or "nothing that says its name"
    told = [
        f"- {'; '.join(_selection(pack.plan))}",
        f"- arguments of the policy: {code(str(args)) if args else 'none'}",
        f"- pictures drawn with: {escape(drawn)}",
        *(
            f"- protocol of {escape(suite)}: {code(protocol)}"
            for suite, protocol in sorted(pack.plan.protocols.items())
        ),
    ]
    yield "\n".join(told)
    yield "The policy's revision, its checkpoint where one was named, and all versions are below."


def _selection(plan: SessionPlan) -> Iterator[str]:
    for suite, size in sorted(plan.grid.items()):
        nodes = [node for node in plan.nodes if node.suite == suite]
        tasks = len({(n.task_suite, n.task) for n in nodes})
        episodes = len({(n.task_suite, n.task, n.episode) for n in nodes})
        yield (
            f"{escape(suite)}: {len({n.cell for n in nodes})} of its {size} cells,"
            f" {numbers.plural(tasks, 'task')}, {numbers.plural(episodes, 'initial state')}"
        )


def _shapes(report: RunReport) -> Iterator[str]:
    for suite in report.suites:
        if not levels.by_axis(suite.conditions):
            continue
        yield f"## Level by level: {escape(suite.suite)}"
        yield levels.shape_table(suite)
        yield (
            "Successes of measured pairs, clean and at each level, with ΔSR = SR clean - SR shifted"
            " and its 95 % interval (\\* Tango's, where the bootstrap's has no width). Interval"
            " above 0: where all of it is a degradation."
            + (
                " Marked =: nothing was shifted, the clean condition again."
                if any(item.is_identity for item in suite.conditions)
                else ""
            )
        )
        yield "### Successes by task"
        yield levels.success_table(suite)
