"""From ``--vla-policy`` and its arguments to a policy that is ready to be asked."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pytest_vla_shift.policies.callables import OPTIONS, ActionFunction, FunctionPolicy
from pytest_vla_shift.policies.guard import spec_problems
from pytest_vla_shift.policies.randomness import MAKING_SEED, RolloutRandomness
from pytest_vla_shift.policies.respecified import Respecified
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.source import source_digest
from pytest_vla_shift.protocol import registry
from pytest_vla_shift.protocol.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.protocol import Policy

_METHODS = ("unsupported", "reset", "act", "close")


def resolve(
    name: str,
    args: Mapping[str, str],
    *,
    paths: Sequence[Path] = (),
    settings: PolicySettings | None = None,
    ready: Callable[[], None] = lambda: None,
) -> Policy:
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
        settings: how it is reached. What makes the policy, or the function, gets all of it as
            keyword argument ``settings`` if it has one, and else the URL as ``url``, the token as
            ``token`` and the checkpoint's path as ``checkpoint``. None of them is part of its name,
            its revision or its arguments; the checkpoint's label and digest go into its spec, and
            so does ``replan``.
        ready: called before a policy is made that is given ``url``, when all that can be checked
            without making it has been: starts the server.

    Raises:
        UsageError: unknown name, failing import, arguments that do not fit, a URL that is given
            and not taken or needed and not given, or not a policy.
    """
    settings = settings or PolicySettings()
    own = ":" in name
    if own:
        for path in reversed([Path.cwd(), *paths]):
            if str(path) not in sys.path:
                sys.path.insert(0, str(path))
    with RolloutRandomness(MAKING_SEED).swapped_in():
        target = _load(name)
    # Anew: what was imported just now may be torch, whose generators are swapped only from here on.
    with RolloutRandomness(MAKING_SEED).swapped_in():
        made = _make(name, target, _Given(args, settings, ready))
    source = own and not isinstance(made, FunctionPolicy)
    made = Respecified.of(
        made,
        name=name if source else None,
        source=source_digest(name, target) if source else None,
        settings=settings,
    )
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


@dataclass(frozen=True, slots=True)
class _Given:
    """What a policy is made with."""

    args: Mapping[str, str]
    settings: PolicySettings
    ready: Callable[[], None]

    def __str__(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.args.items())

    def keywords(self, name: str, takes: Callable[..., object]) -> dict[str, object]:
        """``args``, and what of the settings ``takes`` has a parameter for.

        Raises:
            UsageError: something is given that it has no parameter for, or twice, or not given
                though it must be.
        """
        settings = self.settings
        if takes_keyword(takes, "settings", explicitly=True):
            if "settings" in self.args:
                raise UsageError(f"policy {name!r} takes no argument called settings")
            return {**self.args, "settings": settings}
        if settings.url is None and "url" not in self.args and _needs_url(takes):
            raise UsageError(
                f"policy {name!r} is asked at a server: say where with --vla-policy-url"
            )
        keywords: dict[str, object] = dict(self.args)
        for key, option, value in (
            ("url", "--vla-policy-url", settings.url),
            ("token", "--vla-policy-token", settings.token),
        ):
            if value is None:
                continue
            if key in self.args:
                raise UsageError(f"{key} is given twice: {option} and --vla-policy-arg={key}")
            if not takes_keyword(takes, key):
                raise UsageError(
                    f"policy {name!r} takes no {key}, so {option} would change nothing."
                    f" It takes {_parameters(takes)}"
                )
            keywords[key] = value
        path = None if settings.checkpoint is None else settings.checkpoint.path
        # Without such a parameter it is a label: the user says what the policy loads by itself.
        if path is not None and takes_keyword(takes, "checkpoint", explicitly=True):
            if "checkpoint" in self.args:
                raise UsageError(
                    "checkpoint is given twice: --vla-checkpoint and --vla-policy-arg=checkpoint"
                )
            keywords["checkpoint"] = str(path)
        return keywords

    @property
    def bare(self) -> bool:
        """Whether there is nothing to make a policy with."""
        settings = self.settings
        return not self.args and settings.url is None and settings.token is None


def _make(name: str, target: object, given: _Given) -> Policy:
    if isinstance(target, type):
        return _as_policy(name, _call(name, target, given), None)
    if _is_policy(target):
        if not given.bare:
            what = str(given) or "--vla-policy-url or --vla-policy-token"
            raise UsageError(f"policy {name!r} is made already and takes no arguments: {what}")
        return cast("Policy", target)
    if not callable(target):
        raise UsageError(
            f"policy {name!r} is of type {type(target).__name__}: neither a policy nor callable"
        )
    if _takes_observation(name, target):
        return _as_policy(name, target, given)
    return _as_policy(name, _call(name, target, given), None)


def _call(name: str, make: Callable[..., object], given: _Given) -> object:
    keywords = given.keywords(name, make)
    try:
        inspect.signature(make).bind(**keywords)
    except TypeError as error:
        words = f" with {given}" if given.args else ""
        raise UsageError(
            f"policy {name!r} cannot be made{words}: {error}. It takes {_parameters(make)}"
        ) from error
    except ValueError:
        pass  # no signature to be had: the call itself will tell
    given.ready()
    try:
        return make(**keywords)
    except (UsageError, InfrastructureError, KeyboardInterrupt):
        raise
    except Exception as error:
        said = given.settings.redacted(f"{type(error).__name__}: {error}")
        raise UsageError(f"policy {name!r} cannot be made: {said}") from error


def _as_policy(name: str, made: object, given: _Given | None) -> Policy:
    if _is_policy(made):
        return cast("Policy", made)
    if callable(made) and _takes_observation(name, made):
        function = cast(ActionFunction, made)
        keywords = {} if given is None else given.keywords(name, function)
        options = {key: value for key, value in keywords.items() if key in OPTIONS}
        rest = {key: value for key, value in keywords.items() if key not in OPTIONS}
        try:
            inspect.signature(function).bind(None, **rest)
        except TypeError as error:
            words = ", ".join(f"{key}={value}" for key, value in rest.items())
            raise UsageError(
                f"policy {name!r} cannot be called with an observation and"
                f" {words or 'nothing else'}: {error}."
                f" Options of every function: {', '.join(OPTIONS)}"
            ) from error
        if given is not None:
            given.ready()
        return FunctionPolicy(name, source_digest(name, function), function, options, rest)
    missing = [m for m in _METHODS if not callable(getattr(made, m, None))]
    missing += [] if hasattr(made, "spec") else ["spec"]
    raise UsageError(
        f"policy {name!r} gives a {type(made).__name__}, which has no {', '.join(missing)};"
        " it needs spec, reset, act, unsupported and close, or to be a function of one"
        " argument called observation"
    )


def takes_keyword(takes: Callable[..., object], key: str, *, explicitly: bool = False) -> bool:
    """Whether the signature has a place for a keyword ``key``.

    One that takes any keyword, or shows no signature, has, unless asked for ``explicitly``.
    """
    try:
        parameters = inspect.signature(takes).parameters
    except (TypeError, ValueError):
        return not explicitly
    named = parameters.get(key)
    if named is not None and named.kind in (named.KEYWORD_ONLY, named.POSITIONAL_OR_KEYWORD):
        return True
    return not explicitly and any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _needs_url(takes: Callable[..., object]) -> bool:
    """Whether it has a parameter ``url`` without a default."""
    try:
        named = inspect.signature(takes).parameters.get("url")
    except (TypeError, ValueError):
        return False
    return named is not None and named.default is named.empty


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
    """What may be given by name, for people: ``file (needed), gain (1 if not given), chunk``."""
    parameters = inspect.signature(make).parameters.values()
    return ", ".join(filter(None, map(_in_words, parameters))) or "nothing"


def _in_words(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD:
        return "any other name"
    by_name = parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    if not by_name or parameter.name == "settings":
        return ""
    if parameter.default is parameter.empty:
        return f"{parameter.name} (needed)"
    if isinstance(parameter.default, str | int | float) and parameter.default != "":
        return f"{parameter.name} ({parameter.default} if not given)"
    return parameter.name
