"""docs/reference/profiles.md: its tables are complete, and its example is a profile."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from pytest_vla_shift.policies.fitting import profile_rows
from pytest_vla_shift.policies.profile import (
    DTYPES,
    ORIENTATIONS,
    QUANTITIES,
    RESIZES,
    TRANSFORMS,
    WIRES,
    parse_profile,
    read_profile,
)
from pytest_vla_shift.policies.quantities import source_of
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.simulators.libero import PROPRIO
from tests.policies.shipped_profiles import NAMES
from tests.policies.test_agreement import LIBERO

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/profiles.md").read_text("utf-8")


def section(title: str) -> str:
    """What stands under a heading, up to the next one of any depth."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None, title
    return found[1]


def rows(title: str) -> dict[str, list[str]]:
    """First cell's code words -> the row's cells."""
    found: dict[str, list[str]] = {}
    for line in section(title).splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found |= dict.fromkeys(re.findall(r"`([^`]+)`", cells[0]), cells)
    return found


def test_the_shipped_profiles_are_those_of_the_folder_with_their_chunks() -> None:
    listed = rows("Shipped")
    assert list(listed) == list(NAMES)
    for name, cells in listed.items():
        profile = read_profile(name)
        if cells[2][0].isdigit():
            assert cells[2] == f"{profile.chunk}, {profile.replan}"
        for dtype in DTYPES:
            if dtype in cells[3]:
                assert {state.dtype for state in profile.states} == {dtype}


def test_every_key_is_explained_and_no_other() -> None:
    top = {"schema", "title", "source", "wire", "simulators", "action_dim", "chunk", "replan"}
    assert set(rows("Keys")) >= top | {"instruction", "[[images]]", "[[states]]", "[[actions]]"}
    assert {key for key in rows("Keys") if key.isidentifier()} == top | {"instruction"}
    for table, keys in (
        ("`[[images]]`", {"key", "camera", "orientation", "size", "resize"}),
        ("`[[states]]`", {"key", "parts", "dtype"}),
        ("`[[actions]]`", {"key", "columns", "to", "transform", "low", "high"}),
    ):
        assert set(rows(table)) == keys, table
    for value in (*WIRES, *ORIENTATIONS, *RESIZES, *DTYPES, *TRANSFORMS):
        assert f"`{value}`" in PAGE, value


def test_every_convention_has_its_row() -> None:
    assert set(rows("Pictures")) == set(ORIENTATIONS)
    assert set(rows("Grippers")) == set(TRANSFORMS)
    quantities = rows("Quantities")
    assert set(quantities) == set(QUANTITIES)
    for name, cells in quantities.items():
        names = re.findall(r"`([^`]+)`", cells[0])
        assert cells[1].split(", ")[names.index(name)] == str(QUANTITIES[name]), name
        assert ("LIBERO" in cells[3]) is (source_of(name) in PROPRIO), name


def test_the_example_is_a_profile_and_fits_liberos_suites() -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    profile = parse_profile(tomllib.loads(text), "my_arm", "the example")
    assert [row for row in profile_rows(profile, LIBERO) if not row.fits] == []


def test_the_horizon_that_it_names_is_the_suites() -> None:
    spatial = catalog.find("libero_spatial")
    assert spatial is not None
    assert f"have {spatial.horizon} steps for libero_spatial" in PAGE
