"""A LeRobot checkpoint, loaded with LeRobot's own code, and what it declares.

The library is imported here, lazily, and nowhere else.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np
    from numpy.typing import NDArray

INSTALL = (
    "pip install 'pytest-vla-shift[lerobot]' with Python 3.12 or newer, without LeRobot's own extra"
    " libero, whose package hf-libero is another libero than the simulator's; or serve the"
    " checkpoint with vla-eval and say --vla-policy-url=ws://HOST:PORT"
)

VERSIONS = ((0, 6, 1), (0, 7))
"""From the one to before the other: how policies keep their queues was read in these."""

PROCESSORS = ("policy_preprocessor.json", "policy_postprocessor.json")


class Tensor(Protocol):
    """What is asked of torch's."""

    def detach(self) -> Tensor: ...

    def float(self) -> Tensor: ...

    def cpu(self) -> Tensor: ...

    def numpy(self) -> NDArray[np.float32]: ...


Frame = dict[str, object]
"""Name -> tensor or text, with a batch of one."""


class Model(Protocol):
    """What is asked of LeRobot's PreTrainedPolicy."""

    def reset(self) -> None: ...

    def predict_action_chunk(self, batch: Frame) -> Tensor: ...

    def select_action(self, batch: Frame) -> Tensor: ...

    def parameters(self) -> Sequence[object]: ...


class Pipeline(Protocol):
    """What is asked of LeRobot's DataProcessorPipeline."""

    @property
    def steps(self) -> Sequence[object]: ...

    def reset(self) -> None: ...


class Before(Pipeline, Protocol):
    """From an observation to what the model takes."""

    def __call__(self, data: Frame) -> Frame: ...


class After(Pipeline, Protocol):
    """From what the model gives to actions."""

    def __call__(self, data: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Loaded:
    """A checkpoint that can be asked.

    Attributes:
        version: of LeRobot and torch, for the key.
        device: where it runs.
        config: LeRobot's PreTrainedConfig.
        model, before, after: the policy and its processors.
        prepare: LeRobot's prepare_observation_for_inference, on this device.
        inference: what a call of the model is made within.
    """

    version: str
    device: str
    config: object
    model: Model
    before: Before
    after: After
    prepare: Callable[[Mapping[str, NDArray[np.generic]], str], Frame]
    inference: Callable[[], AbstractContextManager[object]]

    def says(self, name: str, default: object = None) -> object:
        """A field of the configuration; ``default`` if it has none, or None there."""
        value: object = getattr(self.config, name, None)
        return default if value is None else value


def find_library(name: str) -> str:
    """LeRobot's version, after seeing that it can be used.

    Raises:
        UsageError: it is not installed, or is another version than this was written for.
    """
    if importlib.util.find_spec("lerobot") is None:
        here = ".".join(map(str, sys.version_info[:2]))
        raise UsageError(
            f"policy {name!r} runs in this process and takes the package lerobot, which is not"
            f" installed (this is Python {here}): {INSTALL}"
        )
    version = str(_module("lerobot").__version__)
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if not VERSIONS[0] <= numbers < VERSIONS[1]:
        raise UsageError(
            f"policy {name!r}: lerobot {version} is installed, and this takes lerobot>=0.6.1,<0.7:"
            f" {INSTALL}"
        )
    return version


def stay_offline() -> None:
    """What a checkpoint names on the hub is looked for in this machine's cache alone."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:  # imported before: it has read the variable already
        constants.HF_HUB_OFFLINE = os.environ["HF_HUB_OFFLINE"] not in ("", "0")  # type: ignore[attr-defined]


def fetched(label: str, commit: str) -> Path:
    """The folder of a repository of the hub at a commit, from the cache or, if online, the hub.

    Raises:
        UsageError: ``commit`` is no commit, or the files cannot be had.
    """
    if re.fullmatch(r"[0-9a-f]{40}", commit) is None:
        raise UsageError(
            f"--vla-policy-arg=hub_revision: {commit!r} is not a commit of 40 hex digits: a branch"
            " or tag may be moved, and another checkpoint would get this one's results"
        )
    try:
        return Path(_module("huggingface_hub").snapshot_download(label, revision=commit))
    except Exception as error:
        raise UsageError(
            f"checkpoint {label!r} at commit {commit} cannot be had: {quoted(error)}."
            " --vla-policy-arg=online=true lets it be downloaded"
        ) from error


def load(folder: Path, version: str, device: str, *, strict: bool) -> Loaded:
    """The checkpoint in ``folder``, on ``device``.

    Args:
        folder: what ``save_pretrained`` of a policy and its two processors wrote.
        version: of LeRobot.
        device: ``cpu``, ``cuda``, ``cuda:1``, ``mps``, or ``auto`` for the first of cuda and cpu.
        strict: whether every weight must be in the checkpoint, and no other.

    Raises:
        UsageError: it cannot be loaded, or would run code that is not LeRobot's.
    """
    _check_processors(folder)
    torch = _module("torch")
    device = _device(torch, device)
    policies = _module("lerobot.policies")  # its types of policies register when it is imported
    _module("lerobot.utils.import_utils").register_third_party_plugins()  # others' types
    try:
        config = _module("lerobot.configs.policies").PreTrainedConfig.from_pretrained(folder)
        if getattr(config, "use_peft", False):
            raise UsageError(
                f"checkpoint {folder.name!r} is a PEFT adapter: merge it into its base model first"
            )
        config.device = device
        if getattr(config, "per_episode_seed", False):
            # It would count rollouts; ours are seeded by the pair, in any order.
            config.per_episode_seed = False
        cls = policies.get_policy_class(config.type)
        keywords = {"strict": True} if strict and _takes_strict(cls) else {}
        model = cls.from_pretrained(str(folder), config=config, **keywords)
        before, after = policies.make_pre_post_processors(
            config,
            str(folder),
            preprocessor_overrides={"device_processor": {"device": device}},
        )
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(
            f"checkpoint {folder.name!r} cannot be loaded by lerobot {version}: {quoted(error)}."
            " What it names on the hub is looked for in this machine's cache, unless"
            " --vla-policy-arg=online=true; weights that it lacks are refused, unless"
            " --vla-policy-arg=strict=false"
        ) from error
    prepare = _module("lerobot.policies.utils").prepare_observation_for_inference
    mixed = bool(getattr(config, "use_amp", False))

    def prepared(arrays: Mapping[str, NDArray[np.generic]], task: str) -> Frame:
        frame: Frame = prepare(dict(arrays), torch.device(device), task=task, robot_type="")
        return frame

    def inference() -> AbstractContextManager[object]:
        stack = ExitStack()
        stack.enter_context(torch.inference_mode())
        if mixed:
            stack.enter_context(torch.autocast(device_type=torch.device(device).type))
        return stack

    return Loaded(
        version=f"lerobot {version}, torch {torch.__version__}",
        device=device,
        config=config,
        model=model,
        before=before,
        after=after,
        prepare=prepared,
        inference=inference,
    )


def _check_processors(folder: Path) -> None:
    """Refuse processors whose steps are not LeRobot's: naming a class imports and calls it."""
    for name in PROCESSORS:
        path = folder / name
        if not path.is_file():
            raise UsageError(
                f"checkpoint {folder.name!r} has no {name}: without it nothing is normalised."
                " lerobot's migrate_policy_normalization script makes it for older checkpoints"
            )
        try:
            steps = json.loads(path.read_text("utf-8"))["steps"]
            classes = [step.get("class", "") for step in steps if "registry_name" not in step]
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise UsageError(f"{path.name} of checkpoint {folder.name!r}: {error}") from error
        foreign = [c for c in classes if not str(c).startswith(("lerobot.", "lerobot_policy_"))]
        if foreign:
            raise UsageError(
                f"checkpoint {folder.name!r} asks in {name} for {foreign[0]!r}, which is not"
                " LeRobot's: a checkpoint may not choose what is run"
            )


def _takes_strict(cls: type) -> bool:
    """Whether ``from_pretrained`` has the keyword, itself or where it passes its keywords to."""
    for base in cls.__mro__:
        made = vars(base).get("from_pretrained")
        if made is None:
            continue
        parameters = inspect.signature(made.__func__).parameters.values()
        if any(parameter.name == "strict" for parameter in parameters):
            return True
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return False
    return False


def _device(torch: object, wanted: str) -> str:
    cuda = bool(torch.cuda.is_available())  # type: ignore[attr-defined]
    if wanted == "auto":
        return "cuda" if cuda else "cpu"
    if wanted.startswith("cuda") and not cuda:
        raise UsageError(f"--vla-policy-arg=device: {wanted!r}, but torch sees no CUDA device")
    return wanted


def _module(name: str) -> ModuleType:
    """A module that only a policy of LeRobot needs.

    Raises:
        UsageError: it cannot be imported.
    """
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise UsageError(f"{name} cannot be imported: {quoted(error)}. {INSTALL}") from error


def quoted(error: Exception) -> str:
    """``ValueError: ...``, on one line and not without end."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 600 else text[:600] + "..."
