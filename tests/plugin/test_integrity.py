"""Every run ends with the audit of its rollouts: one line if all is well, exit code 1 if not."""

from __future__ import annotations

import json
from pathlib import Path

from tests.plugin.inprocess import Inside
from tests.plugin.toy_project import ToyProject


def test_a_sound_run_says_so_in_one_line_and_in_a_file(inside: Inside) -> None:
    project = inside
    ended = project.run("--vla-run=sound", "--vla-axis=blur", code=0)
    assert "integrity: 12 of 12 rollouts valid\n" in ended.out
    found = json.loads((project.directory("sound") / "audit-integrity.json").read_text())
    assert (found["passed"], found["problems"]) == (True, [])


def test_a_record_that_cannot_be_right_fails_the_run_that_finds_it(inside: Inside) -> None:
    project = inside
    arguments = ("--vla-run=odd", "--vla-axis=blur", "--vla-episodes=0", "--vla-task=left")
    project.run(*arguments, policy="zero", code=0)
    # A failed rollout that did not use its horizon: nobody let the policy finish.
    for path in (project.directory("odd") / "rollouts").glob("results-*.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            if row["kind"] == "rollout" and row["condition"] == "blur-L1":
                assert row["steps"] == 60
                row["steps"] = 59
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = project.run(*arguments, policy="zero", code=1)
    assert "integrity: 1 of 2 rollouts valid; truncation 1" in ended.out
    assert "reach_left e00 blur-L1: truncation: " in ended.out
    found = json.loads((project.directory("odd") / "audit-integrity.json").read_text())
    assert [p["kind"] for p in found["problems"]] == ["truncation"]


def test_under_xdist_the_controller_audits(tmp_path: Path) -> None:
    ended = ToyProject(tmp_path).run("--vla-run=x", "--vla-axis=blur", "-n2", code=0)
    assert "integrity: 12 of 12 rollouts valid\n" in ended.out
