"""How LeRobot checkpoints are loaded, and which are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.settings import PolicySettings, read_checkpoint
from pytest_vla_shift.protocol.errors import UsageError
from tests.fakes.lerobot_checkpoints import forget, write_checkpoint
from tests.policies.lerobot_peer import make, refusal

pytestmark = pytest.mark.usefixtures("lerobot_library")


def test_weights_that_are_missing_are_refused(folder: Path) -> None:
    (write_checkpoint(folder) / "weights.json").write_text('{"gain": 1.0, "looks": 0.0}')
    assert "Missing key(s) in state_dict: ['noise']" in refusal(folder)
    assert make(folder, strict="false").spec.chunk == 8


def test_a_checkpoint_without_processors_is_refused(folder: Path) -> None:
    (write_checkpoint(folder) / "policy_postprocessor.json").unlink()
    assert "has no policy_postprocessor.json" in refusal(folder)


def test_a_checkpoint_cannot_choose_what_is_run(folder: Path, tmp_path: Path) -> None:
    hit = tmp_path / "hit"
    step = {"class": "subprocess.Popen", "config": {"args": ["touch", str(hit)]}}
    said = refusal(write_checkpoint(folder, before=(step,)))
    assert "'subprocess.Popen', which is not LeRobot's" in said
    assert not hit.exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"steps": 3}', '{"steps": [3]}'])
def test_broken_processors_are_a_usage_error(folder: Path, text: str) -> None:
    (write_checkpoint(folder) / "policy_preprocessor.json").write_text(text)
    assert "policy_preprocessor.json of checkpoint 'checkpoint'" in refusal(folder)


def test_an_adapter_of_weights_is_refused(folder: Path) -> None:
    assert "merge it into its base model" in refusal(write_checkpoint(folder, use_peft=True))


def test_no_rollouts_are_counted_for_its_seeds(folder: Path) -> None:
    policy = make(write_checkpoint(folder, "molmoact2", per_episode_seed=True))
    assert policy._loaded.says("per_episode_seed") is False


def test_the_processors_run_where_the_model_runs(folder: Path) -> None:
    policy = make(write_checkpoint(folder), device="mps")
    devices = [getattr(step, "device", None) for step in policy._loaded.before.steps]
    assert "mps" in devices
    assert policy._loaded.says("device") == "mps"
    assert "; mps; act" in policy.spec.revision


def test_a_device_that_is_not_there_is_refused_not_replaced(folder: Path) -> None:
    assert "sees no CUDA device" in refusal(write_checkpoint(folder), device="cuda:1")


def test_the_hub_is_not_asked_unless_the_user_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    make(write_checkpoint(folder), online="true")
    assert "HF_HUB_OFFLINE" not in os.environ
    make(folder)
    assert os.environ["HF_HUB_OFFLINE"] == "1"


def test_a_name_on_the_hub_needs_a_commit(tmp_path: Path) -> None:
    settings = PolicySettings(checkpoint=read_checkpoint("lerobot/smolvla_libero"))
    for arguments, words in (
        ({}, "say which commit"),
        ({"hub_revision": "main"}, "is not a commit of 40 hex digits"),
    ):
        with pytest.raises(UsageError, match=words):
            resolve("lerobot", arguments, settings=settings)


def test_a_pinned_name_on_the_hub_is_in_the_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    asked: list[tuple[str, str]] = []

    def download(name: str, revision: str) -> str:
        asked.append((name, revision))
        return str(write_checkpoint(folder))

    hub = SimpleNamespace(snapshot_download=download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    settings = PolicySettings(checkpoint=read_checkpoint("lerobot/act"))
    spec = resolve("lerobot", {"hub_revision": "0" * 40}, settings=settings).spec
    assert asked == [("lerobot/act", "0" * 40)]
    assert spec.revision.endswith(f"; hub commit {'0' * 40}")


@pytest.mark.parametrize("name,kind", [("smolvla", "smolvla"), ("vla-jepa", "vla_jepa")])
def test_a_model_by_its_name_takes_its_own_checkpoints_alone(
    folder: Path, name: str, kind: str
) -> None:
    assert "is of type 'act'" in refusal(write_checkpoint(folder), name)
    assert make(write_checkpoint(folder, kind), name).spec.name == name


def test_absolute_actions_are_refused(folder: Path) -> None:
    said = refusal(write_checkpoint(folder), control_mode="absolute")
    assert "take increments of the end effector's pose" in said


def test_an_unknown_argument_is_told_with_those_that_there_are(folder: Path) -> None:
    said = refusal(write_checkpoint(folder), horizon="3")
    assert "in this process takes no horizon, but cameras, control_mode" in said


def test_a_checkpoint_is_needed_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--vla-checkpoint=DIR"):
        resolve("lerobot", {}, settings=PolicySettings())
    file = tmp_path / "weights.safetensors"
    file.write_bytes(b"x")
    assert "is a file, not a folder" in refusal(file)


def test_without_the_library_the_message_says_what_to_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(folder)
    forget()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = refusal(folder, "smolvla")
    assert "takes the package lerobot, which is not installed (this is Python 3." in said
    assert "pip install 'pytest-vla-shift[lerobot]' with Python 3.12 or newer" in said
    assert "--vla-policy-url=ws://HOST:PORT" in said


@pytest.mark.parametrize("version", ["0.6.0", "0.7.0", "0.4.1", "1.0"])
def test_another_version_of_the_library_is_refused(
    folder: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lerobot

    monkeypatch.setattr(lerobot, "__version__", version)
    said = refusal(write_checkpoint(folder))
    assert f"lerobot {version} is installed, and this takes lerobot>=0.6.1,<0.7" in said


def test_with_a_url_it_is_asked_at_a_vla_eval_server() -> None:
    settings = PolicySettings(url="ws://127.0.0.1:9")
    with pytest.raises(UsageError, match=r"no server answers at ws://127\.0\.0\.1:9"):
        resolve("smolvla", {}, settings=settings)
    with pytest.raises(UsageError, match="behind a vla-eval server takes no cameras, but"):
        resolve("smolvla", {"cameras": "a:b"}, settings=settings)


def test_third_parties_may_register_their_policies(folder: Path) -> None:
    make(write_checkpoint(folder))
    assert sys.modules["lerobot.utils.import_utils"].calls == ["register"]
