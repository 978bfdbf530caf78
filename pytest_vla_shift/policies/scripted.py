"""``scripted``: a privileged waypoint expert for LIBERO, to try everything else with.

It reads object poses from the simulator and never looks through a camera, so a visual shift
cannot touch it: it shows that the machinery measures, not how robust a policy is.
"""

from __future__ import annotations

import functools
import hashlib
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.policies.scripted_plans import plan
from pytest_vla_shift.policies.scripted_world import World
from pytest_vla_shift.protocol.errors import PolicyError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.scripted_skills import Script
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

_BOWL = "pick_up_the_black_bowl_{}_and_place_it_on_the_plate"
_BASKET = "pick_up_the_{}_and_place_it_in_the_basket"

TASKS: dict[str, tuple[str, ...]] = {
    "libero_object": tuple(
        _BASKET.format(thing)
        for thing in (
            "alphabet_soup",
            "cream_cheese",
            "salad_dressing",
            "bbq_sauce",
            "ketchup",
            "tomato_sauce",
            "butter",
            "milk",
            "chocolate_pudding",
            "orange_juice",
        )
    ),
    "libero_spatial": tuple(
        _BOWL.format(place)
        for place in (
            "between_the_plate_and_the_ramekin",
            "next_to_the_ramekin",
            "from_table_center",
            "on_the_cookie_box",
            "in_the_top_drawer_of_the_wooden_cabinet",
            "on_the_ramekin",
            "next_to_the_cookie_box",
            "on_the_stove",
            "next_to_the_plate",
            "on_the_wooden_cabinet",
        )
    ),
    "libero_goal": (
        "open_the_middle_drawer_of_the_cabinet",
        "put_the_bowl_on_the_stove",
        "put_the_wine_bottle_on_top_of_the_cabinet",
        "open_the_top_drawer_and_put_the_bowl_inside",
        "put_the_bowl_on_top_of_the_cabinet",
        "push_the_plate_to_the_front_of_the_stove",
        "put_the_cream_cheese_in_the_bowl",
        "turn_on_the_stove",
        "put_the_bowl_on_the_plate",
        "put_the_wine_bottle_on_the_rack",
    ),
}
"""What it may be asked for: task suite -> tasks of which it solved at least 9 of the ten clean
episodes 0 to 9 within the suite's horizon. ``benchmarks/expert_table.py`` measures it."""


class Scripted:
    """Waypoints from ground truth: closed loop, deterministic, one action a decision.

    When a plan has ended and the task is not solved (an object slipped, say) it begins again
    from what it then sees, until the rollout is over.
    """

    def __init__(self) -> None:
        self._spec = PolicySpec(
            name="scripted", revision=_revision(), privileged=True, language=False
        )
        self._world = World()
        self._episode: EpisodeInfo | None = None
        self._script: Script | None = None
        self._goal = 0

    @property
    def spec(self) -> PolicySpec:
        """No cameras, ground truth, seven numbers, asked at every step."""
        return self._spec

    @property
    def note(self) -> str:
        """What it is doing, in words, for people who watch it."""
        return self._world.note

    def session(self) -> Scripted:
        """Another one, which remembers another rollout."""
        return type(self)()

    def unsupported(self, task_suite: str, task: str) -> str | None:
        """Why it cannot be asked for a task: it is not among :data:`TASKS`."""
        known = TASKS.get(task_suite)
        if known is None:
            return f"scripted can do tasks of {', '.join(TASKS)}, and none of {task_suite!r}"
        if task not in known:
            return f"scripted cannot do {task!r}; of {task_suite} it can do {', '.join(known)}"
        return None

    def reset(self, episode: EpisodeInfo, seed: int) -> None:  # noqa: ARG002
        """Begin a rollout. The seed decides nothing: nothing here is random.

        Raises:
            PolicyError: the episode's goal is not told; it is what the expert works towards.
        """
        if not episode.goal.predicates:
            raise PolicyError(f"scripted needs the goal of {episode.episode.task!r}, not told")
        self._world = World()
        self._episode = episode
        self._script = None
        self._goal = 0

    def act(self, observation: Observation) -> NDArray[np.float64]:
        """The next action, (1, 7) in [-1, 1].

        Raises:
            PolicyError: called before ``reset``, or the observation lacks ground truth.
        """
        if self._episode is None:
            raise PolicyError("act before reset: there is no goal yet")
        self._world.update(observation)
        goals = self._episode.goal.predicates
        for _ in range(len(goals) + 1):
            if self._script is None:
                goal = goals[self._goal % len(goals)]
                self._script = plan(self._world, goal, self._episode.instruction)
            try:
                step = next(self._script)
            except StopIteration:
                self._script = None
                self._goal += 1
                continue
            return np.clip(step, -1.0, 1.0)[np.newaxis]
        # Every plan holds its goal for reached, and the simulator does not: nothing to add.
        return np.zeros((1, self._spec.action_dim))

    def close(self) -> None:
        """Nothing to free."""


@functools.cache
def _revision() -> str:
    """Digest of the expert's sources: its answers may change with any of them."""
    digest = hashlib.sha256()
    package = resources.files("pytest_vla_shift.policies")
    for file in sorted(package.iterdir(), key=lambda entry: entry.name):
        if file.name.startswith("scripted") and file.name.endswith(".py"):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return f"sha256:{digest.hexdigest()[:16]}"
