"""A plain function as a policy: ``fn(observation) -> actions``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.observation import Observation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import EpisodeInfo

ActionFunction = Callable[..., "NDArray[np.floating]"]
"""Called with an :class:`Observation` and perhaps keyword arguments of its own."""

DEFAULT_CAMERAS = ("agentview", "robot0_eye_in_hand")
"""Both of LIBERO's. A function that says nothing is assumed to look."""

OPTIONS = ("cameras", "privileged", "action_dim", "chunk", "replan", "seeded", "language")


class FunctionPolicy:
    """A function without memory, as a policy.

    The least that works is a function of one argument called ``observation`` (or ``obs``) that
    returns one action as a (1, 7) array. What is otherwise may be said by attributes of the
    function, or by ``--vla-policy-arg`` of the same name, which wins::

        def policy(observation):
            return model(observation.images["agentview"], observation.instruction)

        policy.cameras = ("agentview",)  # default: both of LIBERO's
        policy.chunk = 16  # the most actions that it returns; default 1
        policy.replan = 8  # how many are executed before it is asked again; default chunk

    ``action_dim`` (7), ``privileged`` (False), ``seeded`` (False) and ``language`` (True: it reads
    the instruction) work the same way.
    ``seeded`` is a promise that all its randomness comes from Python's, NumPy's or torch's global
    generators, which a rollout seeds around it. A function is not told about episodes: one that
    keeps state from call to call carries it from one rollout into the next, and must be a class
    with ``reset`` instead.

    Args:
        name: what the user asked for.
        revision: digest of the function's source.
        function: the function.
        options: any of ``OPTIONS``, as text or as values.
        arguments: passed on as keyword arguments at every call.

    Raises:
        UsageError: an option has no sensible value.
    """

    def __init__(
        self,
        name: str,
        revision: str,
        function: ActionFunction,
        options: Mapping[str, object],
        arguments: Mapping[str, object],
    ) -> None:
        self._function = function
        self._arguments = dict(arguments)
        chosen = {key: getattr(function, key) for key in OPTIONS if hasattr(function, key)}
        chosen.update(options)
        chunk = _count(name, "chunk", chosen.get("chunk", 1))
        self._spec = PolicySpec(
            name=name,
            revision=revision,
            cameras=_names(name, chosen.get("cameras", DEFAULT_CAMERAS)),
            privileged=_flag(name, "privileged", chosen.get("privileged", False)),
            action_dim=_count(name, "action_dim", chosen.get("action_dim", 7)),
            chunk=chunk,
            replan=_count(name, "replan", chosen.get("replan", chunk)),
            seeded=_flag(name, "seeded", chosen.get("seeded", False)),
            language=_flag(name, "language", chosen.get("language", True)),
            stateless=True,
        )
        if self._spec.replan > chunk:
            raise UsageError(
                f"policy {name!r}: replan {self._spec.replan} is more than its chunk {chunk}"
            )

    @property
    def spec(self) -> PolicySpec:
        """As declared."""
        return self._spec

    def unsupported(self, task_suite: str, task: str) -> str | None:  # noqa: ARG002
        """None: a function says nothing about tasks."""
        return None

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        """Nothing: the function has no memory."""

    def act(self, observation: Observation) -> NDArray[np.floating]:
        """What the function returns."""
        return self._function(observation, **self._arguments)

    def close(self) -> None:
        """Nothing to free."""


def _count(policy: str, option: str, value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(
            f"policy {policy!r}: {option} must be a whole number from 1, not {value!r}"
        )
    return value


def _flag(policy: str, option: str, value: object) -> bool:
    if isinstance(value, str):
        value = {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
    if not isinstance(value, bool):
        raise UsageError(f"policy {policy!r}: {option} must be true or false, not {value!r}")
    return value


def _names(policy: str, value: object) -> tuple[str, ...]:
    """``"a,b"``, ``("a", "b")`` or nothing."""
    if isinstance(value, str):
        value = tuple(part.strip() for part in value.split(",") if part.strip())
    if not isinstance(value, tuple | list) or not all(isinstance(v, str) for v in value):
        raise UsageError(f"policy {policy!r}: cameras must be names, not {value!r}")
    return tuple(value)
