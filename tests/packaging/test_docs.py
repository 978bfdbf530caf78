"""The documentation says what is so: its examples load, its tables are complete, its links lead."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pytest_vla_shift.outcomes import WORDS
from pytest_vla_shift.protocol import catalog, registry
from pytest_vla_shift.protocol.errors import InfrastructureError
from pytest_vla_shift.protocol.suite import Suite, load_suite, parse_suite
from pytest_vla_shift.rollouts.record import RolloutRecord, StageResult

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
REFERENCE = ROOT / "docs" / "reference"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """Where a block begins, and its text."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name_of(page)}:{line}", match[1]


def suites() -> list[tuple[str, str]]:
    return [(where, text) for where, text in blocks("toml") if text.startswith("schema = ")]


def test_there_are_examples() -> None:
    assert len(list(blocks("python"))) >= 8
    assert len(suites()) >= 2


@pytest.mark.parametrize("where,text", list(blocks("python")))
def test_python_examples_compile(where: str, text: str) -> None:
    compile(text, where, "exec")


@pytest.mark.parametrize("where,text", list(blocks("toml")))
def test_toml_examples_are_toml(where: str, text: str) -> None:
    assert tomllib.loads(text), where


@pytest.mark.parametrize("where,text", suites())
def test_whole_suites_can_be_read(where: str, text: str) -> None:
    assert isinstance(parse_suite(text, where), Suite)


def test_a_fragment_of_axes_fits_into_a_suite() -> None:
    fragments = [(w, t) for w, t in blocks("toml") if t.startswith("[axes.")]
    assert fragments
    for where, text in fragments:
        head = 'schema = 1\nname = "x"\ntitle = "x"\nsimulator = "libero"\nenv_seed = 0\n'
        head += "policy_seed = 0\ndraw_seed = 0\nsettle_steps = 0\nsettle_speed_m_s = 1\n"
        head += 'null = true\n[observation]\ncameras = ["a"]\nheight = 1\nwidth = 1\n'
        head += '[[tasks]]\nsuite = "libero_object"\ntasks = "all"\nepisodes = "0"\n'
        assert parse_suite(head + text, where).axes


def test_the_axis_example_keeps_the_contract() -> None:
    (text,) = (text for _, text in blocks("python") if "class SaltAndPepper" in text)
    exec(compile(text, "the axis example", "exec"), {})  # it ends with check_axis


def test_the_function_policy_example_resolves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_vla_shift.policies.registry import resolve

    (text,) = (text for _, text in blocks("python") if "policy.chunk" in text)
    (tmp_path / "mine_of_the_docs.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = resolve("mine_of_the_docs:policy", {}).spec
    assert (spec.cameras, spec.chunk) == (("agentview",), 8)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name_of(page)}: {target}"
        if anchor:
            assert anchor in anchors(there), f"{name_of(page)}: {target}"


def anchors(page: Path) -> set[str]:
    """As GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name != "index.md":
            assert f"({page.relative_to(ROOT / 'docs')})" in index


def test_the_options_are_all_documented(pytestconfig: pytest.Config) -> None:
    page = (REFERENCE / "options.md").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    parser = pytest.Parser(_ispytest=True)
    from pytest_vla_shift.option_list import add_options

    add_options(parser)
    options = {
        name
        for group in parser._groups
        for option in group.options
        for name in option.names()
        if name.startswith("--vla-")
    }
    assert len(options) >= 12
    shown = set(re.findall(r"^\| `(--vla-[a-z-]+)", page, re.MULTILINE))
    assert shown == options
    assert set(re.findall(r"^\| `(--vla-[a-z-]+)", readme, re.MULTILINE)) <= options
    ini = set(re.findall(r"`(vla_[a-z_]+)` \|", page))
    assert ini == {name for name in parser._inidict if name.startswith("vla_")}


def test_every_field_of_a_record_is_documented() -> None:
    page = (REFERENCE / "records.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    fields = set(RolloutRecord.__dataclass_fields__) | set(StageResult.__dataclass_fields__)
    kinds = {kind.kind for kind in all_errors(InfrastructureError)} - {InfrastructureError.kind}
    assert documented == fields | kinds


def all_errors(base: type[InfrastructureError]) -> set[type[InfrastructureError]]:
    """Those that a record can hold; tests define others, and so does the replay for videos."""
    below = {sub for sub in base.__subclasses__() if sub.__module__ == base.__module__}
    return below.union(*(all_errors(sub) for sub in below))


def test_every_hook_and_fixture_is_documented() -> None:
    from pytest_vla_shift import hookspecs, plugin

    page = (REFERENCE / "hooks.md").read_text("utf-8")
    for hook in (name for name in vars(hookspecs) if name.startswith("pytest_vla_")):
        assert f"| `{hook}(" in page
    for fixture in plugin.__all__:
        assert f"| `{fixture}` |" in page


def test_every_field_of_a_suite_is_documented() -> None:
    page = (REFERENCE / "suite-file.md").read_text("utf-8")
    documented = set(re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| `.*?\|", page, re.M))))
    shipped = tomllib.loads(
        (ROOT / "pytest_vla_shift/protocol/suites/quickstart.toml").read_text("utf-8")
    )
    used = {key for key in shipped if key not in ("observation", "tasks", "axes")}
    used |= set(shipped["observation"]) | {k for block in shipped["tasks"] for k in block}
    assert used <= documented


def test_the_frozen_levels_are_those_of_the_table() -> None:
    page = (REFERENCE / "suite-file.md").read_text("utf-8")
    for axis in load_suite("quickstart").axes:
        (row,) = re.findall(rf"^\| `{axis.name}` \| `{axis.shift}` \|.*$", page, re.MULTILINE)
        cells = [cell.strip() for cell in row.strip("|").split("|")][3:]
        for level, cell in zip(axis.levels, cells, strict=True):
            assert [float(n) for n in cell.split(",")] == list(level.parameters.values())


def test_the_horizons_are_those_of_the_catalogue() -> None:
    page = (REFERENCE / "suite-file.md").read_text("utf-8")
    found = re.search(r"default for catalogued suites: ([\d, ]+) in", page)
    names = re.search(r"own group: (.+) \|", page)
    assert found is not None
    assert names is not None
    listed = re.findall(r"`(\w+)`", names[1])
    assert set(listed) == set(catalog.task_suites())
    horizons = [known.horizon for name in listed if (known := catalog.find(name)) is not None]
    assert [int(n) for n in found[1].split(",")] == horizons


def test_every_dependency_is_explained_with_its_range() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    told = set(re.findall(r"^\| `([\w-]+)` \| (\S+) \|", page, re.MULTILINE))
    wanted = set()
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    for text in chain(project["dependencies"], *project["optional-dependencies"].values()):
        requirement = Requirement(text)
        written = text.split(";")[0].strip()[len(requirement.name) :]
        wanted.add((requirement.name, written))
    assert told == wanted


def test_the_readme_tells_the_outcome_words_policies_and_axes() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for transition, (word, letter, _) in WORDS.items():
        assert f"| {transition} | {word} | `{letter}` |" in readme
    for name in registry.BUILTIN["policies"]:
        assert f"| `{name}` |" in readme
    for axis in load_suite("quickstart").axes:
        assert f"| `{axis.name}` |" in readme
