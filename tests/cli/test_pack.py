"""``vla-shift pack`` and ``vla-shift page``, and by them every run under docs/results."""

from __future__ import annotations

import json
import lzma
import re
import shutil
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pytest_vla_shift.cli import main
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.reporting.numbers import rate
from pytest_vla_shift.reporting.results_page import BEGIN, END, UNWRITTEN, known_causes
from pytest_vla_shift.rollouts.packs import FACTS, ROLLOUTS, is_pack, read_pack
from tests.cli.test_stats_run import MIXED
from tests.plugin.toy_project import ToyProject

RESULTS = Path(__file__).parents[2] / "docs" / "results"
COMMAND = "pytest test_toy.py --vla-policy=tests.fakes.toy_policies:Expert"
FAULT = "reach_right/4=simerror"
"""A clean arm with an error: its shifted rollouts are not run, and its cells are in no rate."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    """A run of axes, levels and a compound, with one episode in error; and its pack."""
    made = ToyProject(tmp_path_factory.mktemp("toy"), suite=MIXED)
    made.environment["TOY_FAULTS"] = FAULT
    made.run("--vla-run=r", code=1)
    assert pack(made.directory("r"), made.path / "results" / "toy") == 0
    return made


@pytest.fixture
def packed(project: ToyProject, tmp_path: Path) -> Path:
    """A copy of that pack and of its page, to be done with as one likes."""
    shutil.copytree(project.path / "results", tmp_path / "results")
    return tmp_path / "results" / "toy"


def pack(run: Path, out: Path, command: str = COMMAND) -> int:
    return main(["pack", str(run), str(out), "--command", command])


def page_of(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.md")


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) == 2
    return capsys.readouterr().err


def stats(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["stats", str(path), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {**found, "source": ""}


# A pack


def test_a_pack_gives_every_figure_of_its_run(
    project: ToyProject, packed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = stats(packed, capsys)
    assert found == stats(project.directory("r"), capsys)
    assert found["errors"]
    (block,) = found["blocks"]
    assert [level["axis"] for level in block["compounds"]] == ["simultaneous", "simultaneous"]


def test_a_pack_holds_the_run_and_nothing_of_the_machine(project: ToyProject, packed: Path) -> None:
    content = lzma.decompress((packed / ROLLOUTS).read_bytes())
    rows = [json.loads(line) for line in content.splitlines()][1:]
    here = sorted(rows, key=lambda row: str(row["key"]))
    assert [row.pop("where") for row in here] == [{}] * len(here)
    assert [row.pop("timing") for row in here] == [{}] * len(here)
    assert [row.pop("attempts") for row in here] == [1] * len(here)
    assert here == project.outcomes("r")
    assert str(project.path).encode() not in content
    assert json.loads((packed / FACTS).read_text())["rollouts"] == len(rows)
    assert sorted(path.name for path in packed.iterdir()) == sorted((FACTS, ROLLOUTS))


def test_the_run_itself_is_not_changed(project: ToyProject, tmp_path: Path) -> None:
    run = project.directory("r")
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert pack(run, tmp_path / "again") == 0
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    first = project.path / "results" / "toy"
    assert (tmp_path / "again" / ROLLOUTS).read_bytes() == (first / ROLLOUTS).read_bytes()


def test_what_was_packed_is_told(
    project: ToyProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    pack(project.directory("r"), tmp_path / "again")
    told = capsys.readouterr().out
    assert re.search(r"note: \d+ pairs with an infrastructure error, in no rate", told)
    assert f"rollouts in {(tmp_path / 'again' / ROLLOUTS).stat().st_size:,} bytes" in told
    assert "write its paragraph on known causes by hand" in told


@pytest.mark.parametrize("there", ["again", "again.md"])
def test_nothing_is_written_over(
    project: ToyProject, tmp_path: Path, capsys: pytest.CaptureFixture[str], there: str
) -> None:
    (tmp_path / there).write_text("mine")
    run, out = str(project.directory("r")), str(tmp_path / "again")
    assert "is there already" in refusal(capsys, "pack", run, out, "--command", COMMAND)
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


def test_a_name_that_no_link_leads_to_is_refused(
    project: ToyProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = str(project.directory("r")), str(tmp_path / "a b")
    assert "letters, digits" in refusal(capsys, "pack", run, out, "--command", COMMAND)
    assert list(tmp_path.iterdir()) == []


def damaged_run(project: ToyProject, tmp_path: Path, old: str, new: str) -> Path:
    """The run with one line of its records changed, or, if ``new`` is empty, without it."""
    run = tmp_path / "damaged"
    shutil.copytree(project.directory("r"), run)
    (file,) = (run / "rollouts").glob("results-*.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if '"kind":"rollout"' in line and old in line)
    lines[place] = lines[place].replace(old, new) if new else ""
    file.write_text("".join(lines))
    return run


@pytest.mark.parametrize(
    "old,new,told",
    [
        ('"condition":"blur-L1","axis"', "", "1 of 28 planned cells have no record, such as toy-"),
        ('"seed_note":"inert"', '"seed_note":"other"', "the audit finds .* policy seed of reach"),
        ('"error":["simulator","', '"error":["simulator","/data/x.xml ', "place on a machine"),
    ],
    ids=["a cell is missing", "the audit fails", "a path"],
)
def test_a_run_that_is_not_whole_and_sound_is_not_packed(
    project: ToyProject,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    told: str,
) -> None:
    run, out = str(damaged_run(project, tmp_path, old, new)), str(tmp_path / "out")
    assert re.search(told, refusal(capsys, "pack", run, out, "--command", COMMAND))
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.md").exists()


# Its page


def test_the_page_says_what_the_records_say(project: ToyProject, packed: Path) -> None:
    text = page_of(packed).read_text("utf-8")
    summary = (project.directory("r") / "summary.md").read_text("utf-8")
    # Every table of the run's own summary, and the facts above them.
    lines = Counter(line for line in summary.splitlines() if line.startswith(("| ", "- policy")))
    assert len(lines) > 25
    assert not lines - Counter(text.splitlines())
    assert f"```sh\n{COMMAND}\n```" in text
    assert "toy_suite: 28 of its 28 cells, 2 tasks, 4 initial states" in text
    for heading in ("Known causes", "Level by level: toy_suite", "How it was run"):
        assert text.count(f"\n## {heading}\n") == 1
    for heading in ("Compounds", "ΔSR by task"):
        assert text.count(f"\n#### {heading}\n") == 1


def test_the_levels_of_an_axis_stand_beside_each_other(project: ToyProject, packed: Path) -> None:
    text = page_of(packed).read_text("utf-8")
    conditions = {item["condition"]: item for item in project.only_suite("r")["conditions"]}
    (row,) = re.findall(r"^\| base \| (.*) \|$", text, re.MULTILINE)[:1]
    clean, *levels, _, _ = row.split(" | ")
    assert len(levels) == 3
    for level, cell in zip(("L1", "L2", "L3"), levels, strict=True):
        item = conditions[f"base-{level}"]
        assert item["pairs"] == 3  # the fourth episode is in error
        assert cell.startswith(f"{item['ss'] + item['fs']}/3, ")
        assert rate(abs(item["dsr"])) in cell
        assert clean == f"{item['ss'] + item['sf']}/3"


def test_what_was_written_by_hand_is_kept(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = page_of(packed)
    made = path.read_text("utf-8")
    assert known_causes(made) == UNWRITTEN
    causes = "The camera.\n\n- and `\\1` the *light*"
    path.write_text(made.replace(UNWRITTEN, causes).replace("| base |", "| wrong |"), "utf-8")
    capsys.readouterr()
    assert main(["page", str(packed), "--check"]) == 1
    assert "-| wrong |" in capsys.readouterr().out
    assert main(["page", str(packed)]) == 0
    assert path.read_text("utf-8") == made.replace(UNWRITTEN, causes)
    assert main(["page", str(packed), "--check"]) == 0
    path.unlink()
    assert main(["page", f"{packed}/"]) == 0
    assert path.read_text("utf-8") == made


@pytest.mark.parametrize("lost", [BEGIN, END, f"{BEGIN}\n"])
def test_a_page_whose_words_would_be_lost_is_left_alone(
    packed: Path, capsys: pytest.CaptureFixture[str], lost: str
) -> None:
    path = page_of(packed)
    path.write_text(path.read_text("utf-8").replace(lost, ""), "utf-8")
    before = path.read_bytes()
    assert "put the marks back" in refusal(capsys, "page", str(packed))
    assert path.read_bytes() == before


def test_marks_within_what_was_written_are_refused() -> None:
    with pytest.raises(UsageError, match="exactly one part"):
        known_causes(f"{BEGIN}\na\n{BEGIN}\nb\n{END}\n")


# What is committed


def check_published(directory: Path) -> None:
    """A pack is whole, it reads back, and its page is what its records give today."""
    found = read_pack(directory)
    assert found.records
    assert main(["page", str(directory), "--check"]) == 0
    causes = known_causes(page_of(directory).read_text("utf-8"))
    assert causes != UNWRITTEN, f"{page_of(directory)}: nobody has written the known causes"
    assert main(["stats", str(directory)]) == 0


def test_the_check_of_what_is_committed_can_fail(
    packed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError, match="nobody has written"):
        check_published(packed)
    path = page_of(packed)
    path.write_text(path.read_text("utf-8").replace(UNWRITTEN, "It is a toy."), "utf-8")
    check_published(packed)

    made = path.read_text("utf-8")
    path.write_text(re.sub(r"^(\| blur \| )3", r"\g<1>2", made, flags=re.MULTILINE), "utf-8")
    with pytest.raises(AssertionError):
        check_published(packed)
    path.write_text(made, "utf-8")

    # One rollout less, and everything about the file itself is right.
    content = lzma.decompress((packed / ROLLOUTS).read_bytes())
    content = content.rstrip(b"\n").rpartition(b"\n")[0] + b"\n"
    (packed / ROLLOUTS).write_bytes(lzma.compress(content))
    facts = json.loads((packed / FACTS).read_text())
    facts["sha256"] = sha256(content).hexdigest()
    (packed / FACTS).write_text(json.dumps(facts))
    assert "planned cells have no record" in refusal(capsys, "page", str(packed), "--check")
    with pytest.raises(AssertionError):
        check_published(packed)


def test_everything_under_results_is_a_pack_with_its_page() -> None:
    folders = [path for path in RESULTS.iterdir() if path.is_dir()]
    assert [path for path in folders if not is_pack(path)] == []
    pages = {path.stem for path in RESULTS.glob("*.md")} - {"README"}
    assert pages == {path.name for path in folders}
    listed = (RESULTS / "README.md").read_text("utf-8")
    for name in pages:
        assert f"({name}.md)" in listed


@pytest.mark.parametrize("name", sorted(path.name for path in RESULTS.iterdir() if path.is_dir()))
def test_every_published_run_gives_its_page(name: str) -> None:
    check_published(RESULTS / name)
