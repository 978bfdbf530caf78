"""NumPy's global generator, taken and given back in microseconds.

``np.random.get_state`` and ``set_state`` go through the generator's 624 words one by one in Python,
for 85 microseconds each, and every call into a policy needs two of either. The words are one block
of memory whose address NumPy hands out. Beside them there is only a normal value that may be kept
for the next call; whether there is one shows when a normal value is drawn: one that is kept leaves
the words as they are.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

WORDS = 624
SIZE = 4 * WORDS + 4
"""Bytes of the block: the words, then the position among them."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A state without a kept normal value.

    Attributes:
        block: the generator's memory.
    """

    block: bytes


State = Plain | dict[str, Any]
"""What :func:`take` gives: a :class:`Plain` one, or else what NumPy itself gives."""


def take() -> State:
    """The state of NumPy's global generator, which is left as it is."""
    address = _address()
    if address is None:
        return np.random.get_state(legacy=False)
    block = ctypes.string_at(address, SIZE)
    value = np.random.standard_normal()
    if ctypes.string_at(address, SIZE) != block:
        np.random.standard_normal()  # the other one of the two that were just drawn
        ctypes.memmove(address, block, SIZE)
        return Plain(block)
    found = np.random.get_state(legacy=False)
    found = {**found, "has_gauss": 1, "gauss": value}
    np.random.set_state(found)
    return found


def give(state: State) -> None:
    """Set the state of NumPy's global generator."""
    address = _address()
    if not isinstance(state, Plain):
        np.random.set_state(state)
    elif address is None:
        words = np.frombuffer(state.block, np.uint32, WORDS)
        position = int(np.frombuffer(state.block, np.int32, 1, 4 * WORDS)[0])
        np.random.set_state(("MT19937", words, position, 0, 0.0))
    else:
        _forget_kept(address)
        ctypes.memmove(address, state.block, SIZE)


def _forget_kept(address: int) -> None:
    """Leave no kept normal value, whatever becomes of the words."""
    block = ctypes.string_at(address, SIZE)
    np.random.standard_normal()
    if ctypes.string_at(address, SIZE) != block:
        np.random.standard_normal()


def _address() -> int | None:
    """Where the global generator's block is; None if it is another generator than NumPy's own."""
    generator = np.random.get_bit_generator()  # type: ignore[attr-defined]  # since 1.24
    if type(generator) is not np.random.MT19937 or not _as_known():
        return None
    return int(generator.ctypes.state_address)


@cache
def _as_known() -> bool:
    """Whether a generator's memory is what this module takes it for."""
    generator = np.random.MT19937(5)
    address = int(generator.ctypes.state_address)
    for _ in range(2):
        state = generator.state["state"]
        words, position = np.asarray(state["key"]), np.int32(state["pos"])
        if ctypes.string_at(address, SIZE) != words.tobytes() + position.tobytes():
            return False
        generator.random_raw(7)
    return True
