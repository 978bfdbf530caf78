"""Allure's files, written faster: the same content, without set-ups that say nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import allure_commons
import attr
import pytest
from allure_commons import model2
from allure_commons.logger import AllureFileLogger

from pytest_vla_shift.reporting.allure_files import (
    Members,
    plain,
    quicken,
    says_nothing,
    write_faster,
)


@pytest.fixture
def logger(tmp_path: Path) -> Iterator[AllureFileLogger]:
    logger = AllureFileLogger(str(tmp_path))
    allure_commons.plugin_manager.register(logger)
    yield logger
    allure_commons.plugin_manager.unregister(logger)


def result() -> model2.TestResult:
    step = model2.TestStepResult(name="a step", status=model2.Status.BROKEN, start=3, stop=5)
    step.statusDetails = model2.StatusDetails(message="ö", trace="", flaky=False)
    return model2.TestResult(
        uuid="u",
        name="test_shift[x]",
        status=model2.Status.PASSED,
        steps=[step],
        attachments=[model2.Attachment("picture", "p.png", "image/png")],
        parameters=[model2.Parameter("cell", "'x'"), model2.Parameter("seed", "1", excluded=True)],
        labels=[model2.Label("epic", "policy")],
        titlePath=["a", "b.py"],
        start=0,
        stop=9,
    )


def container(name: str = "pair", stop: int = 20, **more: object) -> model2.TestResultContainer:
    before = model2.TestBeforeResult(name=name, start=10, stop=stop, status=model2.Status.PASSED)
    for field, value in more.items():
        setattr(before, field, value)
    after = model2.TestAfterResult(
        name=f"{name}::<lambda>", start=21
    )  # running while this is written
    return model2.TestResultContainer(uuid="c", children=["u"], befores=[before], afters=[after])


def test_an_item_is_what_allure_commons_would_write() -> None:
    for item in (result(), container(), container("mine", statusDetails=model2.StatusDetails())):
        assert plain(item) == attr.asdict(item, filter=lambda _, value: value or value is False)


def test_a_result_is_written_whole_under_a_name_of_allures(
    logger: AllureFileLogger, tmp_path: Path
) -> None:
    write_faster()
    allure_commons.plugin_manager.hook.report_result(result=result())
    (file,) = tmp_path.iterdir()
    assert file.name.endswith("-result.json")
    assert json.loads(file.read_bytes()) == plain(result())


@pytest.mark.parametrize(
    "kept",
    [
        container("users_own"),
        container(stop=200),
        container(status=model2.Status.BROKEN),
        container(statusDetails=model2.StatusDetails(message="why")),
        container(attachments=[model2.Attachment("log", "l.txt", "text/plain")]),
        container(steps=[model2.TestStepResult(name="by the test")]),
    ],
    ids=["of another fixture", "slow", "broken", "details", "attachment", "step"],
)
def test_a_set_up_that_says_something_is_written(
    logger: AllureFileLogger, tmp_path: Path, kept: model2.TestResultContainer
) -> None:
    write_faster()
    allure_commons.plugin_manager.hook.report_container(container=kept)
    allure_commons.plugin_manager.hook.report_container(container=container())
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_bytes()) == plain(kept)
    assert says_nothing(container())


def test_a_picture_and_a_text_are_written_under_the_names_that_allure_chose(
    logger: AllureFileLogger, tmp_path: Path
) -> None:
    write_faster()
    hook = allure_commons.plugin_manager.hook
    hook.report_attached_data(body=b"\x89PNG", file_name="a-attachment.png")
    hook.report_attached_data(body="no picture: ö", file_name="b-attachment.txt")
    found = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert found == {
        "a-attachment.png": b"\x89PNG",
        "b-attachment.txt": "no picture: ö".encode(),
    }


def test_a_logger_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    class Own(AllureFileLogger):
        pass

    own = Own(str(tmp_path))  # type: ignore[no-untyped-call]
    allure_commons.plugin_manager.register(own, "own")
    try:
        write_faster()
        assert type(own) is Own
    finally:
        allure_commons.plugin_manager.unregister(own)


def test_the_nodes_of_an_open_container_are_found_without_going_through_them() -> None:
    kept, done = container(), result()
    quicken([kept, None, done])
    assert type(kept.children) is Members
    kept.children.append("v")
    assert "u" in kept.children
    assert "v" in kept.children
    assert "w" not in kept.children
    assert plain(kept) == plain(
        model2.TestResultContainer(**{**_fields(kept), "children": ["u", "v"]})
    )


def _fields(item: model2.TestResultContainer) -> dict[str, object]:
    return {field.name: getattr(item, field.name) for field in attr.fields(type(item))}


def test_the_users_wish_for_indented_files_is_kept(
    logger: AllureFileLogger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_faster()
    monkeypatch.setenv("ALLURE_INDENT_OUTPUT", "1")
    allure_commons.plugin_manager.hook.report_result(result=result())
    (file,) = tmp_path.iterdir()
    assert file.read_text("utf-8").startswith("{\n    ")
