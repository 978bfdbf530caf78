"""The network of ``tiny`` as onnxruntime runs it: one thread, one observation a call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from pytest_vla_shift.policies import tiny_file, tiny_words
from pytest_vla_shift.policies.extras import require
from pytest_vla_shift.policies.tiny_inputs import CAMERAS, PROPRIO, SIZE
from pytest_vla_shift.protocol.errors import PolicyError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 8
MOTION = 6
GRIPPER = (-1.0, 0.0, 1.0)
"""What the three logits are of: it opens, stays, closes."""

INPUTS = {
    "pictures": ("tensor(uint8)", (len(CAMERAS), SIZE, SIZE, 3)),
    "proprio": ("tensor(float)", (PROPRIO,)),
    "words": ("tensor(int64)", (tiny_words.LENGTH,)),
}
"""Name -> type and shape without the batch."""

OUTPUTS = {
    "mean": ("tensor(float)", (CHUNK, MOTION)),
    "scale": ("tensor(float)", (CHUNK, MOTION)),
    "gripper": ("tensor(float)", (CHUNK, len(GRIPPER))),
}

MOST_WORDS = 20_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What the network says of one observation.

    Attributes:
        mean: (CHUNK, MOTION) of the motion, in the controller's units; not clipped.
        scale: (CHUNK, MOTION) its standard deviations, above 0.
        gripper: (CHUNK, 3) logits of :data:`GRIPPER`.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    gripper: NDArray[np.float64]


class _Value(Protocol):
    """An input or output, as onnxruntime describes it."""

    name: str
    type: str
    shape: Sequence[int | str | None]


class _Metadata(Protocol):
    custom_metadata_map: Mapping[str, str]


class _Session(Protocol):
    """What is used of onnxruntime's InferenceSession."""

    def run(
        self, output_names: Sequence[str], input_feed: Mapping[str, NDArray[np.generic]]
    ) -> Sequence[NDArray[np.float32]]: ...
    def get_inputs(self) -> Sequence[_Value]: ...
    def get_outputs(self) -> Sequence[_Value]: ...
    def get_modelmeta(self) -> _Metadata: ...


class Network:
    """A file of weights, loaded. Keeps nothing from call to call, so that all lanes share one.

    Args:
        path: the ONNX file.

    Attributes:
        digest: hex digits of the file's SHA-256.
        numbers: how many numbers are stored in it: its parameters, and a few constants.
        vocabulary: word -> id.

    Raises:
        UsageError: onnxruntime is missing; the file cannot be read, has in it what is not run,
            or is not of the contract above.
    """

    def __init__(self, path: Path) -> None:
        require("tiny", "onnxruntime", "PIL")
        where = f"tiny: weights {path.name!r}"
        try:
            data = _read(path)
        except OSError as error:
            raise UsageError(f"{where} cannot be read: {error}") from error
        try:
            self.numbers = tiny_file.contents(data).numbers
            self._session = _load(data)
            _check_values("input", self._session.get_inputs(), INPUTS)
            _check_values("output", self._session.get_outputs(), OUTPUTS)
            known = _vocabulary(self._session.get_modelmeta().custom_metadata_map)
        except tiny_file.Refused as error:
            raise UsageError(f"{where}: the file {error}") from error
        self.digest = hashlib.sha256(data).hexdigest()
        self.vocabulary = tiny_words.ids(known)
        self._try(where, len(known))

    def answer(
        self, pictures: NDArray[np.uint8], proprio: NDArray[np.float32], words: NDArray[np.int64]
    ) -> Answer:
        """Run it on one observation.

        Args:
            pictures: (2, SIZE, SIZE, 3), see :func:`~.tiny_inputs.pictures`.
            proprio: (PROPRIO,), see :func:`~.tiny_inputs.proprio`.
            words: (LENGTH,), see :func:`~.tiny_words.token_ids`.

        Raises:
            PolicyError: something of the answer is not finite, or a deviation not above 0. What
                draws and compares would hide it.
        """
        # Always a batch of one: shapes decide about kernels, and these about the last bit.
        given: dict[str, NDArray[np.generic]]
        given = {"pictures": pictures[None], "proprio": proprio[None], "words": words[None]}
        mean, scale, gripper = (
            np.asarray(value[0], dtype=np.float64)
            for value in self._session.run(list(OUTPUTS), given)
        )
        for name, value in (("mean", mean), ("scale", scale), ("gripper", gripper)):
            if not np.isfinite(value).all():
                raise PolicyError(f"tiny: its network gives numbers in {name} that are not finite")
        if not (scale > 0.0).all():
            raise PolicyError("tiny: its network gives a standard deviation that is not above 0")
        return Answer(mean, scale, gripper)

    def _try(self, where: str, words: int) -> None:
        """Ask once, with the vocabulary's last word: it must have room for all."""
        row = np.full(tiny_words.LENGTH, tiny_words.FIRST + words - 1, dtype=np.int64)
        pictures = np.zeros((len(CAMERAS), SIZE, SIZE, 3), dtype=np.uint8)
        try:
            found = self.answer(pictures, np.zeros(PROPRIO, dtype=np.float32), row)
        except Exception as error:  # onnxruntime has many kinds
            raise UsageError(f"{where}: a trial fails: {error}") from error
        shapes = {"mean": found.mean, "scale": found.scale, "gripper": found.gripper}
        for name, value in shapes.items():
            if value.shape != OUTPUTS[name][1]:
                raise UsageError(
                    f"{where}: a trial gives {name} of shape {value.shape}, not {OUTPUTS[name][1]}"
                )


def _read(path: Path) -> bytes:
    """The file; no more of it than may be."""
    with path.open("rb") as stream:
        return stream.read(tiny_file.MOST_BYTES + 1)


def _load(data: bytes) -> _Session:
    """A session on the CPU whose answers depend on nothing that runs beside."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.use_deterministic_compute = True
    options.log_severity_level = 3  # errors: its warnings are about speed
    # Never onnxruntime's own format, which the reader of tiny_file does not know.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    try:
        made = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has many kinds
        raise tiny_file.Refused(f"is not taken by onnxruntime: {error}") from error
    return cast("_Session", made)


def _check_values(
    kind: str, found: Sequence[_Value], wanted: Mapping[str, tuple[str, tuple[int, ...]]]
) -> None:
    """Names, types and shapes; the batch must be free, or one."""
    names = [value.name for value in found]
    if sorted(names) != sorted(wanted):
        raise tiny_file.Refused(f"has the {kind}s {', '.join(names)}, not {', '.join(wanted)}")
    for value in found:
        dtype, shape = wanted[value.name]
        batch, *rest = value.shape or [0]
        fits = value.type == dtype and tuple(rest) == shape
        if not fits or (isinstance(batch, int) and batch != 1):
            words = ", ".join(map(str, ("B", *shape)))
            raise tiny_file.Refused(
                f"has the {kind} {value.name!r} of {value.type} with shape {list(value.shape)},"
                f" not of {dtype} with shape [{words}]"
            )


def _vocabulary(metadata: Mapping[str, str]) -> list[str]:
    """The words in the file's metadata, in their order."""
    try:
        found: object = json.loads(metadata.get("vocabulary", ""))
    except ValueError as error:
        raise tiny_file.Refused("has no JSON list of words as metadata 'vocabulary'") from error
    if not isinstance(found, list) or not found or len(found) > MOST_WORDS:
        raise tiny_file.Refused(
            f"must have a JSON list of 1 to {MOST_WORDS} words as metadata 'vocabulary'"
        )
    for word in found:
        if not isinstance(word, str) or tiny_words.WORD.fullmatch(word) is None:
            raise tiny_file.Refused(
                f"has {word!r} in its vocabulary, which no sentence gives: words are of lower-case"
                " letters and digits"
            )
    if len(set(found)) < len(found):
        raise tiny_file.Refused("has a word twice in its vocabulary")
    return found
