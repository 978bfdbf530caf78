"""Names of the papers' policies that need something first say what, and how."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_vla_shift.commands.serve import WIRES
from pytest_vla_shift.policies import known
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.protocol.errors import UsageError

URLS = {"vla-eval": "ws://HOST:8000"}
NAMES = ("univla", "predvla", "minerva")


def refusal(name: str, args: dict[str, str], settings: PolicySettings) -> str:
    with pytest.raises(UsageError) as refused:
        resolve(name, args, settings=settings)
    return str(refused.value)


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_is_needed_and_both_ways(name: str) -> None:
    said = refusal(name, {}, PolicySettings())
    assert f"--vla-policy={name} needs" in said
    assert f"--vla-policy=my_{name}:Policy" in said
    assert "check_policy" in said
    assert "vla-shift serve --wire vla-eval" in said


@pytest.mark.parametrize("name", NAMES)
def test_it_says_so_however_it_is_asked(name: str) -> None:
    settings = PolicySettings(url="http://127.0.0.1:1", token="geheim")
    said = refusal(name, {"checkpoint": "x", "url": "y"}, settings)
    assert f"--vla-policy={name} needs" in said
    assert "geheim" not in said


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_the_section_that_it_names(name: str) -> None:
    page = Path(__file__).resolve().parents[2] / known.PAGE
    assert re.search(rf"^#+ {name}$", page.read_text("utf-8"), re.MULTILINE | re.IGNORECASE)


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_that_it_names_are_there(name: str) -> None:
    said = refusal(name, {}, PolicySettings())
    wires = re.findall(r"--wire (\S+)", said)
    assert wires
    for wire in wires:
        assert wire in WIRES
        assert f"--vla-policy={wire} --vla-policy-url={URLS[wire]}" in said


@pytest.mark.parametrize("name", NAMES)
def test_the_wire_that_it_names_leaves_pictures_as_they_are(name: str) -> None:
    for wire in re.findall(r"--wire (\S+)", refusal(name, {}, PolicySettings())):
        images = find_profile("libero", wire).images
        assert [(image.size, image.resize) for image in images] == [((256, 256), "none")] * 2
