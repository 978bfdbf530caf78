"""What is around the process that runs pytest, and what its actors need of it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

VARIABLES = ("MUJOCO_GL", "LIBERO_CONFIG_PATH")
"""Environment variables that decide what a simulator is; all others are the node's own."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Sent to an actor, and entered there before anything else.

    Attributes:
        directory: relative paths in arguments of policies are relative to it.
        paths: where modules lie, beside the installed ones.
        variables: of :data:`VARIABLES`, those that are set.
    """

    directory: str
    paths: tuple[str, ...]
    variables: Mapping[str, str]

    @classmethod
    def here(cls, paths: Sequence[str]) -> Surroundings:
        """Those of this process, with ``paths`` first."""
        own = [path for path in sys.path if path]
        return cls(
            os.getcwd(),  # noqa: PTH109
            tuple(dict.fromkeys([*paths, *own])),
            {name: os.environ[name] for name in VARIABLES if name in os.environ},
        )

    def enter(self) -> None:
        """Make them this process's, as far as this node has them."""
        os.environ.update(self.variables)
        with suppress(OSError):
            os.chdir(self.directory)
        sys.path.extend(path for path in self.paths if path not in sys.path)


def node() -> str:
    """The node that this actor is on, for people: its name, and how Ray's own tools call it."""
    import ray

    return f"{platform.node()}/{ray.get_runtime_context().get_node_id()[:8]}"
