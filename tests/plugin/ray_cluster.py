"""A Ray cluster of two worker nodes on this machine, whose parts can be killed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil
from ray.cluster_utils import Cluster

STORE_BYTES = 80 * 2**20

CALM = {"enable_worker_prestart": False, "prestart_worker_first_driver": False}
"""No processes in advance: what a test uses is enough."""

SOON = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 4,
}
"""A node that is gone is noticed within 2 s; with Ray's own settings within half a minute."""


@dataclass
class LocalCluster:
    """A head without CPUs, and worker nodes.

    Attributes:
        address: for ``RAY_ADDRESS``.
        workers: Ray's node objects.
    """

    cluster: Cluster
    workers: list[object] = field(default_factory=list)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self) -> None:
        """One more worker node: room for two rollouts and a policy, and a GPU in name only."""
        node = self.cluster.add_node(
            num_cpus=3, num_gpus=1, object_store_memory=STORE_BYTES, include_dashboard=False
        )
        self.workers.append(node)

    def actors(self, kind: str) -> list[psutil.Process]:
        """The processes of actors of a class, ``RolloutHost`` or ``PolicyHost``."""
        return [actor for node in self.workers for actor in actors_of(raylet(node), kind)]

    def kill_node(self) -> int:
        """SIGKILL to all processes of the node with the most rollouts; how many those were."""
        node = max(self.workers, key=lambda each: len(actors_of(raylet(each), "RolloutHost")))
        rollouts = len(actors_of(raylet(node), "RolloutHost"))
        doomed = [raylet(node), *raylet(node).children(recursive=True)]
        for process in doomed:
            process.kill()
        self.workers.remove(node)
        return rollouts


def raylet(node: object) -> psutil.Process:
    """The process of a node to which its actors belong."""
    processes: dict[str, list[object]] = node.all_processes  # type: ignore[attr-defined]
    return psutil.Process(processes["raylet"][0].process.pid)  # type: ignore[attr-defined]


def actors_of(parent: psutil.Process, kind: str) -> list[psutil.Process]:
    """Descendants of ``parent`` that are actors of a class, while they live."""
    found = []
    for child in parent.children(recursive=True):
        try:
            title = child.cmdline()[:1]
        except psutil.Error:
            continue
        if title and title[0].startswith(f"ray::{kind}"):
            found.append(child)
    return found


@contextmanager
def two_workers(environment: dict[str, str]) -> Iterator[LocalCluster]:
    """A cluster, with ``environment`` over ours on all its nodes; ended after the block."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
            "_system_config": {**CALM, **SOON},
        },
    )
    made = LocalCluster(cluster)
    try:
        made.add()
        made.add()
        yield made
    finally:
        cluster.shutdown()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def wait_until(done: object, within_s: float = 60.0) -> None:
    """Wait for ``done()`` to hold."""
    until = time.monotonic() + within_s
    assert callable(done)
    while not done():
        assert time.monotonic() < until, "did not happen in time"
        time.sleep(0.05)
