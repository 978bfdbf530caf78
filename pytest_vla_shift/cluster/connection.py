"""Into a Ray cluster, and out of it again."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.simulators.hardware import list_gpus

INSTALL = "pip install 'pytest-vla-shift[ray]'"

OBJECT_STORE_BYTES = 256 * 2**20
"""Shared memory of a cluster that we start: pictures on their way, a few MB for each rollout."""


class Connection:
    """This process's connection to a cluster: an existing one, or one that it started.

    A cluster that was found is left as it was; one that was started ends with the connection.
    """

    def __init__(self, envs: int) -> None:
        """Connect to the cluster of ``RAY_ADDRESS``, to one that runs on this node, or start one.

        Args:
            envs: rollouts at once, for which a cluster that is started has room on any number of
                cores.

        Raises:
            UsageError: Ray is not installed, or the cluster cannot be reached.
        """
        require_ray()
        import ray

        self._own = not ray.is_initialized()
        if self._own:
            with _signals_kept():
                self._join(envs)

    def resources(self) -> Mapping[str, float]:
        """What the nodes have together, in use or not: ``CPU``, ``GPU``."""
        import ray

        found: dict[str, float] = ray.cluster_resources()
        return found

    def close(self) -> None:
        """Disconnect, unless somebody else connected. Idempotent; never raises."""
        import ray

        if self._own:
            self._own = False
            with suppress(Exception), _signals_kept():
                ray.shutdown()

    def _join(self, envs: int) -> None:
        import ray

        address = os.environ.get("RAY_ADDRESS", "")
        if "://" in address:
            raise UsageError(
                f"RAY_ADDRESS={address}: through a Ray client the rollouts' actors cannot be"
                " watched; start pytest on a node of the cluster, or with ray job submit"
            )
        # Ray reports to its makers unless told not to: a test run must not.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        # On loopback alone: nothing outside this machine has a part in it.
        local = {
            # Ray starts a process a CPU in advance: no more than there will be actors.
            "num_cpus": envs + max(1, min(envs, len(list_gpus()))),
            "object_store_memory": OBJECT_STORE_BYTES,
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
        }
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if address and address != "local":
                    ray.init(**quiet)
                    return
                try:
                    ray.init(**local, **quiet)
                except ValueError:
                    # There is one on this node, for which none of this may be said.
                    ray.init(**quiet)
        except (Exception, SystemExit) as error:
            named = f" at RAY_ADDRESS={address}" if address else ""
            words = " ".join(str(error).split())
            raise UsageError(
                f"--vla-executor=ray: no connection to a Ray cluster{named}: {words[:300]}"
                " (RAY_ADDRESS=local starts one on this machine)"
            ) from error


def require_ray() -> None:
    """Look for Ray without importing it.

    Raises:
        UsageError: it is not installed; says how to install it.
    """
    if importlib.util.find_spec("ray") is None:
        raise UsageError(f"--vla-executor=ray needs the extra ray: {INSTALL}")


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray installs handlers that end the process; a run's own, which report it, stay."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            if handler is not None:
                signal.signal(number, handler)
