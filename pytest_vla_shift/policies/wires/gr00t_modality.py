"""What a GR00T server says of its observations and actions, against a profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.agreement import Row
from pytest_vla_shift.policies.wires.gr00t_codec import Modality, modality
from pytest_vla_shift.policies.wires.gr00t_layout import ACTION, STATE, VIDEO

if TYPE_CHECKING:
    from pytest_vla_shift.policies.profile import Profile

ALIASES = (
    ("video.res256_image_side_0", "video.robot0_agentview_left"),
    ("video.res256_image_side_1", "video.robot0_agentview_right"),
    ("video.res256_image_wrist_0", "video.robot0_eye_in_hand"),
    ("annotation.human.action.task_description", "annotation.human.task_description"),
)
"""Names of the same thing: RoboCasa's before, and since, RoboCasa365."""

MODALITIES = ("video", "state", "action", "language")


@dataclass(frozen=True, slots=True)
class Agreement:
    """A profile as a server wants it.

    Attributes:
        profile: with the server's names, without what it does not want.
        rows: everything that could be compared.
        chunk: actions in an answer; None if the server does not say.
    """

    profile: Profile
    rows: tuple[Row, ...]
    chunk: int | None


def read(answer: object) -> dict[str, Modality]:
    """What of the modalities a server says something about.

    Raises:
        CodecError: one of them is malformed.
    """
    if not isinstance(answer, Mapping):
        return {}
    found = {name: modality(answer.get(name)) for name in MODALITIES}
    return {name: said for name, said in found.items() if said is not None}


def agree(profile: Profile, said: Mapping[str, Modality]) -> Agreement:
    """``profile`` as a server wants it that says ``said``; as it is where that says nothing."""
    rows: list[Row] = []
    if "video" in said:
        wanted = _full(said["video"], VIDEO)
        images = tuple(
            replace(image, key=key)
            for image in profile.images
            if (key := _among(image.key, wanted)) is not None
        )
        rows += _compared(
            "images", wanted, [i.key for i in profile.images], [i.key for i in images]
        )
        rows.append(_one_moment("images", said["video"]))
        profile = replace(profile, images=images)
    if "state" in said:
        wanted = _full(said["state"], STATE)
        states = tuple(state for state in profile.states if state.key in wanted)
        rows += _compared(
            "states", wanted, [s.key for s in profile.states], [s.key for s in states]
        )
        rows.append(_one_moment("states", said["state"]))
        profile = replace(profile, states=states)
    if "language" in said:
        wanted = list(said["language"].keys)
        key = _among(profile.instruction, wanted)
        rows += _compared("language", wanted, [profile.instruction], [] if key is None else [key])
        rows.append(_one_moment("language", said["language"]))
        profile = profile if key is None else replace(profile, instruction=key)
    chunk = None
    if "action" in said:
        given = _full(said["action"], ACTION)
        ours = list(profile.action_widths)
        rows.append(Row("actions", _listed(given), _listed(ours), sorted(given) == sorted(ours)))
        steps = said["action"].steps
        chunk = len(steps)
        together = bool(steps) and steps == tuple(range(steps[0], steps[0] + chunk))
        rows.append(
            Row(
                "chunk",
                f"{chunk} actions" if together else f"at {list(steps)}",
                f"replan {profile.replan}"
                if together
                else "actions that follow each other step by step",
                together,
            )
        )
    return Agreement(profile, tuple(rows), chunk or None)


def names(key: str) -> list[str]:
    """``key``, and other names of the same."""
    return [key, *(b if a == key else a for a, b in ALIASES if key in (a, b))]


def _full(said: Modality, prefix: str) -> list[str]:
    """Keys with the modality before them."""
    return [key if key.startswith(prefix) else prefix + key for key in said.keys]


def _among(key: str, wanted: Sequence[str]) -> str | None:
    """``key``, or another name for it, whichever is wanted."""
    return next((name for name in names(key) if name in wanted), None)


def _compared(
    item: str, wanted: Sequence[str], ours: Iterable[str], sent: Sequence[str]
) -> list[Row]:
    return [Row(item, _listed(wanted), _listed(ours), set(wanted) == set(sent))]


def _one_moment(item: str, said: Modality) -> Row:
    return Row(
        f"{item}: moments", f"{len(said.steps)}, at {list(said.steps)}", "1", len(said.steps) == 1
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
