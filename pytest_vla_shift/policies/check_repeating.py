"""The part of ``check_policy`` about rollouts that differ without a seed: chance, or memory?

Both look alike from outside: the same reset is followed by other answers. Twins tell them apart.
Policies in one state, with the global generators in one state, answer alike unless they draw from
somewhere else. Once they do, a rollout in between that changes the answers to the next one is
remembered: a policy's own generator, which goes on, is set back for that comparison.
"""

from __future__ import annotations

import copy
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, cast

import numpy as np

from pytest_vla_shift.policies.check_sharing import moved
from pytest_vla_shift.policies.guard import new_session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.protocol.observation import Observation

    Rollout = Callable[[Policy, Observation], NDArray[np.float64]]

SURVIVES = (
    "not seeded, and the same reset, with every generator in the same state, gave other actions"
    " after another rollout: state survives reset"
)
CHANCE = "not seeded, and the same seed gave other actions: its rollouts are not repeatable"
UNKNOWN = (
    f"{CHANCE}. Either it draws from somewhere, or state survives reset: it cannot be copied to"
    " tell which"
)
WARMS_UP = (
    f"{CHANCE}. It seems to draw nothing: its first rollout alone differs. Either that one compiles"
    " and warms up, or something of it survives reset"
)

MOST_OBJECTS = 200_000
"""That are looked through for generators."""


def why_it_differs(policy: Policy, observation: Observation, rollout: Rollout) -> str:
    """What explains that one unseeded policy gave different answers to one seed.

    Args:
        policy: is not asked, but its sessions or copies are.
        observation: one that fits it.
        rollout: asks a policy, reset with one seed and one state of the global generators.

    Returns:
        :data:`SURVIVES`, which breaks the contract; or a remark.
    """
    if getattr(policy, "keeps_time", False):
        return UNKNOWN  # behind a server, whose state no copy of the client has
    try:
        with _twin(policy) as one:
            usual = rollout(one, observation)
        with _twin(policy) as two:
            if not np.array_equal(usual, rollout(two, observation)):
                return CHANCE
        with _twin(policy) as three:
            generators = _generators(three)
            if generators is None:
                return UNKNOWN
            states = [_state(generator) for generator in generators]
            rollout(three, moved(observation))
            for generator, state in zip(generators, states, strict=True):
                _restore(generator, state)
            if not np.array_equal(usual, rollout(three, observation)):
                return SURVIVES
    except Exception:  # a copy of locks, devices, too much memory, or one that does not work
        return UNKNOWN
    return CHANCE if generators else WARMS_UP


@contextmanager
def _twin(policy: Policy) -> Iterator[Policy]:
    """A policy as ``policy`` is: a session of it, which shares its weights, or a copy."""
    if not hasattr(policy, "session"):
        yield copy.deepcopy(policy)
        return
    session = new_session(policy, [])
    try:
        yield session
    finally:
        session.close()


def _generators(policy: Policy) -> list[object] | None:
    """Generators that it holds; None if it holds keys of jax, which are replaced, not set back."""
    found: list[object] = []
    waiting, seen = deque[object]([policy]), dict[int, object]()
    while waiting and len(seen) < MOST_OBJECTS:
        value = waiting.popleft()
        if id(value) in seen or isinstance(value, type | ModuleType | FunctionType | str | bytes):
            continue
        seen[id(value)] = value
        if _is_generator(value):
            found.append(value)
        elif _is_key(value):
            return None
        else:
            waiting.extend(_held(value))
    return found


def _held(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(value)
    if isinstance(value, MethodType):
        return [value.__self__]
    held = list(getattr(value, "__dict__", {}).values())
    slots = [s for kind in type(value).__mro__ for s in _names(kind.__dict__.get("__slots__", ()))]
    return held + [getattr(value, slot) for slot in slots if hasattr(value, slot)]


def _names(slots: object) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(cast("tuple[str, ...]", slots))


def _is_generator(value: object) -> bool:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Generator):
        return True
    return isinstance(value, random.Random | np.random.Generator | np.random.RandomState)


def _is_key(value: object) -> bool:
    if not type(value).__module__.startswith("jax"):
        return False
    return str(getattr(value, "dtype", "")).startswith(("key<", "uint32"))


def _state(generator: object) -> object:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return copy.deepcopy(generator.bit_generator.state)
    return generator.get_state()  # type: ignore[attr-defined]  # numpy's older one, or torch's


def _restore(generator: object, state: object) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(cast("tuple[object, ...]", state))
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = cast("dict[str, object]", state)
    else:
        generator.set_state(state)  # type: ignore[attr-defined]
