"""``vla-shift profile``: what a profile says, and whether it fits a suite. Asks no policy."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, TextIO

from pytest_vla_shift.commands import arguments

if TYPE_CHECKING:
    import argparse

    from pytest_vla_shift.policies.agreement import Row
    from pytest_vla_shift.policies.profile import Profile
    from pytest_vla_shift.protocol.suite import Suite

DESCRIPTION = (
    "What a profile says, name by name; with --suite, side by side with what the suite and its"
    " simulator offer. No policy is asked."
)
WIDTH = 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "profile", nargs="?", help="a shipped profile, or a .toml file; without one, all are listed"
    )
    parser.add_argument("--suite", metavar="SUITE", help="compare with this suite's simulator")


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command: 1 if the profile does not fit the suite.

    Raises:
        UsageError: there is no such profile or suite, or it is malformed.
    """
    from pytest_vla_shift.policies.profile import read_profile
    from pytest_vla_shift.protocol.errors import UsageError

    if given.profile is None:
        if given.suite is not None:
            raise UsageError("--suite compares a profile: say which")
        out.write(_listing())
        return 0
    profile = read_profile(given.profile)
    if given.suite is None:
        out.write(_description(profile))
        return 0
    return _comparison(profile, arguments.suite_of(given), out)


def _listing() -> str:
    from pytest_vla_shift.policies.profile import read_profile, shipped

    lines = []
    for name in shipped():
        profile = read_profile(name)
        lines.append(f"{name}  ({', '.join(profile.simulators)})")
        lines += wrap(profile.title, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def _description(profile: Profile) -> str:
    from pytest_vla_shift.policies.agreement import side_by_side

    facts = (
        ("profile", profile.name),
        ("wire", profile.wire),
        ("simulators", ", ".join(profile.simulators)),
        ("source", profile.source),
        ("digest", profile.digest),
    )
    lines = wrap(profile.title, WIDTH)
    for name, text in facts:
        indent = f"{name:12}"
        lines += wrap(
            text, WIDTH, initial_indent=indent, subsequent_indent=" " * 12, break_on_hyphens=False
        )
    table = side_by_side(_rows(profile), "on the wire", "here")
    return "\n".join([*lines, "", table]) + "\n"


def _rows(profile: Profile) -> list[Row]:
    from pytest_vla_shift.policies.agreement import Row
    from pytest_vla_shift.policies.fitting import (
        action_text,
        image_text,
        numbers,
        parts_text,
        span,
    )

    found = [
        (f"image {image.key}", image_text(image), f"{image.camera}, upright")
        for image in profile.images
    ]
    found += [
        (f"state {state.key}", f"{state.dtype}, {numbers(state.width)}", parts_text(state))
        for state in profile.states
    ]
    found.append((f"text {profile.instruction}", "text", "the instruction"))
    found += [
        (f"text {key}", "text", f"always {value!r}") for key, value in profile.constants.items()
    ]
    found += [
        (f"action {part.key}", action_text(part), f"component {span(part.to)}")
        for part in profile.actions
    ]
    executed = f"{profile.replan} of them executed"
    found.append(("chunk", f"up to {profile.chunk} actions", executed))
    return [Row(item, wire, ours, fits=True) for item, wire, ours in found]


def _comparison(profile: Profile, suite: Suite, out: TextIO) -> int:
    from pytest_vla_shift.contract import simulator_side
    from pytest_vla_shift.policies.agreement import side_by_side
    from pytest_vla_shift.policies.fitting import profile_rows
    from pytest_vla_shift.simulators.factories import load_factory

    info = load_factory(suite.simulator).describe()
    rows = profile_rows(profile, simulator_side(suite, info))
    fits = all(row.fits for row in rows)
    out.write(side_by_side(rows, f"profile {profile.name}", f"suite {suite.name}") + "\n")
    if not fits:
        out.write("\nThey do not fit; what does not is marked.\n")
    return 0 if fits else 1
