"""Allure results that belong to no test: the controller's aggregates, gaps, and the report's frame.

They are written straight to the results folder once, when the run ends, by the one process that
sees all records. ``allure.attach`` would be lost there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING

from allure_commons.model2 import (
    ATTACHMENT_PATTERN,
    Attachment,
    Label,
    Parameter,
    Status,
    StatusDetails,
    TestResult,
)
from allure_commons.types import AttachmentType, LabelType
from allure_commons.utils import now, uuid4

from pytest_vla_shift.reporting import compounds, numbers
from pytest_vla_shift.reporting.allure_files import write_item
from pytest_vla_shift.reporting.summary import incomplete_table, task_table
from pytest_vla_shift.reporting.tables import render
from pytest_vla_shift.rollouts.storage import replace_whole, writing
from pytest_vla_shift.statistics.aggregate import ConditionAggregate
from pytest_vla_shift.statistics.report import RunReport, SuiteReport
from pytest_vla_shift.statistics.suite_compounds import CompoundLevel

if TYPE_CHECKING:
    from pytest_vla_shift.rollouts.manifest import PlannedNode

AGGREGATES = "pytest_vla_shift.aggregates"
"""The module that aggregates are said to be of."""

NOT_REPORTED = "not reported: "
"""How the message of a broken result begins that stands for a node without a report."""

CATEGORIES: tuple[dict[str, str | list[str]], ...] = (
    {
        "name": "Degraded: the shift broke a success (S>F)",
        "matchedStatuses": ["failed"],
        "messageRegex": r"[\s\S]*S>F[\s\S]*",
    },
    {
        "name": "Unsolved: nothing to compare (F>F)",
        "matchedStatuses": ["skipped"],
        "messageRegex": r"[\s\S]*F>F[\s\S]*",
    },
    {
        "name": "Nominal: not solved",
        "matchedStatuses": ["skipped"],
        "messageRegex": r"[\s\S]*F, nominal[\s\S]*",
    },
    {"name": "Infrastructure errors: in no rate", "matchedStatuses": ["broken"]},
)
"""Needs the transition in the message with which a node fails or skips."""


def write_aggregates(alluredir: Path, report: RunReport) -> int:
    """One passed result a condition, with its table, and one a compound; categories, environment.

    An aggregate is information, not a verdict: it passes whatever its dSR. A condition without a
    measured pair, or a compound without a complete configuration, is ``skipped``.

    Args:
        alluredir: the results folder; made if it is not there.
        report: the run.

    Returns:
        The number of results written.

    Raises:
        StorageError: something cannot be written; it is named.
    """
    _make(alluredir)
    table = render(report) + "\n"
    written = 0
    for suite in report.suites:
        for condition in suite.conditions:
            # Allure shows an attachment that two results share in one of them only.
            source = ATTACHMENT_PATTERN.format(prefix=uuid4(), ext="txt")
            replace_whole(alluredir / source, table.encode())
            attachment = Attachment("summary", source, AttachmentType.TEXT.mime_type)
            write_item(alluredir, _aggregate(report, suite, condition, attachment))
            written += 1
        for item in suite.compounds:
            write_item(alluredir, _compound(report, suite, item))
            written += 1
    categories = json.dumps(CATEGORIES, indent=1) + "\n"
    replace_whole(alluredir / "categories.json", categories.encode())
    replace_whole(alluredir / "environment.properties", _environment(report).encode())
    return written


def write_broken(alluredir: Path, policy: str, nodes: Iterable[PlannedNode], reason: str) -> int:
    """A broken result for each planned node that nobody reported.

    A worker that crashes takes its node's result with it. The history id is the one that the
    node would have had, so that its history goes on.

    Args:
        alluredir: the results folder; made if it is not there.
        policy: the epic.
        nodes: only those without any report: a node that reported an error has its result.
        reason: why, for people.

    Returns:
        The number of results written.

    Raises:
        StorageError: something cannot be written; it is named.
    """
    _make(alluredir)
    written = 0
    for node in nodes:
        name, path = _names(node)
        moment = now()
        write_item(
            alluredir,
            TestResult(
                uuid=uuid4(),
                name=node.node.rpartition("::")[2],
                fullName=name,
                titlePath=path,
                historyId=history_id(node),
                testCaseId=_md5(name),
                status=Status.BROKEN,
                statusDetails=StatusDetails(message=f"{NOT_REPORTED}{reason}"),
                start=moment,
                stop=moment,
                parameters=[Parameter(name="cell", value=repr(node.cell))],
                labels=_labels(
                    policy,
                    (node.axis or node.condition, node.level or node.condition),
                    (node.suite, node.task),
                    transition="error",
                ),
            ),
        )
        written += 1
    return written


def history_id(node: PlannedNode) -> str:
    """By which Allure knows a node again, as allure-pytest makes it."""
    return _md5(_names(node)[0], node.cell)


def _names(node: PlannedNode) -> tuple[str, list[str]]:
    """allure-pytest's full name, ``suites.a.test_b.TestC#test_d``, and the path of its title."""
    path, _, function = node.node.partition("[")[0].rpartition("::")
    module, *classes = path.split("::")
    full = ".".join([module.removesuffix(".py").replace("/", "."), *classes]) + f"#{function}"
    return full, [*module.split("/"), *classes]


def _aggregate(
    report: RunReport, suite: SuiteReport, item: ConditionAggregate, attachment: Attachment
) -> TestResult:
    again = f"-r{item.replicate}" if item.replicate else ""
    topic = item.axis or item.condition, item.level or item.condition
    result = _information(report, suite, f"{item.condition}{again}", topic)
    result.name = f"dSR {numbers.label(item)}"
    result.status = Status.PASSED if item.pairs else Status.SKIPPED
    result.statusDetails = StatusDetails(message=_sentence(item))
    result.description = _description(item)
    result.attachments = [attachment]
    return result


def _compound(report: RunReport, suite: SuiteReport, item: CompoundLevel) -> TestResult:
    name = compounds.label(item)
    result = _information(report, suite, f"compound {name}", (item.axis, item.level))
    result.name = f"compound {name}"
    result.status = Status.PASSED if item.report.complete else Status.SKIPPED
    result.statusDetails = StatusDetails(message=compounds.sentence(item.report))
    result.description = "\n\n".join(compounds.markdown([item]))
    return result


def _information(
    report: RunReport, suite: SuiteReport, what: str, topic: tuple[str, str]
) -> TestResult:
    """A result of the controller's own, still without a name and a verdict."""
    name = f"{AGGREGATES}.{suite.suite}#{what}"
    moment = now()
    return TestResult(
        uuid=uuid4(),
        fullName=name,
        titlePath=["aggregates", suite.suite],
        historyId=_md5(name),
        testCaseId=_md5(name),
        start=moment,
        stop=moment,
        parameters=[
            # Excluded from the history, so that a trend spans checkpoints.
            Parameter(name="revision", value=report.facts.policy_revision, excluded=True),
            Parameter(name="protocol", value=suite.protocol, excluded=True),
        ],
        labels=_labels(report.facts.policy, topic, (suite.suite, "aggregates")),
    )


def _sentence(item: ConditionAggregate) -> str:
    if not item.pairs:
        return f"no measured pair: {item.errors} with an error, {item.missing} missing"
    return (
        f"dSR {numbers.degradation(item)}: S>S {item.ss}, S>F {item.sf}, F>S {item.fs},"
        f" F>F {item.ff}; {numbers.plural(item.pairs, 'pair')}, {item.errors} with an error"
    )


def _description(item: ConditionAggregate) -> str:
    # Allure's column is narrow: one line a quantity, not one column.
    depth = item.depth
    tango = "" if item.tango is None else f"; Tango, pooled {numbers.interval(item.tango)}"
    lines = [
        _sentence(item),
        "",
        f"- success rate: {numbers.rate(item.sr_clean)} clean, {numbers.rate(item.sr_shifted)}"
        " shifted (macro)",
        f"- dSR: {numbers.degradation(item)}{tango}",
        f"- exact McNemar p: {numbers.p_value(item.mcnemar)}; {item.changed} changed",
        f"- S>F pairs: mean progress {numbers.rate(depth.progress)},"
        f" {numbers.percent(depth.first_stage)} stopped before the first milestone,"
        f" {depth.complete} completed every milestone without official success",
        f"- cells: {item.planned} planned, {item.pairs} measured, {item.errors} with an error,"
        f" {item.missing} missing",
    ]
    parts = ["\n".join(lines), "dSR by task", task_table([item])]
    incomplete = incomplete_table([item])
    if incomplete:
        parts += ["First incomplete milestone of S>F pairs", incomplete]
    return "\n\n".join(parts)


def _labels(
    policy: str, topic: tuple[str, str], place: tuple[str, str], transition: str | None = None
) -> list[Label]:
    labels = [
        (LabelType.EPIC, policy),
        (LabelType.FEATURE, topic[0]),
        (LabelType.STORY, topic[1]),
        (LabelType.PARENT_SUITE, place[0]),
        (LabelType.SUITE, place[1]),
        (LabelType.FRAMEWORK, "pytest"),
    ]
    if transition is not None:
        labels += [("transition", transition), (LabelType.TAG, transition)]
    return [Label(name=name, value=value) for name, value in labels]


def _environment(report: RunReport) -> str:
    facts = report.facts
    entries = {
        "run": facts.run,
        "policy": facts.policy,
        "policy.revision": facts.policy_revision,
        "policy.privileged": str(facts.privileged).lower(),
        "policy.seed": facts.seeding,
        **({"policy.checkpoint": facts.checkpoint} if facts.checkpoint else {}),
        **{f"protocol.{suite.suite}": suite.protocol for suite in report.suites},
        **{f"version.{name}": version for name, version in sorted(facts.versions.items())},
    }
    return "".join(f"{_property(k)}={_property(v)}\n" for k, v in entries.items())


def _property(text: str) -> str:
    """Escaped for a Java properties file, which ends a key at the first space, colon or equals."""
    escaped = "".join(f"\\{char}" if char in "\\=: #!" else char for char in " ".join(text.split()))
    return "".join(c if c.isascii() else _java(c) for c in escaped)


def _java(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _md5(*parts: str) -> str:
    """What Allure identifies histories by; not a safeguard."""
    return md5("".join(parts).encode(), usedforsecurity=False).hexdigest()


def _make(alluredir: Path) -> None:
    with writing(alluredir):
        alluredir.mkdir(parents=True, exist_ok=True)
