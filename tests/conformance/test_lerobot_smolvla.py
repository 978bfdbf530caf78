"""The real SmolVLA, small and random, through our adapter: where LeRobot's extra is installed."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.policies.check import check_policy
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.randomness import RolloutRandomness
from tests.conformance.test_lerobot import make, save

for package in ("lerobot", "torch", "transformers", "tokenizers", "num2words"):
    pytest.importorskip(package)

SPECIAL = {
    "image_token": "<image>",
    "fake_image_token": "<fake_token_around_image>",
    "global_image_token": "<global-img>",
    "end_of_utterance_token": "<end_of_utterance>",
}


def language_model(folder: Path) -> Path:
    """As much of a SmolVLM as SmolVLA's constructor reads: configuration, words, processors."""
    tokenizers = importlib.import_module("tokenizers")
    transformers = importlib.import_module("transformers")
    sentence = f"{EPISODE.instruction} put the green mug on the tall shelf"
    words = dict.fromkeys(["<unk>", "<pad>", *SPECIAL.values(), *sentence.split()])
    vocabulary = {word: number for number, word in enumerate(words)}
    words_alone = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    words_alone.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words_alone,
        unk_token="<unk>",
        pad_token="<pad>",
        extra_special_tokens=SPECIAL,
    ).save_pretrained(folder)
    text = {
        "model_type": "llama",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "vocab_size": 64,
        "pad_token_id": 1,
    }
    vision = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 64,
        "patch_size": 16,
    }
    transformers.SmolVLMConfig(
        text_config=text, vision_config=vision, scale_factor=2, image_token_id=2
    ).save_pretrained(folder)
    processor = {"processor_class": "SmolVLMProcessor", "image_seq_len": 4}
    pictures = {
        "image_processor_type": "SmolVLMImageProcessor",
        "size": {"longest_edge": 64},
        "max_image_size": {"longest_edge": 64},
    }
    (folder / "processor_config.json").write_text(json.dumps(processor))
    (folder / "preprocessor_config.json").write_text(json.dumps(pictures))
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = {
        "vlm_model_name": str(language_model(tmp_path_factory.mktemp("vlm"))),
        "chunk_size": 8,
        "n_action_steps": 4,
        "resize_imgs_with_padding": (64, 64),
        "num_vlm_layers": 2,
        "num_steps": 3,
        "expert_width_multiplier": 0.5,
        "self_attn_every_n_layers": 2,
    }
    return save(tmp_path_factory.mktemp("smolvla"), "smolvla", config)


def test_it_reads_pictures_and_words_and_draws_from_the_rollouts_seed(checkpoint: Path) -> None:
    policy = make(checkpoint, name="smolvla")
    assert (policy.spec.chunk, policy.spec.replan, policy.spec.language) == (8, 4, True)
    assert all(image.size is None for image in policy.profile.images)  # it resizes by itself
    assert check_policy(policy, probe_observation(policy.profile), EPISODE) == []


def test_one_step_after_another_is_the_chunk(checkpoint: Path) -> None:
    chunks, steps = make(checkpoint), make(checkpoint, mode="step")
    plain = probe_observation(chunks.profile)
    with RolloutRandomness(5).swapped_in():
        chunk = chunks.act(plain)
    steps.reset(EPISODE, 0)
    found, mine = [], RolloutRandomness(5)
    for _ in range(4):
        with mine.swapped_in():
            found.append(steps.act(plain))
    np.testing.assert_array_equal(np.concatenate(found), chunk[:4])
