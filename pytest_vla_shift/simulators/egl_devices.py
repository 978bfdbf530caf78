"""What EGL can draw with: run as a file, it prints a JSON object a line, one for each EGL device.

``python -I -S egl_devices.py``. It asks the driver through ctypes alone and imports nothing of the
package, so that it starts at once, and what a driver does to it happens to a short-lived process.
A line is printed as soon as it is known: a driver that crashes at the third device hides no others.

Extensions used: EGL_EXT_device_enumeration and EGL_EXT_device_query for the list,
EGL_NV_device_cuda for CUDA's number of a device, EGL_EXT_device_persistent_id for its UUID,
EGL_MESA_device_software, EGL_EXT_platform_device. The numbers are those of the Khronos registry.
That a device is listed says little: a GPU in MIG mode is, and gives no context
(facebookresearch/habitat-sim#1744). So a context is made on each.
"""

from __future__ import annotations

import ctypes
import json
import sys
import uuid
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_ssize_t, c_uint, c_void_p

MOST = 32

_EGL_EXTENSIONS = 0x3055
_EGL_CUDA_DEVICE_NV = 0x323A
_EGL_DEVICE_UUID_EXT = 0x335C
_EGL_PLATFORM_DEVICE_EXT = 0x313F
_EGL_OPENGL_API = 0x30A2
_EGL_SURFACE_TYPE, _EGL_PBUFFER_BIT = 0x3033, 0x0001
_EGL_RENDERABLE_TYPE, _EGL_OPENGL_BIT = 0x3040, 0x0008
_EGL_NONE = 0x3038
_GL_RENDERER = 0x1F01


class Egl:
    """The few functions of libEGL that are needed.

    Raises:
        OSError: there is no libEGL.
        AttributeError: it cannot list devices.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libEGL.so.1")
        self._library.eglGetProcAddress.restype = c_void_p
        self._library.eglGetProcAddress.argtypes = [c_char_p]
        self._query_devices = self.function(
            "eglQueryDevicesEXT", c_uint, c_int, POINTER(c_void_p), POINTER(c_int)
        )

    def function(self, name: str, returns: type | None, *takes: type) -> Callable[..., object]:
        """A function by name."""
        address = self._library.eglGetProcAddress(name.encode())
        if not address:
            raise AttributeError(name)
        function: Callable[..., object] = ctypes.CFUNCTYPE(returns, *takes)(address)
        return function

    def devices(self) -> list[int]:
        """Handles, in EGL's order."""
        handles, count = (c_void_p * MOST)(), c_int()
        if not self._query_devices(MOST, handles, byref(count)):
            return []
        return [handle or 0 for handle in handles[: count.value]]

    def extensions(self, device: int) -> set[str]:
        """The device's own extensions."""
        query = self.function("eglQueryDeviceStringEXT", c_char_p, c_void_p, c_int)
        text = query(device, _EGL_EXTENSIONS)
        return set(text.decode("ascii", "replace").split()) if isinstance(text, bytes) else set()

    def cuda(self, device: int) -> int | None:
        """CUDA's number of the device."""
        query = self.function(
            "eglQueryDeviceAttribEXT", c_uint, c_void_p, c_int, POINTER(c_ssize_t)
        )
        value = c_ssize_t(-1)
        return value.value if query(device, _EGL_CUDA_DEVICE_NV, byref(value)) else None

    def uuid(self, device: int) -> str | None:
        """Its UUID, without a prefix."""
        query = self.function(
            "eglQueryDeviceBinaryEXT", c_uint, c_void_p, c_int, c_int, c_void_p, POINTER(c_int)
        )
        data, size = (ctypes.c_ubyte * 16)(), c_int()
        if not query(device, _EGL_DEVICE_UUID_EXT, 16, data, byref(size)) or size.value != 16:
            return None
        return str(uuid.UUID(bytes=bytes(data)))

    def renderer(self, device: int) -> str | None:
        """GL_RENDERER of a context on the device, or None if it gives none."""
        display = self.function(
            "eglGetPlatformDisplayEXT", c_void_p, c_uint, c_void_p, POINTER(c_int)
        )(_EGL_PLATFORM_DEVICE_EXT, device, None)
        initialise = self.function("eglInitialize", c_uint, c_void_p, c_void_p, c_void_p)
        if not display or not initialise(display, None, None):
            return None
        try:
            return self._renderer_of(display)
        finally:
            self.function("eglTerminate", c_uint, c_void_p)(display)

    def _renderer_of(self, display: object) -> str | None:
        wanted = (c_int * 5)(
            *(_EGL_SURFACE_TYPE, _EGL_PBUFFER_BIT),
            *(_EGL_RENDERABLE_TYPE, _EGL_OPENGL_BIT),
            _EGL_NONE,
        )
        config, count = c_void_p(), c_int()
        choose = self.function(
            *("eglChooseConfig", c_uint),
            *(c_void_p, POINTER(c_int), POINTER(c_void_p), c_int, POINTER(c_int)),
        )
        if not choose(display, wanted, byref(config), 1, byref(count)) or not count.value:
            return None
        self.function("eglBindAPI", c_uint, c_uint)(_EGL_OPENGL_API)
        create = self.function(
            "eglCreateContext", c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_int)
        )
        context = create(display, config, None, None)
        current = self.function("eglMakeCurrent", c_uint, c_void_p, c_void_p, c_void_p, c_void_p)
        if not context or not current(display, None, None, context):
            return None
        text = self.function("glGetString", c_char_p, c_uint)(_GL_RENDERER)
        current(display, None, None, None)
        self.function("eglDestroyContext", c_uint, c_void_p, c_void_p)(display, context)
        return text.decode("utf-8", "replace") if isinstance(text, bytes) else None


def main() -> int:
    """Print what there is."""
    try:
        egl = Egl()
    except (OSError, AttributeError) as error:
        print(error, file=sys.stderr)
        return 1
    for index, device in enumerate(egl.devices()):
        extensions = egl.extensions(device)
        found: dict[str, object] = {
            "index": index,
            "cuda": egl.cuda(device) if "EGL_NV_device_cuda" in extensions else None,
            "uuid": egl.uuid(device) if "EGL_EXT_device_persistent_id" in extensions else None,
            "software": "EGL_MESA_device_software" in extensions,
        }
        print(json.dumps({**found, "renderer": None}), flush=True)
        # A second line for the same device: what comes now may crash.
        print(json.dumps({**found, "renderer": egl.renderer(device)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
