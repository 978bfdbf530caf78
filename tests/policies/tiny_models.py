"""ONNX files of the contract of ``tiny``, written byte by byte: small, and wrong on request.

What they compute is made up and answers to everything that it is given: the pictures' mean colours,
the proprioception and the mean of the words' vectors, through one matrix an output. No policy to
speak of: the contract, the loader and the sampling can be tried on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.tiny_inputs import PROPRIO, SIZE
from pytest_vla_shift.policies.tiny_words import LENGTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

FLOAT, UINT8, INT64 = 1, 2, 7
WORDS = ("basket", "in", "it", "ketchup", "pick", "place", "put", "the", "up")
WIDTH = 4
SEEN = 6 + PROPRIO + WIDTH

Dims = Sequence[int | str]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def number(place: int, value: int) -> bytes:
    return varint(place << 3) + varint(value)


def message(place: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(place << 3 | 2) + varint(len(raw)) + raw


def tensor(name: str, array: NDArray[np.generic], extra: bytes = b"") -> bytes:
    kind = {"float32": FLOAT, "int64": INT64}[str(array.dtype)]
    dims = b"".join(number(1, size) for size in array.shape)
    return dims + number(2, kind) + message(8, name) + message(9, array.tobytes()) + extra


def ints(name: str, values: Sequence[int]) -> bytes:
    return message(5, message(1, name) + b"".join(number(8, v) for v in values) + number(20, 7))


def integer(name: str, value: int) -> bytes:
    return message(5, message(1, name) + number(3, value) + number(20, 2))


def node(
    operator: str, inputs: Sequence[str], output: str, attributes: bytes = b"", domain: str = ""
) -> bytes:
    given = b"".join(message(1, name) for name in inputs)
    named = message(7, domain) if domain else b""
    return message(1, given + message(2, output) + message(4, operator) + attributes + named)


def value(name: str, kind: int, dims: Dims) -> bytes:
    shape = b"".join(
        message(1, number(1, d) if isinstance(d, int) else message(2, d)) for d in dims
    )
    return message(1, name) + message(2, message(1, number(1, kind) + message(2, shape)))


@dataclass
class Recipe:
    """What a file has that others have not.

    Attributes:
        vocabulary: the words, or the text of the metadata itself; None for no such metadata.
        vectors: of words: how many ids there are.
        inputs, outputs: name -> type and shape, in place of the contract's.
        operator, domain: of the node that passes the means on.
        model, graph, node, weights: bytes that are put behind these messages.
        seed: of the weights.
        bias: is added to what the outputs ``scale`` and ``gripper`` are made of.
        mean: is added to the means.
    """

    vocabulary: Sequence[str] | str | None = WORDS
    vectors: int = len(WORDS) + 2
    inputs: Mapping[str, tuple[int, Dims]] = field(default_factory=dict)
    outputs: Mapping[str, tuple[int, Dims]] = field(default_factory=dict)
    operator: str = "Identity"
    domain: str = ""
    model: bytes = b""
    graph: bytes = b""
    node: bytes = b""
    weights: bytes = b""
    seed: int = 0
    bias: float = 0.0
    mean: float = 0.0

    def data(self) -> bytes:
        """The whole file."""
        inputs = {
            "pictures": (UINT8, ("B", 2, SIZE, SIZE, 3)),
            "proprio": (FLOAT, ("B", PROPRIO)),
            "words": (INT64, ("B", LENGTH)),
        } | dict(self.inputs)
        outputs = {
            "mean": (FLOAT, ("B", 8, 6)),
            "scale": (FLOAT, ("B", 8, 6)),
            "gripper": (FLOAT, ("B", 8, 3)),
        } | dict(self.outputs)
        graph = (
            self._nodes()
            + message(2, "made up")
            + b"".join(message(5, w) for w in self._weights())
            + b"".join(message(11, value(n, *v)) for n, v in inputs.items())
            + b"".join(message(12, value(n, *v)) for n, v in outputs.items())
            + self.graph
        )
        metadata = b""
        if self.vocabulary is not None:
            text = self.vocabulary
            text = text if isinstance(text, str) else json.dumps(list(text))
            metadata = message(14, message(1, "vocabulary") + message(2, text))
        opsets = message(8, message(1, "") + number(2, 17))
        return number(1, 8) + opsets + message(7, graph) + metadata + self.model

    def write(self, folder: Path, name: str = "other.onnx") -> Path:
        """The file."""
        path = folder / name
        path.write_bytes(self.data())
        return path

    def _nodes(self) -> bytes:
        once = integer("keepdims", 0)
        return (
            node("Cast", ["pictures"], "floats", integer("to", FLOAT))
            + node("ReduceMean", ["floats"], "colours", ints("axes", (2, 3)) + once)
            + node("Flatten", ["colours"], "bright")
            + node("Mul", ["bright", "unit"], "light")
            + node("Gather", ["vectors", "words"], "said")
            + node("ReduceMean", ["said"], "meant", ints("axes", (1,)) + once)
            + node("Concat", ["light", "proprio", "meant"], "seen", integer("axis", 1))
            + node("MatMul", ["seen", "to_mean"], "flat_mean")
            + node("Add", ["flat_mean", "more"], "moved")
            + node("Reshape", ["moved", "motion"], "shaped")
            + node(self.operator, ["shaped"], "mean", self.node, self.domain)
            + node("MatMul", ["seen", "to_scale"], "flat_scale")
            + node("Add", ["flat_scale", "bias"], "wide")
            + node("Exp", ["wide"], "above")
            + node("Reshape", ["above", "motion"], "scale")
            + node("MatMul", ["seen", "to_gripper"], "flat_gripper")
            + node("Add", ["flat_gripper", "bias"], "leaning")
            + node("Reshape", ["leaning", "commands"], "gripper")
        )

    def _weights(self) -> list[bytes]:
        rng = np.random.default_rng(self.seed)

        def matrix(*shape: int) -> NDArray[np.float32]:
            drawn: NDArray[np.float64] = rng.normal(size=shape) / np.sqrt(shape[0])
            return drawn.astype(np.float32)

        return [
            tensor("unit", np.array([4 / 255], dtype=np.float32)),
            tensor("vectors", 4 * matrix(self.vectors, WIDTH), self.weights),
            tensor("to_mean", matrix(SEEN, 48)),
            tensor("to_scale", matrix(SEEN, 48) - np.float32(0.1)),
            tensor("to_gripper", matrix(SEEN, 24)),
            tensor("more", np.array([self.mean], dtype=np.float32)),
            tensor("bias", np.array([self.bias], dtype=np.float32)),
            tensor("motion", np.array([-1, 8, 6], dtype=np.int64)),
            tensor("commands", np.array([-1, 8, 3], dtype=np.int64)),
        ]
