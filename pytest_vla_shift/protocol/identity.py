"""Keys, seeds and digests: canonical JSON, hashed. No wall-clock, no path, no process state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache

# Made once: json.dumps with options makes a new encoder for every call.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: object) -> str:
    """``value`` as JSON with sorted keys, no spaces and no NaN, the same on every machine.

    Raises:
        ValueError: NaN or an infinity is in it.
        TypeError: something that is not JSON is in it.
    """
    return _ENCODER.encode(value)


def digest(value: object) -> str:
    """20 hex digits (80 bits) of SHA-256 over the canonical JSON of ``value``."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:20]


@lru_cache(maxsize=512, typed=True)  # the cells of an episode ask for the same few
def stable_seed(*parts: str | int) -> int:
    """A 32-bit seed that depends on ``parts`` and nothing else (never on ``hash()``)."""
    return int.from_bytes(hashlib.sha256(canonical(list(parts)).encode()).digest()[:4], "big")


def differing_fields(
    left: Mapping[str, object], right: Mapping[str, object], prefix: str = ""
) -> list[str]:
    """Dotted names of the fields in which two identities differ, sorted."""
    names: list[str] = []
    for name in sorted(set(left) | set(right)):
        if name not in left or name not in right:
            names.append(prefix + name)
            continue
        a, b = left[name], right[name]
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            names.extend(differing_fields(a, b, f"{prefix}{name}."))
        elif canonical(a) != canonical(b):
            names.append(prefix + name)
    return names
