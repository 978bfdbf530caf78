"""``--vla-executor=ray``: rollouts on a cluster, and nothing but ``where`` to tell them by."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.plugin.toy_project import ToyProject

pytest.importorskip("ray", reason="the extra ray is not installed")

from tests.plugin.ray_cluster import LocalCluster, two_workers, wait_until

LANES = "tests.fakes.lane_policies"
DRAWS = f"{LANES}:DrawsEverywhere"
DIES = "tests.fakes.ray_policies:Dies"
BATCHES = "tests.fakes.ray_policies:SlowBatcher"
SLOW = {"TOY_STEP_SECONDS": "0.003", "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with two_workers(SLOW) as made:
        yield made


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    """Runs of one rollout at a time, in the pytest process."""
    made = ToyProject(tmp_path_factory.mktemp("alone"))
    made.run("--vla-run=draws", policy=DRAWS, code=1)
    made.run("--vla-run=batches", batch_log(made), policy=BATCHES)
    return made


def batch_log_file(made: ToyProject) -> Path:
    return made.path / "calls"


def batch_log(made: ToyProject) -> str:
    """The same argument for all runs, since it is part of the key."""
    return f"--vla-policy-arg=log={batch_log_file(made)}"


def project(path: Path, address: str, *options: str) -> ToyProject:
    return ToyProject(
        path,
        options=("--vla-video=off", "--vla-executor=ray", *options),
        environment={"RAY_ADDRESS": address},
    )


def nodes(rows: list[dict[str, object]], what: str) -> set[str]:
    return {str(row["where"][what]) for row in rows}  # type: ignore[index]


def test_rows_of_two_nodes_and_two_policy_actors_are_those_of_one_at_a_time(
    cluster: LocalCluster, alone: ToyProject, tmp_path: Path
) -> None:
    made = project(tmp_path, cluster.address, "--vla-envs=4")
    made.run("--vla-run=ray", policy=DRAWS, code=1)
    assert made.outcomes("ray") == alone.outcomes("draws")
    assert made.summary("ray") == alone.summary("draws")
    rows = made.rows("ray")
    assert len(nodes(rows, "node")) == 2
    assert len(nodes(rows, "policy")) == 2
    assert all(" GPU " in place for place in nodes(rows, "policy"))
    # The cluster was there before, and is there after; what the run had on it is gone.
    wait_until(lambda: not cluster.actors("RolloutHost") + cluster.actors("PolicyHost"))


def test_a_killed_rollout_actor_costs_one_attempt(
    cluster: LocalCluster, alone: ToyProject, tmp_path: Path
) -> None:
    made = project(tmp_path, cluster.address, "--vla-envs=2")
    with made.start("--vla-run=ray", policy=DRAWS) as process:
        wait_until(lambda: len(made.rows("ray")) > 2)
        cluster.actors("RolloutHost")[0].kill()
        out, _ = process.communicate(timeout=180)
    assert process.returncode == 1, out
    assert made.outcomes("ray") == alone.outcomes("draws")
    assert sorted(str(row["attempts"]) for row in made.rows("ray"))[-2:] == ["1", "2"]


def test_a_policy_that_dies_is_an_infrastructure_error_and_is_started_anew(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    log = f"--vla-policy-arg=log={tmp_path}/x"
    made = project(tmp_path, cluster.address, "--vla-envs=2", "--vla-axis=null", log)
    made.run("--vla-run=ray", policy=DIES, code=1)
    assert (tmp_path / "x").read_text() == "x"
    errors = [row for row in made.outcomes("ray") if row["status"] == "error"]
    assert len(errors) == 1, made.rows("ray")
    (error,) = errors
    assert error["episode"] == 1
    assert error["error"][0] == "policy"  # type: ignore[index]
    assert "the policy's process died" in error["error"][1]  # type: ignore[index]
    # It has died often enough: the same command runs the rest, here and on the cluster alike.
    made.run("--vla-run=ray", policy=DIES, code=0)
    made.run("--vla-run=alone", "--vla-executor=local", "--vla-envs=0", policy=DIES, code=0)
    done = [row for row in made.outcomes("ray") if row["status"] == "done"]
    assert done == made.outcomes("alone")


def test_a_policy_that_dies_again_stops_the_run(cluster: LocalCluster, tmp_path: Path) -> None:
    made = project(
        tmp_path,
        cluster.address,
        "--vla-envs=1",
        "--vla-axis=null",
        f"--vla-policy-arg=log={tmp_path}/x",
        "--vla-policy-arg=times=2",
    )
    run = made.run("--vla-run=ray", policy=DIES, code=2)
    assert "gone for good" in run.out
    assert "no failure counted" in run.out
    kinds = [row["error"][0] for row in made.rows("ray") if row["error"]]  # type: ignore[index]
    assert sorted(kinds) == ["policy", "policy", "policy stuck"]


def test_ctrl_c_ends_soon_leaves_no_process_and_is_taken_up_again(
    alone: ToyProject, tmp_path: Path
) -> None:
    # On a cluster that the run starts itself, and that must go with it; with batches.
    made = project(tmp_path, "local", "--vla-envs=4", batch_log(alone))
    made.environment.update(SLOW)
    batch_log_file(alone).unlink()
    with made.start("--vla-run=ray", policy=BATCHES) as process:
        wait_until(lambda: len(made.rows("ray")) > 2)
        children = psutil.Process(process.pid).children(recursive=True)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert time.monotonic() - began < 30
    assert process.returncode == 2, out
    assert len(children) > 5
    assert not psutil.wait_procs(children, timeout=5)[1]
    assert "Traceback" not in out
    made.run("--vla-run=ray", policy=BATCHES)
    assert made.outcomes("ray") == alone.outcomes("batches")
    assert len({row["key"] for row in made.rows("ray")}) == len(made.rows("ray"))
    assert max(int(line) for line in batch_log_file(alone).read_text().split()) > 1


@pytest.mark.parametrize(
    "options,policy,words",
    [
        (["-n2"], DRAWS, "use --vla-envs=N"),
        (["--vla-envs=0"], DRAWS, "exclude each other"),
        (["--vla-gpus=0"], DRAWS, "ray start --num-gpus"),
    ],
    ids=["xdist", "envs", "gpus"],
)
def test_what_means_nothing_on_a_cluster_is_refused(
    tmp_path: Path, options: list[str], policy: str, words: str
) -> None:
    # There is no such cluster, and nobody tries to reach it.
    run = project(tmp_path, "127.0.0.1:1").run(*options, policy=policy, code=4)
    assert words in " ".join(run.out.split())
    assert "Traceback" not in run.out


def test_a_cluster_that_is_too_small_or_a_policy_that_cannot_be_made_is_refused(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    made = project(tmp_path, cluster.address)
    run = made.run("--vla-envs=6", policy=DRAWS, code=4)
    assert "takes 8 CPUs of the Ray cluster" in " ".join(run.out.split())
    run = made.run(policy=f"{LANES}:Nobody", code=4)
    assert "Nobody" in run.out
    # Three rollouts on two policies: one of these would have to serve two.
    run = made.run("--vla-envs=3", policy="tests.fakes.toy_policies:Expert", code=4)
    assert "session()" in run.out
    # What it needs and the simulator does not tell is found out at the actor that has it.
    needs = "--vla-policy-arg=quantity=controller_pos"
    run = made.run("--vla-envs=1", needs, policy="tests.fakes.memory_wire:remote_expert", code=4)
    assert "does not fit suite 'toy_suite'" in run.out
    assert "no controller_pos; has" in run.out
    assert "Traceback" not in run.out
    assert not list(made.path.glob("reports/*/rollouts/results-*.jsonl"))


def test_without_ray_it_is_a_usage_error_with_the_line_that_mends_it(tmp_path: Path) -> None:
    made = project(tmp_path, "local")
    (tmp_path / "conftest.py").write_text("import sys\nsys.modules['ray'] = None\n")
    run = made.run(policy=DRAWS, code=4)
    assert "pip install 'pytest-vla-shift[ray]'" in run.out


def test_a_killed_node_costs_its_rollouts_one_attempt_and_the_run_goes_on_beside(
    cluster: LocalCluster, alone: ToyProject, tmp_path: Path
) -> None:
    # With the node its GPU is gone: the policy that was there cannot be started anew, and its
    # rollouts go to the other one.
    made = project(tmp_path, cluster.address, "--vla-envs=4")
    with made.start("--vla-run=ray", policy=DRAWS) as process:
        wait_until(lambda: len(made.rows("ray")) > 2)
        assert cluster.kill_node() == 2
        out, _ = process.communicate(timeout=180)
    cluster.add()  # for the other tests
    assert process.returncode == 1, out
    known = {row["key"]: row for row in alone.outcomes("draws")}
    done = [row for row in made.outcomes("ray") if row["status"] == "done"]
    assert done == [known[row["key"]] for row in done]
    assert len(done) > 20
    errors = [row["error"][0] for row in made.rows("ray") if row["error"]]  # type: ignore[index]
    # Rollouts of the other node that asked the policy of this one.
    assert set(errors) <= {"policy"}
    assert len(errors) <= 2
    assert "worker lost" not in out
