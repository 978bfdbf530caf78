"""Runs of a policy that is asked at a server: refused, retried, counted. The server is a fake."""

from __future__ import annotations

from tests.plugin.toy_project import ToyProject

POLICY = "tests.fakes.memory_wire:remote_expert"
TOKEN = "hf_open_sesame"


def only(*names: str) -> str:
    return f"-k={' or '.join(names)}"


def test_a_connection_that_breaks_is_made_anew_and_the_rollout_run_once_more(
    project: ToyProject,
) -> None:
    """Episode 1 breaks once; episode 2 always, and is no failure; the token shows nowhere."""
    project.environment["SESAME"] = TOKEN
    done = project.run(
        "--vla-run=r",
        "--vla-policy-arg=fails=1:1 2:99",
        "--vla-policy-token=SESAME",
        "--showlocals",
        "-vv",
        "--tb=long",
        only("reach_left-e00-null", "reach_left-e01-null", "reach_left-e02-null"),
        policy=POLICY,
    )
    assert TOKEN not in done.out
    assert "does not fit" not in done.out
    rows = {(row["episode"], row["condition"]): row for row in project.rows("r")}
    first, again = rows[0, "clean"], rows[1, "clean"]
    assert (first["attempts"], first["success"]) == (1, True)
    assert (again["attempts"], again["success"], again["error"]) == (2, True, None)
    broken = rows[2, "clean"]
    assert (broken["status"], broken["attempts"]) == ("error", 2)
    words = "step 4: 1011, sent {'Authorization': 'Api-Key ***'}"
    assert broken["error"] == ["policy server", f"policy 'memory', server memory:, {words}"]
    assert words in " ".join(done.out.split())
    (null,) = project.only_suite("r")["conditions"]
    assert (null["planned"], null["pairs"], null["errors"]) == (3, 2, 1)
    assert (null["sr_clean"], null["sr_shifted"]) == (1.0, 1.0), "the third pair is in no rate"
    for file in project.directory("r").rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes(), file


def test_a_profile_that_does_not_fit_the_suite_is_refused_with_both_sides(
    project: ToyProject,
) -> None:
    done = project.run(
        "--vla-run=r",
        "--vla-policy-arg=looks=true",
        "--vla-policy-arg=size=256",
        "--vla-policy-arg=quantity=controller_pos",
        policy=POLICY,
        code=4,
    )
    lines = done.out.splitlines()
    (start,) = (at for at, line in enumerate(lines) if "does not fit suite 'toy_suite'" in line)
    table = lines[start + 1 :]
    assert table[0].split() == ["policy", "suite", "toy_suite"]
    assert max(map(len, table)) <= 80
    marked = [line for line in table if line.startswith("!")]
    assert len(marked) == 2
    assert "front 256 x 256 uint8" in marked[0]
    assert "front 16 x 16 uint8" in marked[0]
    assert marked[1].startswith("! state state")
    assert "no controller_pos; has" in marked[1]
    assert not project.directory("r").joinpath("rollouts").exists() or not project.rows("r")
