"""Everything in a MuJoCo world that could differ between two arms: saved, restored, hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from libero.libero.envs.bddl_base_domain import BDDLBaseDomain

    from pytest_vla_shift.protocol.observation import Vector

# Bulk geometry, pictures and indices into them: compiled once, never written, megabytes to hash.
_BULK: tuple[str, ...] = (
    *("bvh_", "mesh_", "oct_", "tex_", "hfield_", "skin_", "flex_", "flexedge_"),
    *("name_", "names_", "text_", "key_", "numeric_", "tuple_", "paths"),
)

# Structures inside MjModel whose members are scalars or small arrays.
_STRUCTURES = {
    "opt": ("opt",),
    "stat": ("stat",),
    "vis.headlight": ("vis", "headlight"),
    "vis.map": ("vis", "map"),
    "vis.quality": ("vis", "quality"),
    "vis.scale": ("vis", "scale"),
    "vis.rgba": ("vis", "rgba"),
}

# MuJoCo's integration state, part by part: what mj_step reads (simulation/state in its manual).
_STATE = {
    "time": mujoco.mjtState.mjSTATE_TIME,
    "qpos": mujoco.mjtState.mjSTATE_QPOS,
    "qvel": mujoco.mjtState.mjSTATE_QVEL,
    "act": mujoco.mjtState.mjSTATE_ACT,
    "qacc_warmstart": mujoco.mjtState.mjSTATE_WARMSTART,
    "ctrl": mujoco.mjtState.mjSTATE_CTRL,
    "qfrc_applied": mujoco.mjtState.mjSTATE_QFRC_APPLIED,
    "xfrc_applied": mujoco.mjtState.mjSTATE_XFRC_APPLIED,
    "eq_active": mujoco.mjtState.mjSTATE_EQ_ACTIVE,
    "mocap_pos": mujoco.mjtState.mjSTATE_MOCAP_POS,
    "mocap_quat": mujoco.mjtState.mjSTATE_MOCAP_QUAT,
    "userdata": mujoco.mjtState.mjSTATE_USERDATA,
    "plugin": mujoco.mjtState.mjSTATE_PLUGIN,
}


def model_fields(model: mujoco.MjModel) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Name and value of every field of the model that a reset or a shift can touch.

    Arrays are views into the model; scalars of its structures come as 0-d copies.
    """
    for name in sorted(dir(model)):
        if name.startswith(("_", *_BULK)):
            continue
        value = getattr(model, name)
        if isinstance(value, np.ndarray):
            yield f"model.{name}", value
    for prefix, path in _STRUCTURES.items():
        structure = _follow(model, path)
        for name in sorted(dir(structure)):
            value = getattr(structure, name)
            if not name.startswith("_") and isinstance(value, np.ndarray | int | float):
                yield f"model.{prefix}.{name}", np.asarray(value)


def state_fields(model: mujoco.MjModel, data: mujoco.MjData) -> Iterator[tuple[str, Vector]]:
    """Name and value of every part of the integration state, as float64 copies."""
    for name, part in _STATE.items():
        value = np.empty(mujoco.mj_stateSize(model, part))
        mujoco.mj_getState(model, data, value, part)
        yield f"state.{name}", value


@dataclass(frozen=True)
class ModelSnapshot:
    """The model as compiled, to be written back whatever an episode or a shift did to it."""

    values: Mapping[str, NDArray[np.generic]]

    @classmethod
    def of(cls, model: mujoco.MjModel) -> ModelSnapshot:
        """Copies of every field of :func:`model_fields`."""
        return cls({name: value.copy() for name, value in model_fields(model)})

    def restore(self, model: mujoco.MjModel) -> list[str]:
        """Write back what differs; returns the names of the fields that did."""
        changed: list[str] = []
        for name, value in model_fields(model):
            saved = self.values[name]
            if value.tobytes() == saved.tobytes():
                continue
            changed.append(name)
            if value.ndim:
                value[...] = saved
            else:
                _, *path, last = name.split(".")
                setattr(_follow(model, path), last, saved.item())
        return changed


def fingerprint(env: BDDLBaseDomain) -> dict[str, str]:
    """Field name -> digest of everything that decides what happens next, and what it looks like.

    The integration state, the model, the arm's controller (its goal and gains are not part of
    the state) and the gripper's current action (an integrator of its own).
    """
    model, data, robot = env.sim.model._model, env.sim.data._data, env.robots[0]
    fields: dict[str, NDArray[np.generic]] = dict(state_fields(model, data))
    fields.update(model_fields(model))
    for name, value in vars(robot.controller).items():
        if isinstance(value, np.ndarray | bool | int | float):
            fields[f"controller.{name}"] = np.asarray(value)
    fields["gripper.current_action"] = np.asarray(robot.gripper.current_action)
    return {name: digest(value) for name, value in sorted(fields.items())}


def digest(value: NDArray[np.generic] | str) -> str:
    """BLAKE2b of a value's bytes together with its type and shape, as 32 hex digits."""
    hasher = hashlib.blake2b(digest_size=16)
    if isinstance(value, str):
        hasher.update(value.encode())
    else:
        hasher.update(f"{value.dtype.str}{value.shape}".encode())
        hasher.update(np.ascontiguousarray(value).tobytes())
    return hasher.hexdigest()


def _follow(model: mujoco.MjModel, path: tuple[str, ...] | list[str]) -> object:
    found: object = model
    for name in path:
        found = getattr(found, name)
    return found
