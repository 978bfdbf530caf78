"""The whole chain on the toy: pytest, the wire, a server of vla-eval or of ours, a policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from vla_eval.api import serve_background
from vla_eval.model_servers.predict import PredictModelServer
from vla_eval.specs import GRIPPER_CLOSE_POS, IMAGE_RGB, LANGUAGE, POSITION_DELTA, ROTATION_AA

from pytest_vla_shift.policies.profile import read_profile
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.serving.vla_eval import open_service
from pytest_vla_shift.protocol.observation import Observation
from tests.fakes.services import answering
from tests.fakes.toy_policies import Seer
from tests.fakes.toy_profile import toy_text
from tests.plugin.toy_project import ToyProject
from tests.policies.observations import INFO

PROFILE = toy_text(
    ('"openpi"', '"vla-eval"'),
    ('"prompt"', '"task_description"'),
    ('key = "front"', 'key = "images/front"'),
    ('key = "state"', 'key = "states"'),
    ('"eef_axis_angle"', '"eef_axis_angle_short"'),
    (
        """columns = [0, 1, 2, 3, 4, 5, 6]
to = [0, 1, 2, 3, 4, 5, 6]
""",
        """columns = [0, 1, 2, 3, 4, 5]
to = [0, 1, 2, 3, 4, 5]
low = -1.0
high = 1.0

[[actions]]
key = "actions"
columns = [6]
to = [6]
transform = "sign"
""",
    ),
)

FEW = ("--vla-episodes=1", "--vla-task=reach_left")


class TheirSeer(PredictModelServer):  # type: ignore[misc]
    """The seeing policy as a user of vla-eval would serve it."""

    def __init__(self) -> None:
        super().__init__(chunk_size=4)
        self._seers: dict[str, Seer] = {}

    async def on_episode_start(self, config: Any, ctx: Any) -> None:
        self._seers[ctx.session_id] = Seer()
        self._seers[ctx.session_id].reset(INFO, 0)
        await super().on_episode_start(config, ctx)

    def predict(self, obs: Any, ctx: Any) -> dict[str, Any]:
        picture = np.ascontiguousarray(obs["images"]["front"][:, ::-1])
        proprio = {"eef_pos": obs["states"][:3]}
        seen = Observation({"front": picture}, proprio, obs["task_description"], ctx.step)
        return {"actions": self._seers[ctx.session_id].act(seen)}

    def get_observation_params(self) -> dict[str, Any]:
        return {"send_state": True}

    def get_action_spec(self) -> dict[str, Any]:
        return {"position": POSITION_DELTA, "rotation": ROTATION_AA, "gripper": GRIPPER_CLOSE_POS}

    def get_observation_spec(self) -> dict[str, Any]:
        return {"image": IMAGE_RGB, "language": LANGUAGE}


@contextmanager
def theirs(_: Path) -> Iterator[str]:
    with serve_background(TheirSeer()) as handle:
        yield handle.url


@contextmanager
def ours(profile: Path) -> Iterator[str]:
    with answering(open_service(Host(Seer(), read_profile(str(profile))), port=0)) as service:
        yield service.url


def test_outcomes_are_those_in_process_whoever_serves(tmp_path: Path) -> None:
    project = ToyProject(tmp_path / "project")
    profile = project.path / "toy.toml"
    profile.write_text(PROFILE)
    project.run(*FEW, "--vla-run=inside", policy="tests.fakes.toy_policies:Seer")
    inside = project.measured("inside")
    assert len(inside) >= 5
    assert len({row[3] for row in inside}) == 2  # some succeed, some do not
    for name, server in (("theirs", theirs), ("ours", ours)):
        with server(profile) as url:
            project.run(
                *FEW,
                f"--vla-run={name}",
                f"--vla-policy-url={url}",
                "--vla-policy-arg=profile=toy.toml",
                policy="vla-eval",
            )
        assert project.measured(name) == inside, name
    (note,) = {row["seed_note"] for row in project.rows("theirs")}
    assert note == "not supported"
