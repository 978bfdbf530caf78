"""A process of its own on a store, for tests of what several processes do to one.

python -m tests.rollouts.store_child hold DIRECTORY KEY      until it is told to stop
python -m tests.rollouts.store_child full DIRECTORY BYTES    no file may grow beyond BYTES
python -m tests.rollouts.store_child once DIRECTORY BYTES    until something did not fit
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import numpy as np

from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.store import Store


def hold(directory: Path, key: str) -> None:
    """Claim ``key`` and keep it until a line comes in or the process is killed."""
    with Store(directory, "child").claim(key):
        print("held", flush=True)
        sys.stdin.readline()


def full(directory: Path, limit: int, *, once: bool) -> None:
    """Write the records of ``rows.json`` while the disk takes no more than ``limit`` bytes a file.

    Prints the key and ``written`` or the error of each.
    """
    rows = json.loads((directory / "rows.json").read_text())
    store = Store(directory, "child")
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    noise = np.random.default_rng(0).uniform(size=(60, 7))
    for row in rows:
        record = RolloutRecord.from_json(row)
        try:
            store.started(record.key, "cell")
            store.write(record, noise if row["steps"] else None)
        except OSError as error:
            print(record.key, type(error).__name__)
            if once:
                resource.setrlimit(
                    resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                )
        else:
            print(record.key, "written")


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(Path(sys.argv[2]), sys.argv[3])
    else:
        full(Path(sys.argv[2]), int(sys.argv[3]), once=sys.argv[1] == "once")
