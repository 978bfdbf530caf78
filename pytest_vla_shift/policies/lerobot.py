"""``lerobot``, ``smolvla`` and ``vla-jepa``: LeRobot checkpoints in this process.

``--vla-checkpoint`` says which; with ``--vla-policy-url=ws://...`` they are asked at a vla-eval
server instead. docs/reference/policies.md has the arguments, docs/policies-in-process.md the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.lerobot_checkpoint import (
    fetched,
    find_library,
    load,
    stay_offline,
)
from pytest_vla_shift.policies.lerobot_declared import declared
from pytest_vla_shift.policies.lerobot_features import (
    chosen_profile,
    feature_rows,
    fitted,
    read_cameras,
    read_resizing,
)
from pytest_vla_shift.policies.lerobot_policy import (
    MUTE,
    LeRobotChoices,
    LeRobotPolicy,
    LeRobotSessions,
    Mode,
    mode_of,
)
from pytest_vla_shift.policies.remote_arguments import truth
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.lerobot_checkpoint import Loaded
    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.policies.settings import PolicySettings

REVISION = "1"


def lerobot(*, settings: PolicySettings, **arguments: str) -> Policy:
    """Whatever policy the checkpoint is of; see :func:`in_process` for the arguments.

    Raises:
        UsageError: it cannot be had; says what is missing and how to get it.
    """
    return _policy("lerobot", None, settings, arguments)


def smolvla(*, settings: PolicySettings, **arguments: str) -> Policy:
    """SmolVLA: as :func:`lerobot`, and the checkpoint must be of it."""
    return _policy("smolvla", "smolvla", settings, arguments)


def vla_jepa(*, settings: PolicySettings, **arguments: str) -> Policy:
    """VLA-JEPA: as :func:`lerobot`, and the checkpoint must be of it."""
    return _policy("vla-jepa", "vla_jepa", settings, arguments)


def in_process(
    name: str,
    kind: str | None,
    settings: PolicySettings,
    *,
    profile: str | None = None,
    cameras: str | None = None,
    mode: str = "auto",
    device: str = "auto",
    resize: str = "auto",
    control_mode: str = "relative",
    seeded: str = "true",
    language: str | None = None,
    strict: str = "true",
    hub_revision: str | None = None,
    online: str = "false",
) -> LeRobotPolicy:
    """The checkpoint of ``settings``, loaded here.

    Args:
        name: what ``--vla-policy`` was given.
        kind: LeRobot's type that it must be of; None for any.
        settings: of the run.
        profile: name or file; None for the shipped one whose pictures the checkpoint takes.
        cameras: ``image:agentview,image2:robot0_eye_in_hand``, instead of the profile's.
        mode: ``chunk``, ``step`` or ``auto``; see :func:`~.lerobot_policy.mode_of`.
        device: of torch; ``auto`` takes CUDA where there is one.
        resize: of pictures: ``auto``, ``any``, ``none``, ``pad`` or ``stretch``.
        control_mode: ``relative`` alone: the suites' simulators take increments.
        seeded: ``false`` where its answers vary on one seed all the same.
        language: whether it reads the instruction; None for what is known of its type.
        strict: ``false`` takes weights that are missing, or too many.
        hub_revision: a commit, if the checkpoint is the name of a repository on the hub.
        online: ``true`` lets LeRobot ask the hub for what is not in this machine's cache.

    Raises:
        UsageError: an argument cannot be read, the library or the checkpoint cannot be had, the
            checkpoint and the profile do not agree, or a trial fails.
    """
    if control_mode != "relative":
        raise UsageError(
            f"--vla-policy-arg=control_mode: {control_mode!r} cannot be had: the suites' simulators"
            " take increments of the end effector's pose (control_mode=relative)"
        )
    chosen = None if cameras is None else read_cameras(cameras)
    resizing, exact = read_resizing(resize), truth("strict", strict)
    may_seed, may_ask = truth("seeded", seeded), truth("online", online)
    version = find_library(name)
    if not may_ask:
        stay_offline()
    folder, source = _folder(name, settings, hub_revision)
    loaded = load(folder, version, device, strict=exact)
    found = declared(loaded)
    if kind not in (None, found.type):
        raise UsageError(
            f"policy {name!r}: the checkpoint is of type {found.type!r}, not {kind!r};"
            " --vla-policy=lerobot takes any"
        )
    fits = fitted(chosen_profile(profile, found), found, chosen, resizing)
    asked = _mode(mode, loaded, name)
    choices = LeRobotChoices(
        name=name,
        revision=(
            f"{REVISION}; {loaded.version}; {loaded.device.partition(':')[0]}; {found.type};"
            f" asked for each {asked}; profile {fits.name} {fits.digest}{source}"
        ),
        profile=fits,
        rows=tuple(feature_rows(found, fits)),
        mode=asked,
        seeded=may_seed,
        language=found.type not in MUTE if language is None else truth("language", language),
    )
    # What is compiled is bound to the object that it was compiled for: a copy would run it.
    if loaded.says("compile_model", False):
        return LeRobotPolicy(loaded, choices)
    return LeRobotSessions(loaded, choices)


def _policy(
    name: str, kind: str | None, settings: PolicySettings, arguments: dict[str, str]
) -> Policy:
    if settings.url is not None:
        from pytest_vla_shift.policies.respecified import Respecified
        from pytest_vla_shift.policies.vla_eval import vla_eval

        # Another name; the rest is of a policy behind that server.
        _check_arguments(f"{name!r} behind a vla-eval server", vla_eval, arguments)
        return Respecified(vla_eval(settings=settings, **arguments), {"name": name})
    _check_arguments(f"{name!r} in this process", in_process, arguments)
    return in_process(name, kind, settings, **arguments)


def _check_arguments(what: str, takes: Callable[..., object], arguments: dict[str, str]) -> None:
    known = set(inspect.signature(takes).parameters) - {"name", "kind", "settings"}
    unknown = sorted(arguments.keys() - known)
    if unknown:
        raise UsageError(
            f"policy {what} takes no {', '.join(unknown)}, but {', '.join(sorted(known))}"
        )


def _folder(name: str, settings: PolicySettings, commit: str | None) -> tuple[Path, str]:
    """Where the checkpoint is, and what the key says of where it came from."""
    checkpoint = settings.checkpoint
    if checkpoint is None:
        raise UsageError(
            f"policy {name!r} takes a checkpoint: --vla-checkpoint=DIR, what LeRobot's"
            " save_pretrained wrote"
        )
    if checkpoint.path is not None:
        if not checkpoint.path.is_dir():
            raise UsageError(f"--vla-checkpoint: {checkpoint.label!r} is a file, not a folder")
        return checkpoint.path, ""
    if commit is None:
        raise UsageError(
            f"--vla-checkpoint: there is no folder {checkpoint.label!r}. If it is the name of a"
            " repository on the hub, say which commit of it:"
            " --vla-policy-arg=hub_revision=<40 hex digits>"
        )
    return fetched(checkpoint.label, commit), f"; hub commit {commit}"


def _mode(text: str, loaded: Loaded, name: str) -> Mode:
    right = mode_of(loaded)
    if text == "auto":
        return right
    if text == "step":
        return "step"
    if text != "chunk":
        raise UsageError(f"--vla-policy-arg=mode: {text!r} is none of auto, chunk, step")
    if right == "step":
        raise UsageError(
            f"policy {name!r}: mode=chunk would hide from it what it sees between chunks:"
            f" {loaded.says('type')} keeps a history or a queue of its own"
        )
    return "chunk"
