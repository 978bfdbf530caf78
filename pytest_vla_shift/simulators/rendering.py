"""Which GPU a pytest process computes with, and which one each of its simulators draws with.

EGL lists its devices in an order of its own, software renderers among them, and takes no notice of
``CUDA_VISIBLE_DEVICES`` (NVIDIA/cuda-python#2865, google-deepmind/mujoco#3245). So a number of CUDA
is never taken for one of EGL: a device is followed by its UUID, or by the number that
EGL_NV_device_cuda gives.

robosuite adds two rules (1.4.0, binding_utils.py and renderers/context/egl_context.py). Where
``MUJOCO_EGL_DEVICE_ID`` is not set it takes ``CUDA_VISIBLE_DEVICES`` for an EGL number, and fails
on ``""``, ``-1``, a UUID, or a number that EGL does not have. Where both are set, it wants the text
of the first to occur within the second.

Pure functions: :mod:`pytest_vla_shift.simulators.hardware` asks the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.simulators.gpus import (
    CUDA,
    MAIN,
    Gpu,
    Place,
    chosen,
    gpu_of,
    share,
    visible,
    without_twins,
)

EGL = "MUJOCO_EGL_DEVICE_ID"

EGL_LIMIT = 10
"""MuJoCo and robosuite ask EGL for so many devices at most (mujoco/egl/egl_ext.py)."""

_SOFTWARE = ("llvmpipe", "softpipe", "swrast")


def draws_in_software(renderer: str) -> bool:
    """Whether GL's name of a renderer is that of a program on the CPU."""
    return any(word in renderer.lower() for word in _SOFTWARE)


@dataclass(frozen=True, slots=True)
class EglDevice:
    """One device of EGL's list.

    Attributes:
        index: its place there, which is what ``MUJOCO_EGL_DEVICE_ID`` means.
        cuda: CUDA's number of it where no device is hidden; None if it does not say.
        uuid: its UUID without a prefix; None if it does not say.
        software: whether it is a program.
        renderer: GL_RENDERER of a context that was made on it; None if it gave none.
    """

    index: int
    cuda: int | None = None
    uuid: str | None = None
    software: bool = False
    renderer: str | None = None

    @property
    def draws(self) -> bool:
        """Whether a simulator can use it."""
        return self.renderer is not None and self.index < EGL_LIMIT

    @property
    def is_software(self) -> bool:
        """Whether it draws on the CPU, whatever it says of itself."""
        return self.software or draws_in_software(self.renderer or "")


@dataclass(frozen=True, slots=True)
class Hardware:
    """What this host has."""

    gpus: tuple[Gpu, ...] = ()
    egl: tuple[EglDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """Environment variables of one pytest process and of its simulators.

    Attributes:
        process: for the process itself, before its policy is imported.
        lanes: for the simulator process of every lane, over the former; empty where simulators
            live in the pytest process.
        notes: what people should know.
    """

    process: Mapping[str, str]
    lanes: tuple[Mapping[str, str], ...]
    notes: tuple[str, ...] = ()


def assign(
    place: Place,
    lanes: int,
    hardware: Hardware,
    environment: Mapping[str, str],
    gpus: Sequence[str] | None = None,
    render_gpus: Sequence[str] | None = None,
) -> Assignment:
    """What one pytest process and its simulators are to see.

    Where there is no GPU, and no variable that speaks of one, nothing is changed.

    Args:
        place: the process.
        lanes: its simulator processes; 0 where it holds the simulator itself.
        hardware: what the host has.
        environment: of the process, as it was started.
        gpus: ``--vla-gpus``.
        render_gpus: ``--vla-render-gpus``.

    Raises:
        UsageError: an option names a device that is not there, or that cannot draw.
    """
    seen = visible(environment, hardware.gpus)
    own = seen if gpus is None else chosen(gpus, seen, hardware.gpus, environment)
    mine = share(own, place)
    process: dict[str, str] = {}
    if mine and (gpus is not None or place.worker != MAIN):
        process[CUDA] = ",".join(mine)
    drawing = _Drawing(place, hardware, {**environment, **process}, mine)
    if render_gpus is not None:
        drawing.split(render_gpus, seen)
    environments = [drawing.lane(lane) for lane in range(max(1, lanes))]
    notes = tuple(dict.fromkeys(drawing.notes))
    if lanes > 0:
        return Assignment(process, tuple(environments), notes)
    # The policy lives here too, and keeps its devices.
    here = environments[0]
    number = here.get(EGL, environment.get(EGL)) if here else None
    cuda = process.get(CUDA, environment.get(CUDA))
    if number is not None:
        process[EGL] = number
        if cuda is not None:
            process[CUDA] = for_robosuite(cuda, number) if mine else ""
    return Assignment(process, (), notes)


class _Drawing:
    """What the simulators of one process draw with.

    Args:
        place, hardware: as above.
        environment: of the process, with what is assigned to it.
        mine: its CUDA devices.
    """

    def __init__(
        self,
        place: Place,
        hardware: Hardware,
        environment: Mapping[str, str],
        mine: Sequence[str],
    ) -> None:
        self._place = place
        self._hardware = hardware
        self._environment = environment
        self._pool = tuple(mine)
        self._asked = False
        self.notes: list[str] = []

    def split(self, render_gpus: Sequence[str], seen: Sequence[str]) -> None:
        """Draw with devices of their own; they need not be visible to CUDA."""
        if EGL in self._environment:
            raise UsageError(
                f"{EGL}={self._environment[EGL]} and --vla-render-gpus both say what draws:"
                " unset one"
            )
        if not self._uses_egl:
            platform = self._environment.get("MUJOCO_GL")
            raise UsageError(f"--vla-render-gpus needs MUJOCO_GL=egl, not {platform}")
        every = dict.fromkeys([*seen, *visible({}, self._hardware.gpus)])
        names = without_twins(tuple(every), self._hardware.gpus, self._environment)
        self._pool = chosen(
            render_gpus, names, self._hardware.gpus, self._environment, "--vla-render-gpus"
        )
        self._asked = True

    @property
    def _uses_egl(self) -> bool:
        return (self._environment.get("MUJOCO_GL") or "egl") == "egl"

    def lane(self, lane: int) -> dict[str, str]:
        """The variables of one lane's simulator."""
        cuda = self._environment.get(CUDA)
        if not self._uses_egl:
            return {}
        if EGL in self._environment:
            # The user's word; robosuite must only be kept from stumbling over the other variable.
            number = self._environment[EGL]
            mended = for_robosuite(cuda or "", number) if self._pool else ""
            return {} if cuda is None or mended == cuda else {CUDA: mended}
        if not self._pool:
            return {} if cuda is None else self._on_the_cpu("")
        turn = self._place.number + self._place.workers * lane if self._asked else lane
        device = self._pool[turn % len(self._pool)]
        egl = egl_device(device, self._hardware, self._environment)
        if egl is not None:
            number = str(egl.index)
            return {EGL: number, CUDA: for_robosuite(device, number)}
        if self._asked:
            raise UsageError(
                f"--vla-render-gpus: EGL cannot draw on GPU {device!r};"
                f" it has {_describe(self._hardware.egl)}"
            )
        return self._on_the_cpu(device)

    def _on_the_cpu(self, device: str) -> dict[str, str]:
        """Draw in software, where EGL has that; or leave EGL its first device."""
        software = [egl for egl in self._hardware.egl if egl.draws and egl.is_software]
        if software:
            number = str(software[0].index)
            if device:
                self.notes.append(
                    f"EGL cannot draw on GPU {device}: {software[0].renderer} draws pictures"
                )
            return {EGL: number, CUDA: for_robosuite(device, number)}
        if not device:
            return {}
        self.notes.append(
            f"EGL's device of GPU {device} is not known"
            f" ({_describe(self._hardware.egl)}): EGL's first one draws pictures"
        )
        return {EGL: "0", CUDA: for_robosuite(device, "0")}


def egl_device(device: str, hardware: Hardware, environment: Mapping[str, str]) -> EglDevice | None:
    """EGL's device of a CUDA device, if it is known and draws.

    Of a MIG instance, the GPU that it is a part of: EGL has no device for an instance, and most
    GPUs in MIG mode give no context at all.
    """
    drawing = [egl for egl in hardware.egl if egl.draws and not egl.is_software]
    gpu = gpu_of(device, hardware.gpus, environment)
    if gpu is not None and any(egl.uuid is not None for egl in drawing):
        uuid = gpu.uuid.removeprefix("GPU-").lower()
        return next((egl for egl in drawing if (egl.uuid or "").lower() == uuid), None)
    number = int(device) if device.isdecimal() else (gpu.index if gpu is not None else None)
    if number is not None and any(egl.cuda is not None for egl in drawing):
        return next((egl for egl in drawing if egl.cuda == number), None)
    # Neither extension: unambiguous only where there is one of each.
    return drawing[0] if len(drawing) == 1 and len(hardware.gpus) == 1 else None


def for_robosuite(cuda: str, egl: str) -> str:
    """``CUDA_VISIBLE_DEVICES`` that shows the same first devices and contains the text of ``egl``.

    What is appended is one more device to CUDA, or, where CUDA has none of that number, the end of
    its list.
    """
    return cuda if not cuda or egl in cuda else f"{cuda},{egl}"


def _describe(devices: Sequence[EglDevice]) -> str:
    return (
        ", ".join(f"{egl.index}: {egl.renderer or 'gives no context'}" for egl in devices)
        or "no device"
    )
