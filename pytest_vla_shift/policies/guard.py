"""The border between a policy and everything else: what comes back is checked before it is used.

Whatever is wrong here is the policy's code at fault, not its skill: a :class:`PolicyError`, which
takes the pair out of every rate.
"""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

import numpy as np

from pytest_vla_shift.protocol.errors import InfrastructureError, PolicyError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import (
        BatchPolicy,
        Policy,
        PolicySpec,
        SessionPolicy,
    )
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation


def spec_problems(spec: PolicySpec) -> list[str]:
    """What a spec declares that cannot be, a phrase each; empty for a sane one."""
    problems: list[str] = []
    for name in ("name", "revision"):
        if not (isinstance(getattr(spec, name), str) and getattr(spec, name)):
            problems.append(f"{name} must be text that is not empty")
    if isinstance(spec.cameras, str) or not all(isinstance(c, str) for c in spec.cameras):
        problems.append(f"cameras must be a tuple of names, not {spec.cameras!r}")
    elif len(set(spec.cameras)) != len(spec.cameras):
        problems.append(f"a camera twice in {spec.cameras}")
    counts = {name: getattr(spec, name) for name in ("action_dim", "chunk", "replan", "batch")}
    wrong = [n for n, v in counts.items() if isinstance(v, bool) or not isinstance(v, int) or v < 1]
    problems += [f"{n} must be a whole number from 1, not {counts[n]!r}" for n in wrong]
    if not wrong and spec.replan > spec.chunk:
        problems.append(f"replan {spec.replan} is more than its chunk {spec.chunk}")
    for name in ("privileged", "seeded", "language", "stateless", "seedable"):
        if not isinstance(getattr(spec, name), bool):
            problems.append(f"{name} must be True or False")
    if not isinstance(spec.checkpoint, str):
        problems.append("checkpoint must be text")
    if spec.seeded is True and spec.seedable is False:
        problems.append("what is seeded is seedable")
    if not wrong and spec.batch > 1 and not spec.stateless:
        problems.append("a policy that takes batches must be stateless")
    return problems


def new_session(policy: Policy, given: list[Policy]) -> Policy:
    """Another session of ``policy``, added to ``given``, those that it gave before.

    Raises:
        UsageError: it is the policy itself, or one that was given before: two rollouts would share
            its state.
    """
    session = cast("SessionPolicy", policy).session()
    if session is policy or any(session is other for other in given):
        raise UsageError(
            f"policy {policy.spec.name!r}: session() must give another policy at every call, with"
            " state of its own, and gave one twice"
        )
    given.append(session)
    return session


def begin(policy: Policy, episode: EpisodeInfo, seed: int) -> None:
    """Reset ``policy`` for a rollout.

    Raises:
        PolicyError: it raised. An infrastructure error that it raises itself passes unchanged.
    """
    try:
        policy.reset(episode, seed)
    except InfrastructureError:
        raise
    except (Exception, SystemExit) as error:
        raise PolicyError(
            f"policy {policy.spec.name!r} raised in reset: {_quote(error)}"
        ) from error


def ask(policy: Policy, observation: Observation) -> NDArray[np.float64]:
    """The next action chunk of ``policy``, checked: (T, action_dim) float64.

    Raises:
        PolicyError: it raised, or its answer cannot be executed.
    """
    try:
        raw: object = policy.act(observation)
    except InfrastructureError:
        raise
    except (Exception, SystemExit) as error:
        raise PolicyError(
            f"policy {policy.spec.name!r} raised at step {observation.step}: {_quote(error)}"
        ) from error
    return checked_actions(policy.spec.name, policy.spec, raw)


def ask_all(
    policy: BatchPolicy, observations: Sequence[Observation], seeds: Sequence[int]
) -> list[NDArray[np.float64]]:
    """An action chunk for each of at most ``spec.batch`` observations, checked.

    The call is filled up to ``spec.batch`` with the first observation.

    Raises:
        PolicyError: it raised, answered with another number of chunks or with one that cannot be
            executed, or drew from global generators, which belong to no rollout here.
    """
    spec = policy.spec
    missing = spec.batch - len(observations)
    filled = [*observations, *[observations[0]] * missing]
    before = drawn_from()
    try:
        raw: object = policy.act_batch(filled, [*seeds, *[seeds[0]] * missing])
    except InfrastructureError:
        raise
    except (Exception, SystemExit) as error:
        raise PolicyError(f"policy {spec.name!r} raised in act_batch: {_quote(error)}") from error
    if drawn_from() != before:
        raise PolicyError(
            f"policy {spec.name!r} drew from global generators in act_batch, where several rollouts"
            " share them: take all randomness from seeds"
        )
    try:
        chunks = list(raw)  # type: ignore[call-overload]  # whatever it is
    except TypeError:
        raise PolicyError(
            f"policy {spec.name!r} returned a {type(raw).__name__} from act_batch, not chunks"
        ) from None
    if len(chunks) != spec.batch:
        raise PolicyError(
            f"policy {spec.name!r} returned {len(chunks)} chunks for {spec.batch} observations"
        )
    return [checked_actions(spec.name, spec, c) for c in chunks[: len(observations)]]


def drawn_from() -> tuple[object, ...]:
    """The states of the process's global generators, to compare: python's, NumPy's and torch's."""
    torch = sys.modules.get("torch")
    algorithm, keys, *rest = np.random.get_state(legacy=True)
    states: list[object] = [random.getstate(), algorithm, keys.tobytes(), *rest]  # type: ignore[union-attr]
    if torch is not None:
        states.append(torch.get_rng_state().numpy().tobytes())
        if torch.cuda.is_initialized():
            states += [state.numpy().tobytes() for state in torch.cuda.get_rng_state_all()]
    return tuple(states)


def checked_actions(policy_name: str, spec: PolicySpec, raw: object) -> NDArray[np.float64]:
    """``raw`` as a new C-contiguous (T, action_dim) float64 array.

    Anything that NumPy can read as real numbers is taken, a torch tensor on the CPU as well.
    Values beyond -1 ... 1 pass: what they mean is the simulator's to say, and it clips.

    Raises:
        PolicyError: the answer is None, not numeric, of the wrong shape, empty, longer than
            ``spec.chunk``, or has a NaN or an infinity; the message says which.
    """

    def refusal(what: str) -> PolicyError:
        expected = f"({'T' if spec.chunk > 1 else '1'}, {spec.action_dim})"
        limit = f" with T at most {spec.chunk}" if spec.chunk > 1 else ""
        return PolicyError(f"policy {policy_name!r} {what}; expected {expected}{limit}")

    if raw is None:
        raise refusal("returned None")
    try:
        array = np.asarray(raw)
    except Exception as error:
        raise refusal(
            f"returned a {type(raw).__name__} that is no array: {_quote(error)}"
        ) from error
    if array.dtype.kind not in "fiu":
        raise refusal(f"returned {type(raw).__name__} of type {array.dtype}, which is not numeric")
    if array.ndim != 2:
        hint = " (put a single action into a chunk of one: actions[None])" * (array.ndim == 1)
        raise refusal(f"returned actions of shape {array.shape}{hint}")
    length, width = array.shape
    if length == 0:
        raise refusal("returned an empty chunk")
    if width != spec.action_dim:
        raise refusal(f"returned actions of width {width}")
    if length > spec.chunk:
        raise refusal(f"returned {length} actions, more than the chunk that it declares")
    actions = np.array(array, dtype=np.float64, order="C")
    bad = np.argwhere(~np.isfinite(actions))
    if bad.size:
        step, index = (int(i) for i in bad[0])
        value = actions[step, index]
        raise refusal(f"returned {value} in action {step}, component {index}, of its chunk")
    return actions


def _quote(error: BaseException) -> str:
    """``ValueError: message (policy.py:12, in act)``: the innermost line, without its folder."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return text
    last = frames[-1]
    return f"{text} ({PurePath(last.filename).name}:{last.lineno}, in {last.name})"
