"""A small run that was never run: its records are whole, and so is everything about a pack."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.rollouts.manifest import PlannedNode, SessionPlan
from pytest_vla_shift.rollouts.packs import Pack
from pytest_vla_shift.rollouts.record import JSON, RolloutRecord
from tests.statistics.build import record

CONDITIONS = ("camera-L1", "camera-L2")


def rollout(task: str, episode: int, condition: str, success: bool = True) -> RolloutRecord:
    """A record whose key is the digest of its identity, as every reader asks of it."""
    identity: dict[str, JSON] = {"episode": [task, episode], "condition": condition}
    return replace(
        record(task, episode, condition, success),
        identity=identity,
        key=digest(identity),
        timing={"wall": 1.25, "policy": 0.5},
        where={"worker": "gw0", "device": "a renderer"},
    )


def node(task: str, episode: int, condition: str) -> PlannedNode:
    axis, _, level = condition.partition("-")
    cell = f"libero_object-{task}-e{episode:02d}-{condition}"
    return PlannedNode(
        node=f"suites/demo/test_demo.py::test_shift[{cell}]",
        suite="demo",
        cell=cell,
        task_suite="libero_object",
        task=task,
        episode=episode,
        condition=condition,
        axis=axis,
        level=level,
        replicate=0,
        axes=(axis,),
        clean_key=rollout(task, episode, "clean").key,
        shifted_key=rollout(task, episode, condition).key,
    )


def plan_of(nodes: Iterable[PlannedNode]) -> SessionPlan:
    return SessionPlan(
        policy={
            "name": "demo_policy",
            "revision": "sha256:1",
            "privileged": False,
            "seeded": False,
            "located": ["weights"],
            "args": {"temperature": "0"},
        },
        versions={"mujoco": "3.3.7"},
        renderers={"libero": "egl"},
        protocols={"demo": "abc"},
        grid={"demo": 99},
        suites={"demo": 'title = "m/s and N/m"'},
        nodes=tuple(nodes),
    )


def small_pack() -> Pack:
    """Two tasks of three episodes under two levels: 12 cells of 18 rollouts, one of them failed."""
    places = [(task, episode) for task in ("pick", "place") for episode in range(3)]
    rows = [
        rollout(task, episode, condition, (task, episode, condition) != ("pick", 1, "camera-L2"))
        for task, episode in places
        for condition in ("clean", *CONDITIONS)
    ]
    plan = plan_of(node(*place, condition) for place in places for condition in CONDITIONS)
    command = "pytest suites/demo --vla-policy=demo_policy"
    return Pack("0.1.0", command, ("a renderer",), plan, {row.key: row for row in rows})
