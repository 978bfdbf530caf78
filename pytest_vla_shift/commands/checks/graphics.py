"""GL: libraries that load, a picture that is really drawn, GPUs, and the variables that decide."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

from pytest_vla_shift.commands.findings import Finding, missing, note, ok
from pytest_vla_shift.simulators.libero import MUJOCO
from pytest_vla_shift.simulators.mending import mending_line

PROBE = "pytest_vla_shift.commands.checks.render_probe"
PROBE_SECONDS = 60.0
"""Far more than a cold start takes; a hang must end."""

LIBRARIES = {"egl": "libEGL.so.1", "osmesa": "libOSMesa.so.8"}
APT = {
    "egl": "apt-get install -y libegl1 libegl-mesa0 libgl1-mesa-dri libgl1 libglib2.0-0",
    "osmesa": "apt-get install -y libosmesa6 libgl1 libglib2.0-0",
}

REINSTALL_MUJOCO = f"pip install --force-reinstall --no-deps 'mujoco=={MUJOCO}'"


@dataclass(slots=True)
class Probe:
    """What the probe said before it ended, and how it ended.

    Attributes:
        platform: the GL platform that it was asked to use.
        libraries: library -> why it does not load, or None if it does.
        mujoco: MuJoCo's version, or None if it is not installed.
        renderer: the GL renderer's name, if a picture was drawn.
        complaint: what went wrong, or None.
        imports: False if MuJoCo is installed and its import raised.
    """

    platform: str
    libraries: dict[str, str | None] = field(default_factory=dict)
    mujoco: str | None = None
    renderer: str | None = None
    complaint: str | None = None
    imports: bool = True


def check() -> list[Finding]:
    """Everything about graphics."""
    platform = os.environ.get("MUJOCO_GL") or "egl"
    probe = run_probe(platform)
    return [*_settings(platform), *_libraries(probe), *_render(probe), *_gpus()]


def run_probe(platform: str) -> Probe:
    """Load the libraries and draw a picture in a process that may crash."""
    probe = Probe(platform)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", PROBE],
            env={**os.environ, "MUJOCO_GL": platform, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        probe.complaint = f"drawing a picture did not end within {PROBE_SECONDS:.0f} s"
        return probe
    for line in ended.stdout.splitlines():
        if line.startswith('{"probe":'):
            said = json.loads(line)["probe"]
            probe.libraries = said.get("libraries", probe.libraries)
            probe.mujoco = said.get("mujoco", probe.mujoco)
            probe.renderer = said.get("renderer", probe.renderer)
            probe.complaint = said.get("complaint", probe.complaint)
            probe.imports = said.get("imports", probe.imports)
    if probe.complaint is None and ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or ["nothing printed"])[-1]
        how = f"signal {-ended.returncode}" if ended.returncode < 0 else f"{ended.returncode}"
        probe.complaint = f"the drawing process ended with {how}: {last}"
    return probe


def _settings(platform: str) -> list[Finding]:
    found = []
    shown = os.environ.get("MUJOCO_GL")
    if platform not in LIBRARIES:
        found.append(
            missing(f"MUJOCO_GL={shown} needs a display, or does not exist", "export MUJOCO_GL=egl")
        )
    else:
        found.append(ok(f"MUJOCO_GL={shown}" if shown else "MUJOCO_GL is not set: egl is used"))
    opengl = os.environ.get("PYOPENGL_PLATFORM")
    if opengl and opengl != platform:
        found.append(
            missing(
                f"PYOPENGL_PLATFORM={opengl} contradicts MUJOCO_GL ({platform})",
                "unset PYOPENGL_PLATFORM",
            )
        )
    found += [
        note(f"{name}={value}")
        for name in ("MUJOCO_EGL_DEVICE_ID", "CUDA_VISIBLE_DEVICES")
        if (value := os.environ.get(name)) is not None
    ]
    return found


def _libraries(probe: Probe) -> list[Finding]:
    found = []
    for platform, library in LIBRARIES.items():
        if library not in probe.libraries:
            continue
        complaint = probe.libraries[library]
        if complaint is None:
            found.append(ok(f"{library} loads"))
        elif platform == probe.platform:
            found.append(missing(f"{library} does not load: {complaint}", APT[platform]))
        else:
            found.append(
                note(f"{library} does not load; only MUJOCO_GL={platform} needs it", APT[platform])
            )
    return found


def _render(probe: Probe) -> list[Finding]:
    if probe.renderer is not None:
        return [
            ok(f"MuJoCo {probe.mujoco} draws with MUJOCO_GL={probe.platform} on {probe.renderer}")
        ]
    if probe.mujoco is None and probe.complaint is None:
        return [note("MuJoCo is not installed, so nothing was drawn", "see Simulators, below")]
    complaint = probe.complaint or "no picture"
    if not probe.imports:
        # No GL library of the system mends a broken package.
        broken = f"import mujoco fails: {complaint}"
        return [missing(broken, mending_line(complaint) or REINSTALL_MUJOCO)]
    mend = mending_line(complaint) or APT.get(probe.platform)
    found = [missing(f"nothing is drawn with MUJOCO_GL={probe.platform}: {complaint}", mend)]
    other = "osmesa" if probe.platform == "egl" else "egl"
    if probe.libraries.get(LIBRARIES[other], "unknown") is None and run_probe(other).renderer:
        found.append(note(f"MUJOCO_GL={other} does draw here", f"export MUJOCO_GL={other}"))
    return found


def _gpus() -> list[Finding]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return [note("no NVIDIA driver: pictures are drawn on the CPU, which is slower and works")]
    try:
        ended = subprocess.run(
            [program, "--query-gpu=index,name,memory.total", "--format=csv,noheader"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [note("nvidia-smi does not answer within 10 s")]
    if ended.returncode != 0 or not ended.stdout.strip():
        return [note(f"nvidia-smi finds no GPU: {(ended.stdout + ended.stderr).strip()[:200]}")]
    return [ok(f"GPU {line}") for line in ended.stdout.strip().splitlines()]
