"""From ``--vla-policy`` and its arguments to a policy that is ready to be asked."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pytest_vla_shift.policies.callables import OPTIONS, ActionFunction, FunctionPolicy
from pytest_vla_shift.policies.guard import spec_problems
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.policies.source import source_digest
from pytest_vla_shift.protocol import registry
from pytest_vla_shift.protocol.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

_METHODS = ("unsupported", "reset", "act", "close")


def resolve(name: str, args: Mapping[str, str], *, paths: Sequence[Path] = ()) -> Policy:
    """The policy that ``name`` stands for, made with ``args``.

    ``name`` is an entry point of the group ``pytest_vla_shift.policies``, or ``module:attr``, where
    ``attr`` may be

    * a class, or a function that makes a policy: called with ``args`` as keyword arguments;
    * a policy, taken as it is;
    * a function of one argument called ``observation`` or ``obs``: see
      :class:`~pytest_vla_shift.policies.callables.FunctionPolicy`.

    A policy of ``module:attr`` is named so in its spec, and its revision gets the digest of the
    module's source, so that results from an edited file are never taken for the old ones. Files
    that the module reads (weights) are not seen: say those in a ``revision`` of your own.

    Args:
        name: what ``--vla-policy`` was given.
        args: what ``--vla-policy-arg`` was given.
        paths: where modules of ``module:attr`` may lie beside what is importable already, for
            example pytest's root. The working directory always is one. They stay on ``sys.path``,
            since such a module may import its neighbours later.

    Raises:
        UsageError: unknown name, failing import, arguments that do not fit, or not a policy.
    """
    own = ":" in name
    if own:
        for path in reversed([Path.cwd(), *paths]):
            if str(path) not in sys.path:
                sys.path.insert(0, str(path))
    target = _load(name)
    made = _make(name, target, args)
    if own and not isinstance(made, FunctionPolicy):
        made = _FromSource(made, name, source_digest(name, target))
    problems = spec_problems(made.spec)
    if problems:
        raise UsageError(f"policy {name!r} declares what cannot be: {'; '.join(problems)}")
    return made


def _load(name: str) -> object:
    try:
        return registry.load("policies", name)
    except (UsageError, KeyboardInterrupt):
        raise
    except BaseException as error:
        # A module may do anything at import: raise a SyntaxError, or exit.
        raise UsageError(
            f"policy {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def _make(name: str, target: object, args: Mapping[str, str]) -> Policy:
    if isinstance(target, type):
        return _as_policy(name, _call(name, target, args), {})
    if _is_policy(target):
        if args:
            raise UsageError(
                f"policy {name!r} is made already and takes no arguments: {_list(args)}"
            )
        return cast("Policy", target)
    if not callable(target):
        raise UsageError(
            f"policy {name!r} is of type {type(target).__name__}: neither a policy nor callable"
        )
    if _takes_observation(name, target):
        return _as_policy(name, target, args)
    return _as_policy(name, _call(name, target, args), {})


def _call(name: str, make: Callable[..., object], args: Mapping[str, str]) -> object:
    try:
        inspect.signature(make).bind(**args)
    except TypeError as error:
        given = f" with {_list(args)}" if args else ""
        raise UsageError(
            f"policy {name!r} cannot be made{given}: {error}. It takes {_parameters(make)}"
        ) from error
    except ValueError:
        pass  # no signature to be had: the call itself will tell
    try:
        return make(**args)
    except (UsageError, InfrastructureError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise UsageError(
            f"policy {name!r} cannot be made: {type(error).__name__}: {error}"
        ) from error


def _as_policy(name: str, made: object, args: Mapping[str, str]) -> Policy:
    if _is_policy(made):
        return cast("Policy", made)
    if callable(made) and _takes_observation(name, made):
        function = cast(ActionFunction, made)
        options = {key: value for key, value in args.items() if key in OPTIONS}
        rest = {key: value for key, value in args.items() if key not in OPTIONS}
        try:
            inspect.signature(function).bind(None, **rest)
        except TypeError as error:
            raise UsageError(
                f"policy {name!r} cannot be called with an observation and"
                f" {_list(rest) or 'nothing else'}: {error}."
                f" Options of every function: {', '.join(OPTIONS)}"
            ) from error
        return FunctionPolicy(name, source_digest(name, function), function, options, rest)
    missing = [m for m in ("spec", *_METHODS) if not hasattr(made, m)]
    raise UsageError(
        f"policy {name!r} gives a {type(made).__name__}, which has no {', '.join(missing)};"
        " it needs spec, reset, act, unsupported and close, or to be a function of one"
        " argument called observation"
    )


def _is_policy(value: object) -> bool:
    return hasattr(value, "spec") and all(callable(getattr(value, m, None)) for m in _METHODS)


def _takes_observation(name: str, function: Callable[..., object]) -> bool:
    """Whether the first argument is the observation: the name decides, since types are optional."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise UsageError(f"policy {name!r} has no signature to read: {error}") from error
    return (
        bool(parameters)
        and parameters[0].kind
        in (parameters[0].POSITIONAL_ONLY, parameters[0].POSITIONAL_OR_KEYWORD)
        and parameters[0].name.lstrip("_") in ("observation", "obs")
    )


def _parameters(make: Callable[..., object]) -> str:
    return ", ".join(str(p) for p in inspect.signature(make).parameters.values()) or "none"


def _list(args: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in args.items())


class _FromSource:
    """A user's policy, under the name that was asked for and with its source in its revision."""

    def __init__(self, policy: Policy, name: str, digest: str) -> None:
        self._policy = policy
        self._name = name
        self._digest = digest

    @property
    def spec(self) -> PolicySpec:
        spec = self._policy.spec
        if not isinstance(spec, PolicySpec):
            raise UsageError(
                f"policy {self._name!r}: spec is a {type(spec).__name__}, not a PolicySpec"
            )
        return replace(spec, name=self._name, revision=f"{spec.revision} {self._digest}".strip())

    def unsupported(self, task_suite: str, task: str) -> str | None:
        return self._policy.unsupported(task_suite, task)

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        self._policy.reset(episode, seed)

    def act(self, observation: Observation) -> NDArray[np.floating]:
        return self._policy.act(observation)

    def close(self) -> None:
        self._policy.close()
