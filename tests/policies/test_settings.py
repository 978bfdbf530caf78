"""The checkpoint's label and digest, and what of the settings a policy is given."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.settings import (
    Checkpoint,
    PolicySettings,
    read_checkpoint,
    read_token,
)
from pytest_vla_shift.protocol.errors import UsageError
from tests.fakes.modules import importable
from tests.policies.observations import INFO, observation

SOURCE = """
from dataclasses import replace

from pytest_vla_shift.policies.baselines import Zero


class Chunks(Zero):
    pass


class Named(Zero):
    spec = replace(Zero.spec, checkpoint="night-7")


class Loads(Zero):
    def __init__(self, checkpoint):
        self.loaded = checkpoint


class Asks(Zero):
    def __init__(self, url, token=None):
        self.token = token


class Whole(Zero):
    def __init__(self, settings, gain="1"):
        self.settings = settings
"""


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    folder = tmp_path / "night-7"
    (folder / "deep").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "deep" / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with importable(monkeypatch, tmp_path, "with_settings", SOURCE) as name:
        yield name


def test_copies_of_a_checkpoint_agree_wherever_they_lie(weights: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "elsewhere" / "night-7"
    shutil.copytree(weights, copy)
    here, there = read_checkpoint(str(weights)), read_checkpoint(str(copy))
    assert here == there
    assert str(tmp_path) not in str(here)
    assert here.path == weights


@pytest.mark.parametrize("change", ["content", "name", "more"])
def test_other_files_are_another_checkpoint(weights: Path, change: str) -> None:
    before = read_checkpoint(str(weights))
    model = weights / "deep" / "model.safetensors"
    if change == "content":
        model.write_bytes(b"weightz")
    elif change == "name":
        model.rename(weights / "model.safetensors")
    else:
        (weights / "more").touch()
    assert read_checkpoint(str(weights)).digest != before.digest


def test_a_label_is_taken_as_it_is_and_may_say_its_digest() -> None:
    assert read_checkpoint("nvidia/GR00T-N1.7-LIBERO") == Checkpoint("nvidia/GR00T-N1.7-LIBERO")
    said = read_checkpoint("night-7@sha256:0123abcd")
    assert (said.label, said.digest, str(said)) == (
        "night-7",
        "sha256:0123abcd",
        "night-7@sha256:0123abcd",
    )


def test_a_digest_that_is_said_is_checked_against_the_files(weights: Path) -> None:
    digest = read_checkpoint(str(weights)).digest
    assert read_checkpoint(f"{weights}@{digest[:20]}").digest == digest
    with pytest.raises(UsageError, match=r"has the digest sha256:.*, not sha256:0123abcd"):
        read_checkpoint(f"{weights}@sha256:0123abcd")


def test_links_are_followed_as_a_loader_would(weights: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text(name)
        (tmp_path / f"run-{name}" / "pm").mkdir(parents=True)
        (tmp_path / f"run-{name}" / "pm" / "params").symlink_to(tmp_path / name)
    one, other = (read_checkpoint(str(tmp_path / f"run-{name}" / "pm")) for name in "ab")
    assert one.label == other.label == "pm"
    assert one.digest != other.digest
    copy = tmp_path / "run-c" / "pm"
    (copy / "params").mkdir(parents=True)
    (copy / "params" / "model.safetensors").write_text("a")
    assert read_checkpoint(str(copy)) == one


@pytest.mark.parametrize("how", ["empty", "circle", "dangling inside", "dangling", "pipe"])
def test_a_folder_that_no_loader_could_read_whole_is_refused(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "ck"
    (folder / "deep").mkdir(parents=True)
    if how == "circle":
        (folder / "w").touch()
        (folder / "deep" / "up").symlink_to(folder)
    elif how == "dangling inside":
        (folder / "w").symlink_to(tmp_path / "nowhere")
    elif how == "dangling":
        folder = tmp_path / "link"
        folder.symlink_to(tmp_path / "nowhere")
    elif how == "pipe":
        os.mkfifo(folder / "w")
    with pytest.raises(UsageError, match=r"checkpoint: .*(cannot be read|is a link to what)"):
        read_checkpoint(str(folder))


def test_a_slip_in_a_path_is_no_label(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="there is no 'night-7/depe'"):
        read_checkpoint("night-7/depe")
    assert read_checkpoint("night-7/deep").digest
    assert read_checkpoint("someone/night-7") == Checkpoint("someone/night-7")


def test_a_digest_is_read_in_any_case_and_a_label_without_blanks_around_it() -> None:
    assert read_checkpoint(" night-7 @sha256:0123ABCD ") == Checkpoint("night-7", "sha256:0123abcd")


def test_a_token_given_in_the_place_of_its_variable_is_not_repeated() -> None:
    with pytest.raises(UsageError, match="--o names an environment variable that is not") as raised:
        read_token("hf_Sesame", "--o")
    assert "Sesame" not in str(raised.value)
    with pytest.raises(UsageError, match="variable 'MY_TOKEN_42' that is not set"):
        read_token("MY_TOKEN_42", "--o")


@pytest.mark.parametrize(
    "value,words",
    [
        ("", "neither a path nor a label"),
        ("night\n7", "neither a path nor a label"),
        ("x@sha256:zz", "neither a path nor a label"),
        ("./missing", "there is no"),
        ("/nowhere/at/all", "there is no"),
        ("~/no-such-checkpoint", "there is no"),
    ],
)
def test_what_is_no_checkpoint_is_refused(value: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_checkpoint(value)


def test_the_checkpoint_is_in_the_spec_and_its_path_is_handed_over(
    mine: str, weights: Path
) -> None:
    checkpoint = read_checkpoint(str(weights))
    policy = resolve(f"{mine}:Loads", {}, settings=PolicySettings(checkpoint=checkpoint))
    assert policy.spec.checkpoint == str(checkpoint)
    assert vars(vars(policy)["_policy"])["loaded"] == str(weights)


def test_a_label_is_in_the_spec_of_a_policy_that_loads_by_itself(mine: str) -> None:
    settings = PolicySettings(checkpoint=Checkpoint("night-7"))
    assert resolve(f"{mine}:Chunks", {}, settings=settings).spec.checkpoint == "night-7"
    assert resolve("zero", {}, settings=settings).spec.checkpoint == "night-7"
    assert resolve("zero", {}).spec.checkpoint == ""


def test_a_replan_changes_the_spec_and_what_is_more_than_the_chunk_is_refused() -> None:
    policy = resolve("scripted", {}, settings=PolicySettings())
    chunk = policy.spec.chunk
    assert resolve("scripted", {}, settings=PolicySettings(replan=1)).spec.replan == 1
    with pytest.raises(UsageError, match=f"--vla-replan={chunk + 1}.*{chunk} actions"):
        resolve("scripted", {}, settings=PolicySettings(replan=chunk + 1))


def test_a_respecified_policy_answers_as_before() -> None:
    plain = resolve("random", {})
    told = resolve("random", {}, settings=PolicySettings(checkpoint=Checkpoint("x")))
    for policy in (plain, told):
        policy.reset(INFO, 3)
    assert (plain.act(observation()) == told.act(observation())).all()


def test_the_token_goes_to_who_takes_it_and_is_never_shown(mine: str) -> None:
    settings = PolicySettings(url="tcp://h:1", token="s3cret")
    assert "s3cret" not in repr(settings)
    policy = resolve(f"{mine}:Asks", {}, settings=settings)
    assert vars(vars(policy)["_policy"])["token"] == "s3cret"
    assert "s3cret" not in str(policy.spec)
    with pytest.raises(UsageError, match="takes no token"):
        resolve(f"{mine}:Loads", {"checkpoint": "x"}, settings=PolicySettings(token="s3cret"))


def test_who_asks_for_all_settings_gets_them(mine: str) -> None:
    settings = PolicySettings(url="tcp://h:1", token="s3cret")
    policy = resolve(f"{mine}:Whole", {"gain": "2"}, settings=settings)
    assert vars(vars(policy)["_policy"])["settings"] is settings
    with pytest.raises(UsageError, match="no argument called settings"):
        resolve(f"{mine}:Whole", {"settings": "x"}, settings=settings)


def test_weights_that_a_policy_names_itself_are_not_called_otherwise(mine: str) -> None:
    named = PolicySettings(checkpoint=Checkpoint("night-7"))
    assert resolve(f"{mine}:Named", {}, settings=named).spec.checkpoint == "night-7"
    assert resolve(f"{mine}:Named", {}).spec.checkpoint == "night-7"
    other = PolicySettings(checkpoint=Checkpoint("night-8"))
    with pytest.raises(UsageError, match=r"weights are night-7, and .* they are night-8"):
        resolve(f"{mine}:Named", {}, settings=other)
