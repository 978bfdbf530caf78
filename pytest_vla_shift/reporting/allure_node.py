"""What one node shows in Allure: labels, parameters, pictures, video and explanation.

Everything is a no-op when allure-pytest is not collecting. Call :func:`decorate` in the node's
call phase (a wrapper of ``pytest_runtest_call`` is right): what is attached while a fixture is
set up lands in the report's set-up section, and a title given there is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import allure
import allure_commons
from allure_commons.model2 import Label, Parameter, TestResult
from allure_commons.reporter import AllureReporter
from allure_commons.types import LabelType
from allure_commons.utils import represent

from pytest_vla_shift.reporting.allure_files import quicken

_VIDEO = "clean | shifted"


@dataclass(frozen=True, slots=True)
class NodeStory:
    """What is known of one node.

    Attributes:
        policy: the epic.
        suite: the suite's name, the parent suite in Allure's words.
        task: the suite in Allure's words.
        condition: the feature where there is no axis (null, compounds).
        axis, level: feature and story.
        transition: ``S>F`` or the like; ``error`` for an infrastructure error.
        parameters: shown, but excluded from the history id, so that a node's history spans
            checkpoints and seeds: policy seed, level's magnitudes, revision ...
        explanation: the words of the terminal, shown as the description: an attachment would
            have to be opened, and is one file more a node.
        pictures: name -> draws the PNG. Called only when Allure is collecting.
        video: an mp4 that exists, or None.
    """

    policy: str
    suite: str
    task: str
    condition: str
    axis: str | None
    level: str | None
    transition: str
    parameters: Mapping[str, str | int | float] = field(default_factory=dict)
    explanation: str = ""
    pictures: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)
    video: Path | None = None


def collecting() -> bool:
    """Whether allure-pytest takes attachments in this process (``--alluredir`` was given)."""
    return bool(allure_commons.plugin_manager.hook.attach_data.get_hookimpls())


def decorate(story: NodeStory) -> None:
    """Give the current test its labels, parameters, attachments and description.

    Never raises over a picture or the video: a report's trouble must not turn a verdict. What
    could not be attached is told in an attachment of that name.
    """
    if not collecting():
        return
    label_node(story)
    kind = allure.attachment_type
    for name, draw in story.pictures.items():
        try:
            picture = draw()
        except Exception as error:  # whatever a picture needs, the verdict does not need it
            allure.attach(f"no picture: {error}", name, kind.TEXT)
        else:
            allure.attach(picture, name, kind.PNG)
    if story.video is not None:
        if story.video.is_file():
            allure.attach.file(str(story.video), _VIDEO, kind.MP4)
        else:
            allure.attach(f"no video: {story.video} is not there", _VIDEO, kind.TEXT)
    if story.explanation:
        allure.dynamic.description(f"````text\n{story.explanation}\n````")


def label_node(story: NodeStory) -> None:
    """Labels and parameters only. These are also right while a fixture is set up."""
    result = _current()
    if result is None:
        return
    labels = (
        (LabelType.EPIC, story.policy),
        (LabelType.FEATURE, story.axis or story.condition),
        (LabelType.STORY, story.level or story.condition),
        (LabelType.PARENT_SUITE, story.suite),
        (LabelType.SUITE, story.task),
        ("transition", story.transition),
        # A custom label cannot be filtered by in the report; a tag can.
        (LabelType.TAG, story.transition),
    )
    result.labels += [Label(name=name, value=value) for name, value in labels]
    result.parameters += [
        Parameter(name=name, value=represent(value), excluded=True)
        for name, value in sorted(story.parameters.items())
    ]


def _current() -> TestResult | None:
    """The result of the test that is running, or None if allure-pytest is not collecting.

    ``allure.dynamic`` would look for it again for every label, through a hook.
    """
    for plugin in allure_commons.plugin_manager.get_plugins():
        reporter = getattr(plugin, "allure_logger", None)
        if isinstance(reporter, AllureReporter):
            open_items = reporter._items
            quicken(map(open_items.get, list(open_items)))
            found: TestResult | None = reporter.get_test(None)
            return found
    return None
