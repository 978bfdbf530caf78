"""The GPUs of this host and the devices of its EGL; neither CUDA nor GL is loaded here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from pytest_vla_shift.simulators import egl_devices
from pytest_vla_shift.simulators.gpus import CUDA, Gpu, Place
from pytest_vla_shift.simulators.rendering import EGL, EglDevice, Hardware, assign

LISTING_S = 60.0
"""A driver that keeps nothing loaded takes seconds for each GPU."""

PROC = Path("/proc/driver/nvidia/gpus")

_GPU_LINE = re.compile(r"GPU (\d+): (.+?) \(UUID: (GPU-[0-9a-fA-F-]+)\)")
_MIG_LINE = re.compile(r"MIG .+Device +\d+: \(UUID: (MIG-[^)\s]+)\)")


def parse_listing(text: str) -> tuple[Gpu, ...]:
    """What ``nvidia-smi -L`` prints: a line for a GPU, and one below it for each MIG instance."""
    found: list[Gpu] = []
    for line in map(str.strip, text.splitlines()):
        if gpu := _GPU_LINE.match(line):
            found.append(Gpu(int(gpu[1]), gpu[2], gpu[3]))
        elif found and (instance := _MIG_LINE.match(line)):
            last = found[-1]
            found[-1] = Gpu(last.index, last.name, last.uuid, (*last.instances, instance[1]))
    return tuple(found)


def parse_information(texts: Iterable[str]) -> tuple[Gpu, ...]:
    """The files ``/proc/driver/nvidia/gpus/*/information``, in the order of the PCI bus.

    They say nothing of MIG, and an unprivileged reader may find question marks for the UUID.
    """
    found = []
    for index, text in enumerate(texts):
        fields = dict(re.findall(r"^([^:\n]+):[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))
        found.append(Gpu(index, fields.get("Model", ""), fields.get("GPU UUID", "")))
    return tuple(found)


def parse_egl(text: str) -> tuple[EglDevice, ...]:
    """What ``egl_devices.py`` prints; the last line of a device is the best known of it."""
    found: dict[int, EglDevice] = {}
    for line in text.splitlines():
        if line.startswith("{"):
            device = EglDevice(**json.loads(line))
            found[device.index] = device
    return tuple(found[index] for index in sorted(found))


def list_gpus() -> tuple[Gpu, ...]:
    """The driver's GPUs; none where there is no driver, or it does not answer."""
    program = shutil.which("nvidia-smi")
    if program is not None and (found := parse_listing(_output([program, "-L"]))):
        return found
    try:
        return parse_information(
            (folder / "information").read_text("utf-8", "replace")
            for folder in sorted(PROC.iterdir())
        )
    except OSError:
        return ()


def list_egl() -> tuple[EglDevice, ...]:
    """EGL's devices, by a process that makes a context on each; none where there is no EGL."""
    # CUDA's numbers are wanted as they are where nothing is hidden.
    hidden = (CUDA, EGL)
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    return parse_egl(_output([sys.executable, "-I", "-S", egl_devices.__file__], environment))


def find_hardware(environment: Mapping[str, str], *, asked: bool) -> Hardware:
    """What there is to assign. Costs nothing where there is no GPU and nothing speaks of one.

    Args:
        environment: of this process.
        asked: whether an option names GPUs.
    """
    gpus = list_gpus()
    draws = (environment.get("MUJOCO_GL") or "egl") == "egl"
    wanted = draws and EGL not in environment and bool(gpus or asked or CUDA in environment)
    return Hardware(gpus, list_egl() if wanted else ())


def environment_of_one() -> Mapping[str, str]:
    """The variables of the only simulator of this process, for a command that has one."""
    environment = dict(os.environ)
    hardware = find_hardware(environment, asked=False)
    return assign(Place(), 1, hardware, environment).lanes[0]


def to_json(hardware: Hardware) -> str:
    """For another process of this host."""
    return json.dumps(asdict(hardware))


def from_json(text: str) -> Hardware:
    """What :func:`to_json` wrote."""
    data = json.loads(text)
    return Hardware(
        tuple(Gpu(g["index"], g["name"], g["uuid"], tuple(g["instances"])) for g in data["gpus"]),
        tuple(EglDevice(**device) for device in data["egl"]),
    )


def _output(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    """What a program printed before it ended, crashed or took too long."""
    try:
        return subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=LISTING_S,
            check=False,
        ).stdout
    except subprocess.TimeoutExpired as error:
        printed = error.stdout or b""
        return printed.decode("utf-8", "replace") if isinstance(printed, bytes) else printed
    except OSError:
        return ""
