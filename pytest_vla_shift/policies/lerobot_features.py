"""What a LeRobot checkpoint declares, against a profile: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from pytest_vla_shift.policies.agreement import Row
from pytest_vla_shift.policies.profile import ImageMap, Profile, find_profile, shipped
from pytest_vla_shift.protocol.errors import UsageError

WIRE = "lerobot"
PICTURES = "observation.images."
STATE = "observation.state"
ACTION = "action"

DEFAULT_PROFILE = "lerobot-libero"

Resizing = Literal["auto", "any", "none", "pad", "stretch"]
RESIZINGS = ("auto", "any", "none", "pad", "stretch")
"""``auto``: a policy that resizes pictures itself is given the suite's, any other one refuses
another size than its own. ``any``: the suite's, whatever it declares. The rest is as in a
profile."""

_PLACEHOLDERS = frozenset({"groot"})
"""Policies whose processor looks for other pictures than their configuration declares."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a checkpoint's configuration says.

    Attributes:
        type: of LeRobot's policies: ``act``, ``smolvla``.
        images: name, as the preprocessor takes it -> (height, width), or None if it is not said.
        state: how many numbers its state has; None if it takes none.
        others: inputs of any other kind.
        action: how many numbers an action has; None if it is not said.
        resizes: whether it brings pictures to its own size itself.
        unscaled: what is normalised, as text ``action, MEAN_STD``, without statistics for it.
    """

    type: str
    images: Mapping[str, tuple[int, int] | None]
    state: int | None
    others: tuple[str, ...] = ()
    action: int | None = None
    resizes: bool = False
    unscaled: tuple[str, ...] = ()

    @property
    def pictures(self) -> tuple[str, ...]:
        """Names of the pictures that it must be given: those that stay empty are left out."""
        if self.type in _PLACEHOLDERS:
            return ()
        return tuple(key for key in self.images if "empty_camera" not in key)


def read_cameras(text: str) -> dict[str, str]:
    """``image:agentview,image2:robot0_eye_in_hand``: name of a picture -> camera, in order.

    Names get ``observation.images.`` before them where they have no ``observation.image``.

    Raises:
        UsageError: it is not like that, or a name comes twice.
    """
    found: dict[str, str] = {}
    for pair in text.split(","):
        name, separator, camera = (part.strip() for part in pair.partition(":"))
        key = name if name.startswith("observation.image") else PICTURES + name
        if not (name and separator and camera) or key in found:
            raise UsageError(
                f"--vla-policy-arg=cameras: {text!r} is not like"
                " image:agentview,image2:robot0_eye_in_hand, each picture once"
            )
        found[key] = camera
    return found


def chosen_profile(value: str | None, declared: Declared) -> Profile:
    """The profile of ``profile=``; without one, the shipped one that has the checkpoint's pictures.

    Raises:
        UsageError: there is no such profile.
    """
    if value is not None:
        return find_profile(value, WIRE)
    wanted = set(declared.pictures)
    profiles = [find_profile(name, WIRE) for name in shipped(WIRE)]
    profiles.sort(key=lambda profile: profile.name != DEFAULT_PROFILE)
    for profile in profiles:
        if wanted <= {image.key for image in profile.images}:
            return profile
    return profiles[0]


def fitted(
    profile: Profile, declared: Declared, cameras: Mapping[str, str] | None, resizing: Resizing
) -> Profile:
    """``profile`` with the pictures, and the sizes of pictures, that the checkpoint takes.

    Args:
        profile: how a simulator's observations are laid out.
        declared: by the checkpoint.
        cameras: of ``cameras=``; None for the profile's own.
        resizing: of ``resize=``.
    """
    images: Sequence[ImageMap] = profile.images
    if cameras is not None:
        turned = {image.camera: image for image in reversed(images)}
        plain = images[0] if images else ImageMap("", "", "upright", None, "none")
        images = [
            replace(turned.get(camera, plain), key=key, camera=camera)
            for key, camera in cameras.items()
        ]
    elif declared.type not in _PLACEHOLDERS:
        images = [image for image in images if image.key in declared.pictures]
    sized = []
    for image in images:
        size, how = image.size, image.resize
        if resizing != "any" and not (resizing == "auto" and declared.resizes):
            size = size or declared.images.get(image.key)
            how = how if resizing == "auto" else resizing
        sized.append(replace(image, size=size, resize=how if size else "none"))
    states = profile.states if declared.state is not None else ()
    return replace(profile, images=tuple(sized), states=states)


def feature_rows(declared: Declared, profile: Profile) -> list[Row]:
    """The checkpoint against a profile, as :func:`fitted` left it."""
    given = {image.key: image for image in profile.images}
    rows = []
    for key in dict.fromkeys([*declared.pictures, *given]):
        size = declared.images.get(key)
        takes = "no such input" if key not in declared.images else _size(size)
        if declared.resizes and key in declared.images:
            takes += ", or resizes itself"
        known = key in declared.images or declared.type in _PLACEHOLDERS
        image = given.get(key)
        has = "nothing: say cameras=NAME:CAMERA,..." if image is None else image.camera
        name = key.removeprefix(PICTURES)
        rows.append(Row(f"image {name}", takes, has, known and image is not None))
    width = sum(state.width for state in profile.states if state.key == STATE)
    parts = [part.quantity for state in profile.states for part in state.parts]
    if declared.state is not None:
        has = f"{width} numbers: {', '.join(parts)}" if width else "none"
        rows.append(Row("state", f"{declared.state} numbers", has, declared.state == width))
    rows += [Row(key, "an input", "not told", False) for key in declared.others]
    wide = profile.action_widths.get(ACTION, 0)
    said = "not said" if declared.action is None else f"{declared.action} numbers"
    rows.append(Row("action", said, f"{wide} numbers", declared.action in (None, wide)))
    for text in declared.unscaled:
        what, _, how = text.partition(", ")
        rows.append(Row("statistics", f"{what} is scaled by {how}", "not in the checkpoint", False))
    return rows


def read_resizing(text: str) -> Resizing:
    """One of :data:`RESIZINGS`.

    Raises:
        UsageError: it is none.
    """
    if text not in RESIZINGS:
        raise UsageError(f"--vla-policy-arg=resize: {text!r} is none of {', '.join(RESIZINGS)}")
    return cast("Resizing", text)


def _size(size: tuple[int, int] | None) -> str:
    return "any size" if size is None else f"{size[0]} x {size[1]}"
