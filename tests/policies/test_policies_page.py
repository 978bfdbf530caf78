"""docs/reference/policies.md: each name, argument, option and profile on it exists, and no more."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla_shift.commands import serve
from pytest_vla_shift.policies.gr00t import gr00t
from pytest_vla_shift.policies.lerobot import in_process
from pytest_vla_shift.policies.openpi import openpi
from pytest_vla_shift.policies.openvla import openvla, openvla_oft
from pytest_vla_shift.policies.profile import shipped
from pytest_vla_shift.policies.tiny import Tiny
from pytest_vla_shift.policies.vla_eval import vla_eval
from pytest_vla_shift.protocol.registry import BUILTIN

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "policies.md").read_text()
COMMON = {"profile", "chunk", "seeded"}
PAPERS = (
    "π0.5",
    "OpenVLA-OFT",
    "UniVLA",
    "SmolVLA",
    "VLA-JEPA",
    "PredVLA",
    "MINERVA",
    "GR00T N1.5",
    "π0 (RoboCasa365 Human300)",
    "GR00T N1.7 base",
    "Cosmos Policy",
)
"""Those that the two papers evaluated or tried to."""


def section(title: str) -> str:
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    return str(found)


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def arguments(title: str) -> set[str]:
    """Those of the section's tables of arguments, each told once."""
    tables = re.findall(r"^\| argument \|.*\n\|[-|]+\n((?:\|.*\n)+)", section(title), re.M)
    told = [name for table in tables for name in re.findall(r"^\| `(\w+)` \|", table, re.M)]
    assert len(told) == len(set(told))
    return set(told)


def test_every_known_name_is_in_the_table_of_names_and_no_other() -> None:
    names = [row[0].strip("`| ") for row in rows(section("Names"))[2:]]
    assert names == list(BUILTIN["policies"])


def test_every_policy_of_the_papers_is_in_their_table_with_what_was_verified() -> None:
    table = rows(section("The papers' policies"))[2:]
    assert [row[0].strip("| ") for row in table] == list(PAPERS)
    for row in table:
        assert len(row) == 6
        assert all(cell.strip("| ") for cell in row)
        for name in re.findall(r"`([\w-]+)`", row[2]):
            assert name in BUILTIN["policies"]


def test_profiles_that_are_named_are_shipped() -> None:
    wires = ("gr00t", "openpi", "vla-eval", "openvla", "lerobot")
    named = set(re.findall(rf"`((?:{'|'.join(wires)})-[\w-]+)`", PAGE)) - {"openvla-oft"}
    assert named
    assert named <= set(shipped())


@pytest.mark.parametrize(
    "title,factory,common",
    [
        ("gr00t", gr00t, COMMON),
        ("openpi", openpi, COMMON),
        ("vla-eval", vla_eval, COMMON),
        ("openvla", openvla, COMMON),
        ("openvla-oft", openvla_oft, COMMON),
        ("lerobot", in_process, {"name", "kind"}),
        ("tiny", Tiny, set()),
    ],
)
def test_the_arguments_of_a_policy_are_those_of_its_section(
    title: str, factory: Callable[..., object], common: set[str]
) -> None:
    taken = set(inspect.signature(factory).parameters) - {"settings"} - common
    assert arguments(title) == taken
    assert arguments(COMMON_TITLE) == COMMON


COMMON_TITLE = "What all policies behind servers have in common"


def test_every_wire_and_option_of_serve_is_told() -> None:
    text = section("Serve a policy of ours")
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    own = {"--wire", "--profile", "--host", "--port", "--token-variable", "--seed"}
    taken = {option for action in parser._actions for option in action.option_strings}
    assert own <= taken
    told = set(re.findall(r"`(--[\w-]+)`", text))
    assert own <= told <= taken
    for wire in serve.WIRES:
        assert f"`{wire}`" in text
    for port in re.findall(r"port (\d+)", PAGE):
        assert int(port) in {choice.port for choice in serve.WIRES.values()}


def test_commands_on_the_page_have_options_that_exist() -> None:
    from pytest_vla_shift.option_list import add_options

    parser = pytest.Parser(_ispytest=True)
    add_options(parser)
    known = {n for group in parser._groups for option in group.options for n in option.names()}
    used = set(re.findall(r"--vla-[a-z-]+", PAGE))
    assert used
    assert used <= known
