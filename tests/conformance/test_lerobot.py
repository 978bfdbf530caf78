"""Our adapter against the real LeRobot, where it is installed: Python 3.12 and torch, gigabytes.

Checkpoints are made here by LeRobot's own code: small, random, saved with ``save_pretrained``.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from pytest_vla_shift.policies.check import check_policy
from pytest_vla_shift.policies.lerobot_policy import LeRobotPolicy
from pytest_vla_shift.policies.mapping import payload
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.respecified import Respecified
from pytest_vla_shift.policies.settings import PolicySettings, read_checkpoint
from pytest_vla_shift.protocol.errors import UsageError
from tests.fakes.lerobot_checkpoints import SITE, forget, stand_in

pytest.importorskip("lerobot")
pytest.importorskip("torch")

SIZE = 64
ACT = {
    "dim_model": 32,
    "n_heads": 2,
    "dim_feedforward": 32,
    "n_encoder_layers": 1,
    "n_decoder_layers": 1,
    "n_vae_encoder_layers": 1,
    "latent_dim": 8,
    "chunk_size": 8,
    "n_action_steps": 4,
    "pretrained_backbone_weights": None,
}
DIFFUSION = {
    "n_obs_steps": 2,
    "horizon": 8,
    "n_action_steps": 4,
    "down_dims": (16, 32),
    "diffusion_step_embed_dim": 16,
    "num_train_timesteps": 4,
    "num_inference_steps": 2,
    "n_groups": 4,
    "spatial_softmax_num_keypoints": 4,
    "crop_shape": None,
    "pretrained_backbone_weights": None,
}

CALLED = (
    ("lerobot.configs.policies", "PreTrainedConfig.from_pretrained"),
    ("lerobot.policies.pretrained", "PreTrainedPolicy.from_pretrained"),
    ("lerobot.policies", "get_policy_class"),
    ("lerobot.policies", "make_pre_post_processors"),
    ("lerobot.policies.utils", "prepare_observation_for_inference"),
    ("lerobot.utils.import_utils", "register_third_party_plugins"),
)


def save(folder: Path, kind: str, config: Mapping[str, object], scaled: bool = True) -> Path:
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies import get_policy_class, make_pre_post_processors
    from lerobot.policies.factory import make_policy_config

    pictures = ("observation.images.image", "observation.images.image2")
    inputs = {key: PolicyFeature(FeatureType.VISUAL, (3, SIZE, SIZE)) for key in pictures}
    inputs["observation.state"] = PolicyFeature(FeatureType.STATE, (8,))
    outputs = {"action": PolicyFeature(FeatureType.ACTION, (7,))}
    stats = {key: _stats((3, 1, 1)) for key in pictures}
    stats |= {"observation.state": _stats((8,)), "action": _stats((7,))}
    torch.manual_seed(0)
    made = make_policy_config(
        kind, input_features=inputs, output_features=outputs, device="cpu", **config
    )
    model = get_policy_class(kind)(made)
    for part in (model, *make_pre_post_processors(made, dataset_stats=stats if scaled else None)):
        part.save_pretrained(folder)
    return folder


def _stats(shape: tuple[int, ...]) -> dict[str, object]:
    import torch

    ramp = torch.linspace(0.1, 0.5, int(np.prod(shape))).reshape(shape)
    return {"mean": ramp, "std": ramp + 0.2, "min": -1.0 + 0.0 * ramp, "max": 1.0 + 0.0 * ramp}


def make(folder: Path, name: str = "lerobot", **arguments: str) -> LeRobotPolicy:
    settings = PolicySettings(checkpoint=read_checkpoint(str(folder)))
    made = cast("Respecified", resolve(name, arguments, settings=settings))
    return cast("LeRobotPolicy", made._policy)


@pytest.fixture(scope="module")
def act(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("act"), "act", ACT)


@pytest.mark.parametrize("module,name", CALLED)
def test_the_stand_in_is_called_as_the_real_library_is(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parameters() -> list[tuple[str, object]]:
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        signature = inspect.signature(cast("Callable[..., object]", found))
        return [(p.name, p.kind) for p in signature.parameters.values()]

    real = parameters()
    loaded = dict(sys.modules)
    with monkeypatch.context() as context:
        stand_in(context)
        if module == "lerobot.policies.pretrained":  # one module there
            sys.modules[module] = importlib.import_module("lerobot.policies.models")
        assert str(SITE) in str(importlib.import_module("lerobot").__file__)
        fake = parameters()
        forget()
    sys.modules.update(loaded)
    assert fake == real


def test_a_chunk_is_what_lerobots_own_steps_give(act: Path) -> None:
    import torch
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies import get_policy_class, make_pre_post_processors
    from lerobot.policies.utils import prepare_observation_for_inference

    policy = make(act)
    plain = probe_observation(policy.profile)
    found = policy.act(plain)

    config = PreTrainedConfig.from_pretrained(act)
    config.device = "cpu"
    model = get_policy_class("act").from_pretrained(act, config=config)
    before, after = make_pre_post_processors(config, str(act))
    sent = payload(policy.profile, plain)
    task = sent.pop("task")
    frame = prepare_observation_for_inference(sent, torch.device("cpu"), task, "")
    expected = after(model.predict_action_chunk(before(frame)))[0].numpy()
    np.testing.assert_array_equal(found, expected)
    assert found.shape == (8, 7)
    assert (policy.spec.chunk, policy.spec.replan) == (8, 4)


def test_one_step_after_another_is_the_chunk(act: Path) -> None:
    chunks, steps = make(act), make(act, mode="step")
    plain = probe_observation(chunks.profile)
    chunk = chunks.act(plain)
    steps.reset(EPISODE, 0)
    found = np.concatenate([steps.act(plain) for _ in range(4)])
    np.testing.assert_array_equal(found, chunk[:4])


@pytest.mark.parametrize("mode", ["chunk", "step"])
def test_act_keeps_the_contract(act: Path, mode: str) -> None:
    policy = make(act, mode=mode)
    remarks = check_policy(policy, probe_observation(policy.profile), EPISODE)
    # It draws nothing, so that no seed makes a difference.
    assert all("two seeds gave the same" in remark for remark in remarks)


def test_diffusion_sees_every_step_and_draws_from_the_rollouts_seed(tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    policy = make(save(tmp_path, "diffusion", DIFFUSION))
    assert (policy.spec.chunk, policy.spec.replan, policy.spec.stateless) == (1, 1, False)
    assert check_policy(policy, probe_observation(policy.profile), EPISODE) == []
    policy.reset(EPISODE, 0)
    plain = probe_observation(policy.profile)
    dark = {camera: picture // 8 for camera, picture in plain.images.items()}
    for step in range(3):
        policy.act(replace(plain, step=step))
    policy.act(replace(plain, step=3, images=dark))
    queue = policy._loaded.model._queues["observation.images"]  # type: ignore[attr-defined]
    assert len(queue) == 2
    assert float(queue[0].mean()) > float(queue[1].mean())


def test_sessions_share_parameters_and_no_queue(tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    policy = make(save(tmp_path, "diffusion", DIFFUSION))
    other = policy.session()  # type: ignore[attr-defined]
    pairs = zip(policy._loaded.model.parameters(), other._loaded.model.parameters(), strict=True)
    assert all(mine is theirs for mine, theirs in pairs)
    policy.reset(EPISODE, 0)
    other.reset(EPISODE, 0)
    policy.act(probe_observation(policy.profile))
    assert not other._loaded.model._queues["observation.images"]


def test_weights_and_statistics_that_are_missing_are_refused(tmp_path: Path) -> None:
    safetensors = importlib.import_module("safetensors.torch")
    folder = save(tmp_path / "whole", "act", ACT)
    weights = safetensors.load_file(folder / "model.safetensors")
    weights.pop("model.action_head.bias")
    safetensors.save_file(weights, folder / "model.safetensors")
    with pytest.raises(UsageError, match=r"action_head\.bias"):
        make(folder)
    assert make(folder, strict="false").spec.chunk == 8
    with pytest.raises(UsageError, match="is scaled by MEAN_STD"):
        make(save(tmp_path / "plain", "act", ACT, scaled=False))
