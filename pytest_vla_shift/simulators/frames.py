"""Pictures from the worker to its parent through anonymous shared memory.

The memory has a file descriptor and no name: the worker inherits the descriptor, and the kernel
frees the pages when both processes are gone, however they went. Nothing can be left behind in
``/dev/shm``, a container's size limit on ``/dev/shm`` does not matter, and Python's resource
tracker has nothing to warn about.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.simulators.wire import WireError

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Image
    from pytest_vla_shift.simulators.protocol import SimulatorSettings


class FrameMemory:
    """One slot of (height, width, 3) uint8 for every camera of the settings."""

    def __init__(self, settings: SimulatorSettings, fd: int | None = None) -> None:
        """Create the memory, or map that behind the inherited descriptor ``fd``."""
        self._shape = (settings.height, settings.width, 3)
        self._slots = {name: slot for slot, name in enumerate(settings.cameras)}
        size = max(1, len(self._slots) * settings.height * settings.width * 3)
        self.fd = _anonymous_file(size) if fd is None else fd
        self._map = mmap.mmap(self.fd, size)

    def write(self, camera: str, image: Image) -> None:
        """Put a picture into its camera's slot.

        Raises:
            ValueError: no such camera, or another shape or dtype than the settings'.
        """
        if camera not in self._slots:
            raise ValueError(f"a picture of {camera!r}, which is not among the settings' cameras")
        if image.shape != self._shape or image.dtype != np.uint8:
            raise ValueError(
                f"the picture of {camera!r} is {image.dtype} {image.shape}, not uint8 {self._shape}"
            )
        self._slot(camera)[...] = image

    def read(self, camera: str) -> Image:
        """A copy, owned by the caller, of the picture in a camera's slot.

        Raises:
            WireError: no such camera.
        """
        if camera not in self._slots:
            raise WireError(f"a picture of {camera!r}, which is not among the settings' cameras")
        return self._slot(camera).copy()

    def close(self) -> None:
        """Unmap and close the descriptor. Idempotent."""
        if not self._map.closed:
            self._map.close()
            os.close(self.fd)

    def _slot(self, camera: str) -> Image:
        height, width, channels = self._shape
        size = height * width * channels
        flat = np.frombuffer(self._map, np.uint8, size, self._slots[camera] * size)
        return flat.reshape(self._shape)


def _anonymous_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("vla-shift-frames")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd
