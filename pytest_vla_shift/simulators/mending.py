"""Known complaints of simulators that cannot start, and the line that mends each."""

from __future__ import annotations

import re

_GL = (
    "No usable GL library: apt-get install -y libegl1 libegl-mesa0 libgl1-mesa-dri libgl1"
    " libglib2.0-0; or apt-get install -y libosmesa6 and set MUJOCO_GL=osmesa."
)

_KNOWN: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), line)
    for pattern, line in (
        (
            r"No module named '?pytest_vla_shift",
            "Install pytest-vla-shift in the simulator's Python too: PYTHON -m pip install"
            " pytest-vla-shift.",
        ),
        (
            r"No module named '?(libero|robosuite|bddl|mujoco)\b",
            "pip install 'pytest-vla-shift[libero]' into the simulator's Python.",
        ),
        (r"No module named '?numpy\b", "pip install numpy into the simulator's Python."),
        (r"lib(EGL|OSMesa|GL|GLX|OpenGL)\.so|libgthread|libglib-2", _GL),
        (r"no attribute 'eglQueryString'|Cannot initialize a EGL device|EGL_NOT_INITIALIZED", _GL),
        (r"no attribute '?(OSMesaGetCurrentContext|glGetError)", _GL),
        (r"invalid value for environment variable MUJOCO_GL", "MUJOCO_GL may be egl or osmesa."),
        (
            r"Permission denied: '[^']*robosuite\.log'",
            "Another user owns robosuite.log in the temporary folder: set TMPDIR to one of yours.",
        ),
    )
)


def mending_line(complaint: str) -> str | None:
    """What to do about it, or None for a complaint that is not known."""
    return next((line for pattern, line in _KNOWN if pattern.search(complaint)), None)
