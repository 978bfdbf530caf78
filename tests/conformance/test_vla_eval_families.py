"""Every model server that vla-eval 0.8.0 ships: what it is sent, or why it is refused."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from vla_eval import model_servers
from vla_eval.api import serve_background

from pytest_vla_shift.policies.mapping import payload
from pytest_vla_shift.policies.profile import read_profile
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.vla_eval import vla_eval
from pytest_vla_shift.protocol.errors import UsageError
from tests.conformance import vla_eval_families as families
from tests.conformance.vla_eval_families import CHUNK, OFT_MODULES, Model
from tests.policies.observations import INFO
from tests.policies.shipped_profiles import observation_for

LOOK = observation_for(read_profile("vla-eval-libero"))
SENT: dict[str, Any] = payload(read_profile("vla-eval-libero"), LOOK)
BASE, WRIST = SENT["images/agentview"], SENT["images/wrist"]

pytestmark = pytest.mark.filterwarnings("ignore:vla-eval.*:UserWarning")

Check = Callable[[dict[str, Any]], None]
"""Of what the model was given."""


@pytest.fixture(autouse=True)
def without_openvla_oft() -> Iterator[None]:
    yield
    for name in OFT_MODULES:
        sys.modules.pop(name, None)


@dataclass(frozen=True)
class Case:
    """A server on LIBERO.

    Attributes:
        make: gives it, around a model.
        args: of ``--vla-policy-arg``.
        module: of vla-eval, below ``model_servers``.
        gripper: what the simulator is given where the model says 1.
        sees: of what the model was given.
        refused: words of the refusal; empty for a server that is served.
    """

    make: Callable[[Model], Any]
    module: str
    sees: Check = lambda _: None
    gripper: float = 1.0
    args: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), expected)


def openpi(model: dict[str, Any]) -> None:
    same(model["observation/image"], BASE)
    same(model["observation/wrist_image"], WRIST)
    same(model["observation/state"], SENT["states"])
    assert model["prompt"] == LOOK.instruction


def openvla_oft(model: dict[str, Any]) -> None:
    same(model["full_image"], BASE)
    same(model["wrist_image"], WRIST)
    proprio = LOOK.proprio
    same(model["state"][:3], proprio["eef_pos"])
    turn = 2.0 * np.arccos(proprio["eef_quat"][3])  # as robosuite has it: up to 2 pi
    np.testing.assert_allclose(np.linalg.norm(model["state"][3:6]), turn, rtol=1e-6)


def two_of_groot(model: dict[str, Any]) -> None:
    same(model["video"]["image"][0, 0], BASE)
    same(model["video"]["wrist_image"][0, 0], WRIST)
    assert model["language"] == {"annotation.human.action.task_description": [[LOOK.instruction]]}


def one(key: str) -> Check:
    return lambda model: same(model[key], BASE)


def one_small(model: dict[str, Any]) -> None:
    assert model["image"].shape == (224, 224, 3)


def both(base: str, wrist: str) -> Check:
    def check(model: dict[str, Any]) -> None:
        same(model[base], BASE)
        same(model[wrist], WRIST)

    return check


def one_alone(model: dict[str, Any]) -> None:
    same(model["0"], BASE)
    assert "1" not in model
    assert "state" not in model


WANTS_BOTH = {"send_wrist_image": True, "send_state": True}
BOTH_NAMED = both("observation.images.image", "observation.images.image2")

CASES: dict[str, Case] = {
    "pi0": Case(families.pi0, "pi0", openpi),
    "pi0 without wrist and state": Case(
        lambda m: families.pi0(m, wrist_image_key=None, state_key=None),
        "pi0",
        one("observation/image"),
    ),
    "oft": Case(families.oft, "oft", openvla_oft, gripper=-1.0),
    "openvla": Case(families.openvla, "openvla", one_small),
    "groot": Case(families.groot, "groot", two_of_groot, gripper=-1.0),
    "groot, its gripper as it is": Case(
        lambda m: families.groot(m, invert_gripper=False),
        "groot",
        refused="continuous_01",
    ),
    "groot, its gripper told": Case(
        lambda m: families.groot(m, invert_gripper=False),
        "groot",
        two_of_groot,
        gripper=-1.0,
        args={"gripper": "open01"},
    ),
    "cogact": Case(families.cogact, "cogact", one("image")),
    "db_cogact": Case(families.db_cogact, "dexbotic.cogact", one_alone),
    "db_cogact by suite, two cameras": Case(
        lambda m: families.db_cogact(
            m,
            chunk_size_map={"libero_spatial": 12, "libero_object": 16},
            camera_keys=["agentview", "wrist"],
        ),
        "dexbotic.cogact",
        both("0", "1"),
    ),
    "db_cogact by suite, another one": Case(
        lambda m: families.db_cogact(m, chunk_size_map={"libero_10": 15}),
        "dexbotic.cogact",
        refused="trial_suite=",
    ),
    "starvla": Case(families.starvla, "starvla", one_alone, gripper=-1.0),
    "starvla, told what it needs": Case(
        lambda m: families.starvla(m, _observation_params=WANTS_BOTH),
        "starvla",
        both("0", "1"),
        gripper=-1.0,
    ),
    "vlanext": Case(families.vlanext, "vlanext", both("agentview", "wrist")),
    "mme_vla": Case(families.mme_vla, "mme_vla", openpi),
    "mme_vla with history": Case(
        lambda m: families.mme_vla(m, use_history=True),
        "mme_vla",
        refused="send_video_history",
    ),
    "lerobot": Case(families.lerobot, "lerobot", BOTH_NAMED),
    "lerobot, one camera": Case(
        lambda m: families.lerobot(m, _expected_image_keys=["observation.images.image"]),
        "lerobot",
        one("observation.images.image"),
    ),
    "xvla, libero": Case(lambda m: families.xvla(m, "libero"), "xvla", refused="absolute_action"),
    "xvla, calvin": Case(lambda m: families.xvla(m, "calvin"), "xvla", refused="absolute_action"),
    "xvla, simpler": Case(lambda m: families.xvla(m, "simpler"), "xvla", refused="control_mode"),
    "xvla, robotwin": Case(lambda m: families.xvla(m, "robotwin"), "xvla", refused="head_camera"),
    "xvla, without a profile": Case(lambda m: families.xvla(m, None), "xvla", refused="rot6d"),
    "robocasa365_groot": Case(
        families.robocasa365_groot, "robocasa365_groot", refused="base_motion"
    ),
    "molmobot": Case(families.molmobot, "molmobot", refused="joint_positions"),
    "robodojo_pi05": Case(families.robodojo_pi05, "robodojo_pi05", refused="14 numbers"),
    "behavior1k_baseline": Case(
        families.behavior1k_baseline, "behavior1k_baseline", refused="joint_positions_r1pro"
    ),
    "behavior1k_demo_replay": Case(
        families.behavior1k_demo_replay, "behavior1k_demo_replay", refused="joint_positions_r1pro"
    ),
    "rtc": Case(families.rtc, "rtc", refused="trial observation"),
}


def test_every_family_is_here() -> None:
    plumbing = {"base", "chunking", "predict", "serve", "dexbotic"}
    shipped = {module.name for module in pkgutil.iter_modules(model_servers.__path__)}
    covered = {case.module for case in CASES.values()}
    assert covered == (shipped - plumbing) | {"dexbotic.cogact"}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.refused])
def test_its_own_code_finds_in_the_observation_what_its_model_needs(name: str) -> None:
    case, model = CASES[name], Model()
    with serve_background(case.make(model)) as handle:
        policy = vla_eval(**case.args, settings=PolicySettings(url=handle.url, timeout_s=10.0))
        policy.reset(INFO, 0)
        (found,) = policy.act(LOOK)
        policy.close()
    case.sees(model.seen[-1])
    np.testing.assert_array_equal(found[:6], CHUNK[0, :6].astype(np.float32).astype(np.float64))
    assert found[6] == case.gripper
    assert (policy.spec.chunk, policy.spec.replan) == (1, 1)  # they all have a chunk buffer


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.refused])
def test_what_it_cannot_be_given_is_said_before_the_first_episode(name: str) -> None:
    case = CASES[name]
    with serve_background(case.make(Model())) as handle:
        with pytest.raises(UsageError) as caught:
            vla_eval(**case.args, settings=PolicySettings(url=handle.url, timeout_s=10.0))
        assert case.refused in " ".join(str(caught.value).split())


def test_a_kitchens_server_gets_its_own_names_and_gives_twelve_numbers() -> None:
    profile = read_profile("vla-eval-robocasa365")
    look, model = observation_for(profile), Model()
    sent: dict[str, Any] = payload(profile, look)
    with serve_background(families.robocasa365_groot(model)) as handle:
        policy = vla_eval(
            profile="robocasa365", settings=PolicySettings(url=handle.url, timeout_s=10.0)
        )
        policy.reset(INFO, 0)
        (found,) = policy.act(look)
        policy.close()
    seen = model.seen[-1]
    for key, value in sent.items():
        if "/" in key:
            same(seen[key.partition("/")[2]][0, 0], value)
    assert list(seen["annotation.human.task_description"]) == [look.instruction]
    # Each number says which of robocasa's twelve components it is.
    expected = np.arange(12) / 12.0
    expected[[6, 11]] = [1.0, 1.0]
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_groots_server_makes_nonsense_of_liberos_state_and_we_say_so() -> None:
    """Its own code, version 0.8.0: if this fails, it was mended, and the warning can go."""
    model = Model()
    with serve_background(families.groot(model)) as handle:
        with pytest.warns(UserWarning, match="any state of 8 numbers for SimplerEnv's"):
            policy = vla_eval(settings=PolicySettings(url=handle.url, timeout_s=10.0))
        policy.reset(INFO, 0)
        policy.act(LOOK)
        policy.close()
    given = np.concatenate([part[0, 0] for part in model.seen[-1]["state"].values()])
    states = SENT["states"].astype(np.float32)
    same(given[:3], states[:3])
    same(given[3:7], states[[4, 5, 6, 3]])
    np.testing.assert_allclose(given[7], 1.0 - states[7])
