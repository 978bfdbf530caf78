"""The weights in the package: what they must not exceed, and what they must know."""

from __future__ import annotations

import statistics
import time

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from pytest_vla_shift.policies import tiny_words
from pytest_vla_shift.policies.check import check_policy
from pytest_vla_shift.policies.tiny import TRAINED, Tiny, _path
from pytest_vla_shift.policies.tiny_network import Network
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.simulators.libero_stages import instruction_of
from tests.policies.observations import INFO
from tests.policies.test_tiny import rollout, seen


@pytest.fixture(scope="module")
def policy() -> Tiny:
    return Tiny()


def test_they_are_small(policy: Tiny) -> None:
    assert policy.parameters < 3_000_000
    assert _path(None).stat().st_size < 8_000_000


def test_they_say_where_they_are_from() -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(_path(None)), providers=["CPUExecutionProvider"])
    told = session.get_modelmeta().custom_metadata_map
    assert set(told) >= {"vocabulary", "data", "version"}
    assert all(told.values())


@pytest.mark.parametrize("temperature", ["0", "0.5"])
def test_they_keep_the_contract_and_every_input_matters(temperature: str) -> None:
    assert check_policy(Tiny(temperature), seen(), INFO) == []


@pytest.mark.parametrize("task_suite", TRAINED)
def test_they_know_every_word_of_the_tasks(task_suite: str) -> None:
    suite = catalog.find(task_suite)
    assert suite is not None
    vocabulary = Network(_path(None)).vocabulary
    for task in suite.tasks:
        assert set(tiny_words.words(instruction_of(task))) <= set(vocabulary)


def test_a_decision_takes_less_than_15_ms_of_cpu(policy: Tiny) -> None:
    shown = seen()
    policy.reset(INFO, 0)
    spent = []
    for _ in range(15):
        start = time.process_time()
        policy.act(shown)
        spent.append(time.process_time() - start)
    assert statistics.median(spent) < 0.015


def test_a_temperature_spreads_what_it_does(policy: Tiny) -> None:
    usual = rollout(policy)[:8, :6]
    sampled = Tiny("1")
    drawn = np.stack([rollout(sampled, seed=seed, decisions=1)[:, :6] for seed in range(64)])
    spread = drawn.std(axis=0)
    assert (spread > 0.0).all()
    inside = np.abs(usual) < 0.8  # where clipping takes nothing
    assert (np.abs(drawn.mean(axis=0) - usual) < spread).all(where=inside)
