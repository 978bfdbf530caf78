"""Everything of a LIBERO world that can be compared, and the comparison.

It does not use the adapter's own fingerprint: it reads every array of MuJoCo's model and data, the
controller and the gripper by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

if TYPE_CHECKING:
    from pytest_vla_shift.shifts.protocol import Receipt
    from pytest_vla_shift.simulators.libero_simulator import LiberoSimulator

CAMERAS = ("agentview", "robot0_eye_in_hand")
LEVELS = ("L1", "L2", "L3")
SETTLE = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0], (10, 1))
MOVE = np.tile([0.3, -0.2, -0.4, 0.1, -0.1, 0.2, 1.0], (5, 1))

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
Arrays = dict[str, Array]

# Compiled meshes and textures: 240 MB that are compared once a level of every axis, not more often.
BULK = ("tex_data", "mesh_", "bvh_")

# Work space and statistics of MuJoCo's last call, written anew before they are read.
SCRATCH = ("arena", "buffer", "timer", "contact", "solver", "efc_", "iefc_", "iLD")


def numbers(value: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """One side of a receipt."""
    assert isinstance(value, list)
    return np.array(value, dtype=np.float64)


def turn_of(receipt: Receipt, *, frame: str) -> Rotation:
    """The rotation from before to after (wxyz), in the ``world``'s frame or the ``own`` one."""
    before, after = (
        Rotation.from_quat(np.roll(numbers(quat), -1)) for quat in (receipt.before, receipt.after)
    )
    return before.inv() * after if frame == "own" else after * before.inv()


def model_arrays(simulator: LiberoSimulator, *, bulk: bool = False) -> Arrays:
    """Every array and number of MjModel, and of the structures in it."""
    assert simulator._world is not None
    model = simulator._world.model
    parts = {"model": model, "opt": model.opt, "stat": model.stat}
    parts |= {f"vis.{n}": getattr(model.vis, n) for n in dir(model.vis) if n[0].islower()}
    return {
        f"{part}.{name}": np.array(getattr(owner, name))
        for part, owner in parts.items()
        for name in dir(owner)
        if not name.startswith("_") and (bulk or not name.startswith(BULK))
        if isinstance(getattr(owner, name), np.ndarray | int | float)
    }


def world_arrays(simulator: LiberoSimulator) -> Arrays:
    """MuJoCo's data, the integration state, the arm's controller and the gripper."""
    assert simulator._world is not None
    model, data, robot = (
        simulator._world.model,
        simulator._world.data,
        simulator._world.env.robots[0],
    )
    out = {
        f"data.{name}": np.array(getattr(data, name))
        for name in dir(data)
        if not name.startswith(("_", *SCRATCH))
        if isinstance(getattr(data, name), np.ndarray)
    }
    state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    out["state.integration"] = state
    for owner, values in (("controller", robot.controller), ("gripper", robot.gripper)):
        for name, value in vars(values).items():
            if isinstance(value, np.ndarray | bool | int | float):
                out[f"{owner}.{name}"] = np.array(value)
    return out


def changed(before: Arrays, after: Arrays) -> dict[str, list[int]]:
    """Names of the arrays that differ, with the rows (first index) that do, bit for bit."""
    assert before.keys() == after.keys()
    out: dict[str, list[int]] = {}
    for name, old in before.items():
        new = after[name]
        if old.tobytes() == new.tobytes():
            continue
        a, b = (np.atleast_1d(v).reshape(len(np.atleast_1d(v)), -1) for v in (old, new))
        out[name] = [i for i in range(len(a)) if a[i].tobytes() != b[i].tobytes()]
    return out


def named(simulator: LiberoSimulator, kind: mujoco.mjtObj, count: int) -> list[str]:
    assert simulator._world is not None
    return [mujoco.mj_id2name(simulator._world.model, kind, i) or "" for i in range(count)]


def robot_rows(simulator: LiberoSimulator) -> dict[str, set[int]]:
    """Bodies of the robot, and what hangs on them, by the array family of MuJoCo's data."""
    assert simulator._world is not None
    model = simulator._world.model
    root = named(simulator, mujoco.mjtObj.mjOBJ_BODY, model.nbody).index("robot0_base")
    bodies = {i for i in range(model.nbody) if model.body_rootid[i] == root}
    return {
        "x": bodies,
        "geom_": {i for i in range(model.ngeom) if model.geom_bodyid[i] in bodies},
        "site_": {i for i in range(model.nsite) if model.site_bodyid[i] in bodies},
        "cam_": {i for i in range(model.ncam) if model.cam_bodyid[i] in bodies},
        "light_": {i for i in range(model.nlight) if model.light_bodyid[i] in bodies},
    }


def sees(pictures: Mapping[str, Array], clean: Mapping[str, Array]) -> dict[str, float]:
    """Mean absolute difference of every camera, in grey levels."""
    return {
        camera: float(np.abs(picture.astype(int) - clean[camera].astype(int)).mean())
        for camera, picture in pictures.items()
    }
