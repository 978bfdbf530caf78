"""Hosts with GPUs: what drivers say is taken from the sources named, not measured."""

from __future__ import annotations

from dataclasses import replace

from pytest_vla_shift.simulators.gpus import Gpu
from pytest_vla_shift.simulators.rendering import EglDevice, Hardware


def uuid(number: int) -> str:
    return f"GPU-{number}a2b3c4d-5d5b-4e3c-9a1f-0123456789ab"


def gpus(count: int, *names: str) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(n, names[n] if names else "NVIDIA A100-SXM4-80GB", uuid(n)) for n in range(count)
    )


def gpu_egl(index: int, cuda: int, *, known_by: str = "both") -> EglDevice:
    """EGL's entry ``index``, which is CUDA's device ``cuda``."""
    return EglDevice(
        index,
        cuda=cuda if known_by in ("both", "cuda") else None,
        uuid=uuid(cuda).removeprefix("GPU-") if known_by in ("both", "uuid") else None,
        renderer="NVIDIA A100-SXM4-80GB/PCIe/SSE2",
    )


def mesa(index: int) -> EglDevice:
    return EglDevice(index, software=True, renderer="llvmpipe (LLVM 15.0.6, 256 bits)")


# Two GPUs that EGL lists the other way round, and Mesa's software device behind them.
CROSSED = Hardware(gpus(2), (gpu_egl(0, 1), gpu_egl(1, 0), mesa(2)))
ONE = Hardware(gpus(1), (gpu_egl(0, 0), mesa(1)))
NOTHING = Hardware()
ONLY_MESA = Hardware((), (mesa(0),))

# A 7 x RTX 3090 node, google-deepmind/mujoco#3245: "desired physical GPU -> EGL number".
ORDER_OF_3245 = {0: 2, 1: 1, 2: 0, 3: 5, 4: 4, 5: 3, 6: 6}
SEVEN = Hardware(gpus(7), tuple(gpu_egl(egl, cuda) for cuda, egl in sorted(ORDER_OF_3245.items())))

# habitat-sim#1744: a DGX A100 with MIG; two EGL devices are found, and neither gives a context.
MIG = ("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb")
MIG_GPU = replace(gpus(1)[0], instances=MIG)
MIG_HOST = Hardware((MIG_GPU,), (replace(gpu_egl(0, 0), renderer=None), mesa(1)))
# A card that draws in MIG mode (RTX PRO 6000 Blackwell is said to), seen as its whole self.
MIG_DRAWS = Hardware((MIG_GPU,), (gpu_egl(0, 0), mesa(1)))
