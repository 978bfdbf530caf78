"""vla-eval 0.8.0's model servers without their weights: their own code around a model that records.

Each is made without its constructor, which loads weights, and given what that would have set. What
its ``predict`` does with an observation, and what it makes of the model's numbers, is its own.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from vla_eval.model_servers.predict import PredictModelServer

CHUNK = np.tile(np.array([0.1, -0.2, 0.3, 0.05, -0.05, 0.15, 1.0]), (4, 1))
"""What a model gives, before its server makes LIBERO's of it: the last number is as open as can be
for those whose gripper goes from 0 to 1."""


OFT_MODULES = (
    "experiments",
    "experiments.robot",
    "experiments.robot.openvla_utils",
    "prismatic",
    "prismatic.vla",
    "prismatic.vla.constants",
)
"""Of OpenVLA-OFT's repository, which its server imports at every call; whoever makes one takes them
away again."""


@dataclass
class Model:
    """Records what it is given."""

    seen: list[Any] = field(default_factory=list)


def bare(module: str, name: str, chunk_size: int | None, **fields: object) -> Any:
    """A server without its constructor."""
    kind = getattr(importlib.import_module(f"vla_eval.model_servers.{module}"), name)
    server = object.__new__(kind)
    PredictModelServer.__init__(server, chunk_size=chunk_size)
    for key, value in fields.items():
        setattr(server, key, value)
    return server


@contextmanager
def absent(**modules: object) -> Iterator[None]:
    """Modules that a server imports and does not need here, as far as they are not installed."""
    made = []
    for name, content in modules.items():
        dotted = name.replace("__", ".")
        try:
            importlib.import_module(dotted)
        except ImportError:
            module = ModuleType(dotted)
            vars(module).update(content if isinstance(content, dict) else {})
            sys.modules[dotted] = module
            made.append(dotted)
    try:
        yield
    finally:
        for dotted in made:
            sys.modules.pop(dotted, None)


def of_openpi(
    module: str, name: str, model: Model, fields: dict[str, object], **more: object
) -> Any:
    """A server around a policy of openpi's; ``more`` is what it has beside that."""

    def infer(observation: dict[str, Any]) -> dict[str, Any]:
        model.seen.append(observation)
        return {"actions": CHUNK.copy()}

    return bare(
        module,
        name,
        10,
        **{
            "image_key": "observation/image",
            "wrist_image_key": "observation/wrist_image",
            "state_key": "observation/state",
            "state_dim": 8,
            "image_resolution": None,
            "_policy": SimpleNamespace(infer=infer),
            **more,
            **fields,
        },
    )


def pi0(model: Model, **fields: object) -> Any:
    return of_openpi("pi0", "Pi0ModelServer", model, fields)


def oft(model: Model, **fields: object) -> Any:
    def get_vla_action(*arguments: Any) -> list[Any]:
        model.seen.append(arguments[3])
        return list(CHUNK.copy())

    for name in OFT_MODULES:
        sys.modules[name] = ModuleType(name)
    vars(sys.modules["experiments.robot.openvla_utils"])["get_vla_action"] = get_vla_action
    vars(sys.modules["prismatic.vla.constants"])["PROPRIO_DIM"] = 8
    nothing = dict.fromkeys(("_cfg", "_vla", "_processor", "_action_head", "_proprio_projector"))
    given = {"num_images_in_input": 2, "use_proprio": True, **nothing, **fields}
    return bare("oft", "OFTModelServer", 8, **given)


def openvla(model: Model) -> Any:
    """Its own preprocessing of the picture; not its tensors."""
    server = bare("openvla", "OpenVLAModelServer", 1, jpeg_roundtrip=False, center_crop=False)

    def predict(observation: Any, _: object) -> dict[str, Any]:
        picture = np.asarray(server._preprocess_image(observation))
        model.seen.append({"image": picture, "prompt": observation["task_description"]})
        return {"actions": CHUNK[0].copy()}

    server.predict = predict
    return server


def groot(model: Model, **fields: object) -> Any:
    def get_action(observation: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        model.seen.append(observation)
        parts = np.split(CHUNK[None], [3, 6], axis=-1)
        return dict(zip(("xyz", "rpy", "gripper"), parts, strict=True)), {}

    def keys(*names: str) -> SimpleNamespace:
        return SimpleNamespace(modality_keys=list(names))

    policy = SimpleNamespace(get_action=get_action, reset=lambda: None)
    return bare(
        "groot",
        "GR00TModelServer",
        16,
        **{
            "video_key": None,
            "action_keys": None,
            "invert_gripper": True,
            "image_resolution": None,
            "bridge_rotation": False,
            "_extra_obs_params": {},
            "_state_dims": {"x": 3, "rotation": 3, "gripper": 2},
            "_policy": policy,
            "_language_key": "annotation.human.action.task_description",
            "_modality_config": {
                "video": keys("image", "wrist_image"),
                "state": keys("x", "rotation", "gripper"),
                "action": keys("xyz", "rpy", "gripper"),
            },
            **fields,
        },
    )


def robocasa365_groot(model: Model) -> Any:
    def get_action(observation: dict[str, Any]) -> dict[str, Any]:
        model.seen.append(observation)
        widths = {
            "action.end_effector_position": 3,
            "action.end_effector_rotation": 3,
            "action.gripper_close": 1,
            "action.base_motion": 4,
            "action.control_mode": 1,
        }
        at, found = 0, {}
        for key, width in widths.items():
            found[key] = np.tile(np.arange(at, at + width) / 12.0, (1, 16, 1))
            at += width
        return found

    return bare(
        "robocasa365_groot",
        "RoboCasa365GR00TModelServer",
        16,
        _policy=SimpleNamespace(get_action=get_action),
    )


def cogact(model: Model) -> Any:
    def predict_action(picture: Any, prompt: str, **_: object) -> tuple[Any, None]:
        model.seen.append({"image": np.asarray(picture), "prompt": prompt})
        return CHUNK.copy(), None

    return bare(
        "cogact",
        "CogACTModelServer",
        16,
        unnorm_key=None,
        cfg_scale=1.5,
        use_ddim=True,
        num_ddim_steps=10,
        _model=SimpleNamespace(predict_action=predict_action),
    )


def db_cogact(model: Model, **fields: object) -> Any:
    """Its own lookup of the chunk's length, and its own choice of pictures; not its tensors."""
    server = bare(
        "dexbotic.cogact",
        "CogACTModelServer",
        12,
        **{"chunk_size_map": None, "camera_keys": None, **fields},
    )

    def predict(observation: Any, _: object) -> dict[str, Any]:
        pictures = server._obs_to_pil_images(observation)
        model.seen.append({str(at): np.asarray(one) for at, one in enumerate(pictures)})
        return {"actions": CHUNK.copy()}

    server.predict = predict
    return server


def starvla(model: Model, **fields: object) -> Any:
    def predict_action(examples: list[dict[str, Any]]) -> dict[str, Any]:
        pictures = {str(at): np.asarray(one) for at, one in enumerate(examples[0]["image"])}
        model.seen.append({**examples[0], **pictures})
        return {"normalized_actions": CHUNK[None].copy()}

    with absent(cv2={}, transforms3d={}, transforms3d__euler={"euler2axangle": None}):
        return bare(
            "starvla",
            "StarVLAModelServer",
            1,
            **{
                "gripper_invert": True,
                "euler_to_axisangle": False,
                "_image_size": None,
                "_ensemble_horizon": None,
                "_ensemblers": {},
                "_observation_params": {},
                "_unnorm_low": -np.ones(7),
                "_unnorm_high": np.ones(7),
                "_unnorm_mask": np.array([True] * 6 + [False]),
                "_model": SimpleNamespace(predict_action=predict_action),
                **fields,
            },
        )


def vlanext(model: Model) -> Any:
    """Its own history of states; not its tensors."""
    with absent(torch={}):
        server = bare("vlanext", "VLANeXtModelServer", 8, _state_histories={})

    def predict(observation: Any, context: Any) -> dict[str, Any]:
        history = server._state_histories[context.session_id]
        model.seen.append({**observation["images"], "history": len(history)})
        return {"actions": CHUNK.copy()}

    server.predict = predict
    return server


def mme_vla(model: Model, **fields: object) -> Any:
    more: dict[str, object] = {"use_history": False, "_state_warned": False}
    return of_openpi("mme_vla", "MmeVlaModelServer", model, fields, **more)


def lerobot(model: Model, **fields: object) -> Any:
    """Its own choice of pictures and state; not its tensors."""
    server = bare(
        "lerobot",
        "LeRobotModelServer",
        10,
        **{
            "state_key": "observation.state",
            "_expected_image_keys": ["observation.images.image", "observation.images.image2"],
            "_image_keys_arg": None,
            "_logged_image_map": False,
            "_policy": SimpleNamespace(reset=lambda: None),
            **fields,
        },
    )

    def predict(observation: Any, _: object) -> dict[str, Any]:
        images = observation["images"]
        named = {
            policy: np.asarray(images[ours])
            for ours, policy in server._resolve_image_map(images).items()
        }
        model.seen.append({**named, "state": observation.get("states")})
        return {"actions": CHUNK.copy()}

    server.predict = predict
    return server


def xvla(_: Model, profile: str | None, width: int | None = 7) -> Any:
    server = bare(
        "xvla",
        "XVLAModelServer",
        30,
        benchmark_profile=profile,
        output_action_dim=width,
        use_predicted_proprio=True,
        _euler_offset=None,
        _image_keys=(),
        _last_raw_actions={},
        _current_xyz={},
    )
    if profile is not None:
        found = importlib.import_module("vla_eval.model_servers.xvla")._get_profile(profile)
        server._image_keys = found.image_keys
        server.use_predicted_proprio = found.use_predicted_proprio
        server.output_action_dim = found.output_action_dim
    return server


def molmobot(_: Model) -> Any:
    kind = importlib.import_module("vla_eval.model_servers.molmobot").MolmoBotModelServer
    return object.__new__(kind)


def rtc(_: Model) -> Any:
    return bare("rtc", "RTCModelServer", 8)


def robodojo_pi05(_: Model) -> Any:
    return bare("robodojo_pi05", "RoboDojoPi05ModelServer", 50)


def behavior1k_baseline(_: Model) -> Any:
    return bare("behavior1k_baseline", "Behavior1KBaselineModelServer", 1, action_dim=23)


def behavior1k_demo_replay(_: Model) -> Any:
    fields = {"action_dim": 23, "_step_idx": {}}
    return bare("behavior1k_demo_replay", "Behavior1KDemoReplayModelServer", 1, **fields)
