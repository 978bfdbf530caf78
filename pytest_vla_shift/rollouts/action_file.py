"""Executed actions on disk: an ``.npz`` of one array, read so that nothing in it is trusted."""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla_shift.protocol.errors import InfrastructureError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MEMBER = "actions.npy"

MOST_BYTES = 2**26
"""More than a million steps of 7 numbers: what claims to be larger is no file of ours."""


class UnreadableActions(InfrastructureError):
    """A file of recorded actions is damaged, or holds something else than actions."""

    kind = "unreadable actions"


def actions_bytes(actions: NDArray[np.float64]) -> bytes:
    """The file of ``actions``, (steps, D) float64: what ``numpy.savez_compressed`` would write."""
    import numpy as np

    array = np.ascontiguousarray(actions, dtype="<f8")
    data = _header(array.shape) + array.tobytes()
    packer = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -15)
    packed = packer.compress(data) + packer.flush()
    name, crc = MEMBER.encode(), zlib.crc32(data)
    head = _LOCAL.pack(_ZIP64, 0, 8, 0, _DATE, crc, _AS_EXTRA, _AS_EXTRA, len(name), _EXTRA.size)
    extra = _EXTRA.pack(1, 16, len(data), len(packed))
    local = b"PK\3\4" + head + name + extra + packed
    central = b"PK\1\2" + _CENTRAL.pack(
        _ZIP64, 3, _ZIP64, 0, 8, 0, _DATE, crc, len(packed), len(data), len(name), 0, 0, 0, 0,
        0o600 << 16, 0,
    ) + name  # fmt: skip
    return local + central + b"PK\5\6" + _END.pack(0, 0, 1, 1, len(central), len(local), 0)


# A ZIP file of one member as zipfile writes it: sizes in the 64-bit extra field, no time of day.
_LOCAL = struct.Struct("<HHHHHIIIHH")
_EXTRA = struct.Struct("<HHQQ")
_CENTRAL = struct.Struct("<BBHHHHHIIIHHHHHII")
_END = struct.Struct("<HHHHIIH")
_ZIP64, _DATE, _AS_EXTRA = 45, 0x21, 0xFFFFFFFF


@lru_cache(maxsize=64)
def _header(shape: tuple[int, ...]) -> bytes:
    """What stands before the numbers in an ``.npy``."""
    from numpy.lib import format as npy

    stream = io.BytesIO()
    head = {"descr": "<f8", "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(stream, head)
    return stream.getvalue()


def read_actions(path: Path) -> NDArray[np.float64] | None:
    """The actions in ``path``, (steps, D) float64, or None if there is no such file.

    Raises:
        UnreadableActions: the file is damaged or hostile. Nothing in it is ever executed, and no
            more memory is taken than :data:`MOST_BYTES`.
    """
    if not path.exists():
        return None
    try:
        if not path.is_file():
            raise ValueError("not a file")
        with zipfile.ZipFile(path) as archive:
            # The member's own name is not used for anything.
            found = archive.getinfo(MEMBER)
            if found.file_size > MOST_BYTES:
                raise ValueError(f"{found.file_size} bytes of actions")
            with archive.open(found) as member:
                # Never more than was announced, whatever is packed in there.
                data = member.read()
        return _array(data)
    except Exception as error:  # whatever zipfile, zlib and numpy raise on bytes that are not ours
        raise UnreadableActions(f"{path}: {type(error).__name__}: {error}") from error


def _array(data: bytes) -> NDArray[np.float64]:
    """The array of an ``.npy``'s bytes. Not numpy.load, which knows formats that run code."""
    import numpy as np
    from numpy.lib import format as npy

    stream = io.BytesIO(data)
    version = npy.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"version {version}")
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    if dtype != np.float64 or len(shape) != 2:
        raise ValueError(f"{dtype} of shape {shape}")
    raw = data[stream.tell() :]
    if len(raw) != 8 * math.prod(shape):
        raise ValueError(f"{len(raw)} bytes for the shape {shape}")
    flat: NDArray[np.float64] = np.frombuffer(raw, dtype=dtype).astype(np.float64)
    return flat.reshape(shape, order="F" if fortran else "C")
