"""The GPUs of a host and their names: which of them a run and its processes have.

CUDA numbers the devices of ``CUDA_VISIBLE_DEVICES``, or all, its own way; ``nvidia-smi`` numbers
them by PCI bus. Names are compared here as both take them: numbers, UUIDs or their beginnings, and
the names of MIG instances. Pure functions: :mod:`pytest_vla_shift.simulators.hardware` asks the
driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_vla_shift.protocol.errors import UsageError

CUDA = "CUDA_VISIBLE_DEVICES"
MAIN = "main"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of the driver's list.

    Attributes:
        index: ``nvidia-smi``'s number.
        name: the model.
        uuid: ``GPU-...``.
        instances: of a GPU in MIG mode, the names of its instances, ``MIG-...``.
    """

    index: int
    name: str
    uuid: str
    instances: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A pytest process among those of its run: ``main``, or ``gw0``, ``gw1`` ... of ``workers``."""

    worker: str = MAIN
    workers: int = 1

    @property
    def number(self) -> int:
        """0 for the main process; a worker that replaces another one takes the next place."""
        digits = self.worker.removeprefix("gw")
        return int(digits) if digits.isdecimal() else 0


def visible(environment: Mapping[str, str], gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """The devices that CUDA shows, by names that ``CUDA_VISIBLE_DEVICES`` takes.

    Without the variable, all: of GPUs in MIG mode their instances. With it, as CUDA reads it: up
    to the first entry that is no device. ``""``, ``-1`` and Slurm's ``NoDevFiles`` are none.
    """
    text = environment.get(CUDA)
    if text is None:
        instances = tuple(name for gpu in gpus for name in gpu.instances)
        return instances or tuple(str(gpu.index) for gpu in gpus)
    found: list[str] = []
    for word in (part.strip() for part in text.split(",")):
        number = word.isascii() and word.isdecimal()
        if not number and not word.startswith(("GPU-", "MIG-")):
            break
        if number and gpus and int(word) >= len(gpus):
            break
        found.append(word)
    return tuple(found)


def chosen(
    given: Sequence[str],
    among: Sequence[str],
    gpus: Sequence[Gpu],
    environment: Mapping[str, str],
    option: str = "--vla-gpus",
) -> tuple[str, ...]:
    """The devices that ``option`` names, by their names in ``among``.

    A number and a UUID, or the beginning of one, may name the same device.

    Raises:
        UsageError: one is not there, or there twice.
    """
    found = []
    for word in given:
        names = {word, *_aliases(word, gpus, environment)}
        matches = [
            device
            for device in among
            if device in names or any(_is_beginning(name, device) for name in names)
        ]
        if len(matches) != 1:
            have = ", ".join(among) or "none"
            shown = f" ({CUDA}={environment[CUDA]})" if CUDA in environment else ""
            raise UsageError(
                f"{option}: GPU {word!r} is not one of those that are visible: {have}{shown}"
            )
        found.append(matches[0])
    if len(set(found)) < len(found):
        raise UsageError(f"{option}: a GPU is named twice in {','.join(given)}")
    return tuple(found)


def share(devices: Sequence[str], place: Place) -> tuple[str, ...]:
    """The devices of one pytest process.

    The main process has all. Workers divide them; where there are more workers than devices, they
    take turns. Of MIG instances a worker has one: CUDA shows a process no more.
    """
    if place.worker == MAIN or not devices:
        return tuple(devices)
    number, count = place.number % place.workers, len(devices)
    if count < place.workers:
        return (devices[number % count],)
    own = devices[number * count // place.workers : (number + 1) * count // place.workers]
    return tuple(own[:1] if own[0].startswith("MIG-") else own)


def without_twins(
    devices: Sequence[str], gpus: Sequence[Gpu], environment: Mapping[str, str]
) -> list[str]:
    """Without later names of a device that is there already."""
    found: list[str] = []
    for device in devices:
        names = {device, *_aliases(device, gpus, environment)}
        if not any(
            known in names or any(_is_beginning(n, known) for n in names) for known in found
        ):
            found.append(device)
    return found


def gpu_of(device: str, gpus: Sequence[Gpu], environment: Mapping[str, str]) -> Gpu | None:
    """The GPU behind a name, or of an instance the GPU that it is a part of, if that is sure."""
    if device.isdecimal():
        known = int(device) < len(gpus) and _numbers_agree(gpus, environment)
        return gpus[int(device)] if known else None
    if device.startswith("MIG-GPU-"):  # drivers before 470: MIG-GPU-<uuid>/<instance>/<instance>
        device = device.removeprefix("MIG-").partition("/")[0]
    for gpu in gpus:
        if device in gpu.instances or _is_beginning(device, gpu.uuid):
            return gpu
    return None


def _numbers_agree(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> bool:
    """Whether CUDA's numbers are ``nvidia-smi``'s. By default CUDA puts the fastest model first."""
    return environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({g.name for g in gpus}) <= 1


def _aliases(word: str, gpus: Sequence[Gpu], environment: Mapping[str, str]) -> set[str]:
    """Other names of the same whole GPU."""
    gpu = None if word.startswith("MIG-") else gpu_of(word, gpus, environment)
    if gpu is None:
        return set()
    names = {gpu.uuid}
    if _numbers_agree(gpus, environment):
        names.add(str(gpu.index))
    return names


def _is_beginning(word: str, name: str) -> bool:
    """Whether a UUID is abbreviated so; either may be the shorter one."""
    if not word.startswith(("GPU-", "MIG-")) or len(word) <= 4:
        return False
    return name.startswith(word) or (len(name) > 4 and word.startswith(name))
