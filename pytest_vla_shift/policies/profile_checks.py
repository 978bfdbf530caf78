"""Whether the parts of a profile go together, and whether its wire has a place for its names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.profile import Profile

GR00T_PREFIXES = ("video.", "state.", "action.")
"""Of the names of pictures, states and actions."""

ONE_ARRAY = {"openvla": "actions", "lerobot": "action", "vla-eval": None}
"""Wires whose answers are one array -> what profiles call it; None for any name."""


def check(profile: Profile, where: str) -> None:
    """Refuse what cannot be sent or executed.

    Raises:
        UsageError: says what, beginning with ``where``.
    """
    if not profile.actions:
        raise UsageError(f"{where}: there are no [[actions]]")
    filled = sorted(index for part in profile.actions for index in part.to)
    if filled != list(range(profile.action_dim)):
        raise UsageError(
            f"{where}: [[actions]] must fill each of the {profile.action_dim} components once, and"
            f" fill {filled}"
        )
    if profile.wire in ONE_ARRAY:
        _check_one_array(profile, where)
    for key, width in profile.action_widths.items():
        read = sorted(c for part in profile.actions if part.key == key for c in part.columns)
        if read != list(range(width)):
            raise UsageError(f"{where}: {key!r} must have each column read once, not {read}")
    keys = [image.key for image in profile.images] + [state.key for state in profile.states]
    keys += [profile.instruction, *profile.constants]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise UsageError(f"{where}: {twice[0]!r} would be sent twice")
    _check_ranges(profile, where)
    if profile.wire == "gr00t":
        _check_prefixes(profile, where)
    if profile.wire == "vla-eval":
        _check_nesting(keys, where)


def _check_ranges(profile: Profile, where: str) -> None:
    """A threshold lies within the range, where the transform has it."""
    for number, part in enumerate(profile.actions, start=1):
        match part.transform:
            case "sign":
                fits = part.low < 0.0 < part.high
                wanted = "'low' below 0 and 'high' above 0"
            case "open01" | "half":
                fits = (part.low, part.high) == (0.0, 1.0)
                wanted = "'low' 0 and 'high' 1"
            case "identity":
                continue
        if not fits:
            raise UsageError(
                f"{where}: [[actions]] no. {number}: {part.transform!r} is for numbers with"
                f" {wanted}, not {part.low:g} and {part.high:g}"
            )


def _check_prefixes(profile: Profile, where: str) -> None:
    video, state, action = GR00T_PREFIXES
    named = [(image.key, video) for image in profile.images]
    named += [(vector.key, state) for vector in profile.states]
    named += [(key, action) for key in profile.action_widths]
    for key, prefix in named:
        if not key.startswith(prefix):
            raise UsageError(f"{where}: {key!r} must begin with {prefix!r}, as GR00T's keys do")


def _check_one_array(profile: Profile, where: str) -> None:
    found, wanted = list(profile.action_widths), ONE_ARRAY[profile.wire]
    if wanted is not None and found != [wanted]:
        raise UsageError(
            f"{where}: [[actions]] read {', '.join(map(repr, found))}: an answer of {profile.wire}"
            f" is one array, and every [[actions]] must have key = {wanted!r}"
        )
    if len(found) != 1:
        raise UsageError(
            f"{where}: [[actions]] read {', '.join(map(repr, found))}: an answer of {profile.wire}"
            " is one array"
        )


def _check_nesting(keys: list[str], where: str) -> None:
    """A slash nests, so that a name is a map or a value."""
    for key in keys:
        names = key.split("/")
        for end in range(1, len(names)):
            outer = "/".join(names[:end])
            if outer in keys:
                raise UsageError(f"{where}: {key!r} lies within {outer!r}, which is sent itself")
