"""``check_policy``: shows a policy's author that it keeps the contract, without a simulator."""

from __future__ import annotations

import copy
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.check_reading import reading
from pytest_vla_shift.policies.check_repeating import SURVIVES, why_it_differs
from pytest_vla_shift.policies.check_sharing import DECISIONS, decide, sharing_problems
from pytest_vla_shift.policies.guard import begin, spec_problems
from pytest_vla_shift.policies.protocol import Policy, PolicySpec
from pytest_vla_shift.protocol.errors import InfrastructureError
from pytest_vla_shift.protocol.identity import stable_seed
from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

if TYPE_CHECKING:
    from numpy.typing import NDArray

SLOW_S = 1.0
"""Decisions that take longer are remarked on."""


def check_policy(
    policy: Policy, observation: Observation, info: EpisodeInfo, *, seed: int = 0
) -> list[str]:
    """Check a policy on one observation, in the manner of gymnasium's ``check_env``.

    That its spec is sane and stands still; that it resets, answers with actions that can be
    executed, leaves the observation as it was, and closes; and that two rollouts with one seed,
    with a rollout of another seed between them, get the same answers: if not, it carries state
    across ``reset``, or is random without a seed. Of one that is not seeded, the former breaks the
    contract where sessions or copies of it tell them apart, and else is a remark. Where it says
    that it can serve several rollouts at once (``stateless``, ``session``, ``batch``), that their
    answers do not depend on each other. That one which says it reads no instruction does not. The
    policy is closed afterwards.

    Args:
        policy: the policy.
        observation: one that fits its spec: its cameras, and privileged state if it asks.
        info: what it is told at reset.
        seed: the seed of the two equal rollouts.

    Returns:
        Remarks that break nothing: answers that a seed does not decide, an instruction or a picture
        that makes no difference, answers that depend on earlier observations of which it is shown a
        part, and decisions that take long.

    Raises:
        AssertionError: the contract is broken; the message says how.
        ValueError: the observation is not one for this policy.
    """
    missing = [
        m for m in ("spec", "unsupported", "reset", "act", "close") if not hasattr(policy, m)
    ]
    _require(not missing, f"{type(policy).__name__} has no {', '.join(missing)}")
    spec = policy.spec
    _require(isinstance(spec, PolicySpec), f"spec is a {type(spec).__name__}, not a PolicySpec")
    problems = spec_problems(spec)
    _require(not problems, f"the spec declares what cannot be: {'; '.join(problems)}")
    _check_task(policy, info)
    seen = _for_policy(spec, observation)
    first = _rollout(policy, seen, info, seed)
    other = _rollout(policy, seen, info, seed + 1)
    started = time.perf_counter()
    again = _rollout(policy, seen, info, seed)
    each_s = (time.perf_counter() - started) / DECISIONS
    _require(policy.spec == spec, "the spec changed: it is part of every key and must stand still")
    remarks = _remarks(
        spec,
        (first, other, again),
        lambda: why_it_differs(policy, seen, lambda twin, shown: _rollout(twin, shown, info, seed)),
    )
    try:
        with _global_seed(seed):
            problems = sharing_problems(policy, seen, info, lambda: _seed_all(seed))
            found = reading(policy, seen, info, lambda: _seed_all(seed))
    except InfrastructureError as error:
        raise AssertionError(str(error)) from error
    problems = [*problems, *found.problems]
    _require(not problems, "; ".join(problems))
    policy.close()
    return [*remarks, *found.remarks, *_slow(spec, info, each_s)]


def _require(condition: bool, message: str) -> None:
    # Not an assert statement: the checker must check under python -O, too.
    if not condition:
        raise AssertionError(message)


def _check_task(policy: Policy, info: EpisodeInfo) -> None:
    reason = policy.unsupported(info.episode.task_suite, info.episode.task)
    _require(
        reason is None or isinstance(reason, str),
        f"unsupported must return a reason or None, not {reason!r}",
    )
    _require(reason is None, f"the policy does not support the task of this check: {reason}")


def _for_policy(spec: PolicySpec, observation: Observation) -> Observation:
    """The part of ``observation`` that a rollout would hand over."""
    absent = [camera for camera in spec.cameras if camera not in observation.images]
    if absent:
        raise ValueError(f"the observation lacks the policy's cameras: {', '.join(absent)}")
    if spec.privileged and observation.privileged is None:
        raise ValueError("the policy asks for privileged state, the observation has none")
    return replace(
        observation,
        images={camera: observation.images[camera] for camera in spec.cameras},
        privileged=observation.privileged if spec.privileged else None,
    )


def _rollout(
    policy: Policy, observation: Observation, info: EpisodeInfo, seed: int
) -> NDArray[np.float64]:
    """The answers of ``DECISIONS`` decisions, one after the other."""
    chunks: list[NDArray[np.float64]] = []
    with _global_seed(seed):
        try:
            begin(policy, info, seed)
            for decision in range(DECISIONS):
                given = replace(observation, step=observation.step + decision * policy.spec.replan)
                shown = copy.deepcopy(given)
                chunks.append(decide(policy, shown, stable_seed("decision", seed, decision)))
                changed = _changed(given, shown)
                _require(not changed, f"act changed the observation: {', '.join(changed)}")
        except InfrastructureError as error:
            raise AssertionError(str(error)) from error
    return np.concatenate(chunks)


def _changed(given: Observation, shown: Observation) -> list[str]:
    """Names of what differs between an observation and the copy that the policy was shown."""
    before, after = _arrays(given), _arrays(shown)
    names = sorted(before.keys() ^ after.keys())
    names += [
        k
        for k in before.keys() & after.keys()
        if not np.array_equal(np.asarray(before[k]), np.asarray(after[k]))
    ]
    return names


def _arrays(observation: Observation) -> dict[str, object]:
    """Everything in an observation that could be written to, by name."""
    parts: dict[str, Mapping[str, object]] = {
        "images": observation.images,
        "proprio": observation.proprio,
    }
    if observation.privileged is not None:
        parts["positions"] = observation.privileged.positions
        parts["quaternions"] = observation.privileged.quaternions
        parts["joints"] = observation.privileged.joints
    return {f"{part}[{key}]": value for part, m in parts.items() for key, value in m.items()}


def _remarks(
    spec: PolicySpec,
    rollouts: tuple[NDArray[np.float64], ...],
    why: Callable[[], str],
) -> list[str]:
    first, other, again = rollouts
    same = np.array_equal(first, again)
    if spec.seeded:
        _require(
            same,
            "seeded, yet the same seed gave other actions: state survives reset, or randomness"
            " comes from somewhere else",
        )
        if np.array_equal(first, other):
            return ["seeded, yet two seeds gave the same actions here"]
        return []
    if same:
        return []
    said = why()
    _require(said is not SURVIVES, said)
    return [said]


def _slow(spec: PolicySpec, info: EpisodeInfo, each_s: float) -> list[str]:
    if each_s < SLOW_S:
        return []
    rollout_min = each_s * info.horizon / spec.replan / 60.0
    return [
        f"a decision takes {each_s:.1f} s, and with replan {spec.replan} a rollout of"
        f" {info.horizon} steps {rollout_min:.1f} min of them"
    ]


@contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    """Python's, NumPy's and, where loaded, torch's global generators, as a rollout seeds them."""
    python, numpy = random.getstate(), np.random.get_state()
    with ExitStack() as stack:
        torch = sys.modules.get("torch")
        if torch is not None:
            stack.enter_context(torch.random.fork_rng())
        _seed_all(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def _seed_all(seed: int) -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
