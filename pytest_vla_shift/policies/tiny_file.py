"""What is in an ONNX file, read before onnxruntime gets it: nothing but a plain network may pass.

onnxruntime computes what a file describes. This reader, which goes through the file's protobuf
fields by their numbers in ``onnx.proto``, lets a description pass that is made of standard
operators on numbers which are all in the file itself: nothing refers to another file, no operator
comes from a library, nothing loops, nothing draws at random.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

MOST_BYTES = 64 << 20
MOST_NUMBERS = 16_000_000
MOST_OPERATORS = 10_000

DOMAINS = ("", "ai.onnx")

RANDOM = frozenset(
    [
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    ]
)

LOOPS = frozenset(["Loop", "Scan", "SequenceMap"])

DEEPEST = 8
"""Networks within networks, which the operator ``If`` has."""

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5

# Numbers of fields, by the message that has them.
_MODEL_GRAPH, _MODEL_TRAINING, _MODEL_FUNCTIONS = 7, 20, 25
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_SPARSE = 1, 5, 15
_NODE_OPERATOR, _NODE_ATTRIBUTE, _NODE_DOMAIN = 4, 5, 7
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH, _ATTRIBUTE_TENSORS, _ATTRIBUTE_GRAPHS = 5, 6, 10, 11
_ATTRIBUTE_SPARSE = (22, 23)
_TENSOR_DIMS, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 1, 13, 14


@dataclass(slots=True)
class Contents:
    """What a file holds.

    Attributes:
        numbers: how many numbers are stored in it, constants included.
        operators: operator -> how often.
    """

    numbers: int = 0
    operators: dict[str, int] = field(default_factory=dict)


class Refused(ValueError):
    """The file is no ONNX file, or has in it what may not pass; the message says what."""


def contents(data: bytes) -> Contents:
    """Go through a whole file.

    Args:
        data: the file.

    Raises:
        Refused: it is damaged, larger than the bounds here, or not plain.
    """
    if len(data) > MOST_BYTES:
        raise Refused(f"is larger than {MOST_BYTES >> 20} MiB")
    found = Contents()
    graphs = 0
    for number, value in _fields(memoryview(data)):
        if number == _MODEL_GRAPH:
            graphs += 1
            _graph(_message(value), found, 0)
        elif number == _MODEL_FUNCTIONS:
            raise Refused("defines functions of its own")
        elif number == _MODEL_TRAINING:
            raise Refused("has a part for training")
    if not graphs or not found.operators:
        raise Refused("has no network in it")
    return found


def _graph(data: memoryview, found: Contents, depth: int) -> None:
    if depth > DEEPEST:
        raise Refused(f"has networks within networks, more than {DEEPEST} deep")
    for number, value in _fields(data):
        if number == _GRAPH_NODE:
            _node(_message(value), found, depth)
        elif number == _GRAPH_INITIALIZER:
            _tensor(_message(value), found)
        elif number == _GRAPH_SPARSE:
            raise Refused("has sparse weights")


def _node(data: memoryview, found: Contents, depth: int) -> None:
    operator = domain = ""
    for number, value in _fields(data):
        if number == _NODE_OPERATOR:
            operator = _text(value)
        elif number == _NODE_DOMAIN:
            domain = _text(value)
        elif number == _NODE_ATTRIBUTE:
            _attribute(_message(value), found, depth)
    if domain not in DOMAINS:
        raise Refused(f"has the operator {operator!r} of {domain!r}, which is not ONNX's own")
    if operator in LOOPS:
        raise Refused(f"has the operator {operator!r}, which may go on for ever")
    if operator in RANDOM:
        raise Refused(f"has the operator {operator!r}, whose answers no seed of a rollout decides")
    found.operators[operator] = found.operators.get(operator, 0) + 1
    if sum(found.operators.values()) > MOST_OPERATORS:
        raise Refused(f"has more than {MOST_OPERATORS} operators")


def _attribute(data: memoryview, found: Contents, depth: int) -> None:
    for number, value in _fields(data):
        if number in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS):
            _graph(_message(value), found, depth + 1)
        elif number in _ATTRIBUTE_SPARSE:
            raise Refused("has sparse weights")
        elif number in (_ATTRIBUTE_TENSOR, _ATTRIBUTE_TENSORS):
            _tensor(_message(value), found)


def _tensor(data: memoryview, found: Contents) -> None:
    dims: list[int] = []
    for number, value in _fields(data):
        if number == _TENSOR_EXTERNAL or (number == _TENSOR_LOCATION and value != 0):
            raise Refused("keeps weights in another file")
        if number == _TENSOR_DIMS:
            # Several in one field, or one in each: both are allowed.
            dims += [value] if isinstance(value, int) else _varints(value)
    found.numbers += math.prod(dims)
    if found.numbers > MOST_NUMBERS or max(dims, default=0) > MOST_NUMBERS:
        raise Refused(f"has more than {MOST_NUMBERS:,} numbers")


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of every field: a number for varints, and else its bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if not 8 <= tag < 1 << 32:  # readers differ in what they make of others
            raise Refused("is no ONNX file")
        kind = tag & 7
        value: int | memoryview
        if kind == _VARINT:
            value, at = _varint(data, at)
        else:
            if kind == _BYTES:
                size, at = _varint(data, at)
            elif kind in (_FOUR_BYTES, _EIGHT_BYTES):
                size = 4 if kind == _FOUR_BYTES else 8
            else:
                raise Refused("is no ONNX file")
            if at + size > len(data):
                raise Refused("is no ONNX file, or ends too early")
            value, at = data[at : at + size], at + size
        yield tag >> 3, value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number at ``at``, and where it ends."""
    value = 0
    for place in range(10):
        if at + place >= len(data):
            raise Refused("is no ONNX file, or ends too early")
        byte = data[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise Refused("is no ONNX file")


def _varints(data: memoryview) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise Refused("is no ONNX file")
    return value


def _text(value: int | memoryview) -> str:
    return bytes(_message(value)).decode("utf-8", "replace")
