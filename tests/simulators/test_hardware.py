"""What a host has: listings of its GPUs, and EGL's devices."""

from __future__ import annotations

import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.simulators.gpus import CUDA, Gpu, chosen, visible
from pytest_vla_shift.simulators.hardware import (
    find_hardware,
    from_json,
    list_egl,
    parse_egl,
    parse_information,
    parse_listing,
    to_json,
)
from pytest_vla_shift.simulators.rendering import (
    EGL,
    EglDevice,
)
from tests.simulators.gpu_hosts import (
    CROSSED,
    MIG_HOST,
    NOTHING,
    ONLY_MESA,
    mesa,
)

LISTINGS = {
    "two GPUs": (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)\n"
        "GPU 1: NVIDIA H200 (UUID: GPU-69f0e7f5-5d30-1d2d-8a2f-1b4f0c6f3a11)\n",
        (
            Gpu(0, "NVIDIA A100-SXM4-40GB", "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"),
            Gpu(1, "NVIDIA H200", "GPU-69f0e7f5-5d30-1d2d-8a2f-1b4f0c6f3a11"),
        ),
    ),
    "MIG": (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n"
        "  MIG 1c.3g.20gb  Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)\n",
        (
            Gpu(
                0,
                "NVIDIA A100-SXM4-40GB",
                "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77",
                (
                    "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f",
                    "MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb",
                ),
            ),
        ),
    ),
    "MIG, before driver 470": (
        "GPU 0: A100-SXM4-40GB (UUID: GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0)\n"
        "  MIG 3g.20gb Device 0: (UUID: MIG-GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0/1/0)\n",
        (
            Gpu(
                0,
                "A100-SXM4-40GB",
                "GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0",
                ("MIG-GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0/1/0",),
            ),
        ),
    ),
    "no devices": ("No devices found.\n", ()),
    "no driver": (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        (),
    ),
}


@pytest.mark.parametrize("case", LISTINGS)
def test_listings_of_nvidia_smi(case: str) -> None:
    text, wanted = LISTINGS[case]
    assert parse_listing(text) == wanted


def test_the_driver_s_own_files_without_nvidia_smi() -> None:
    text = (
        "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 142\n"
        "GPU UUID: \t GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77\nBus Location: \t 0000:07:00.0\n"
    )
    assert parse_information([text]) == parse_listing(LISTINGS["two GPUs"][0])[:1]
    # Before a privileged process has asked, the UUID is not known: it matches nothing.
    (unknown,) = parse_information(["Model: \t\t Unknown\nGPU UUID: \t GPU-????????-????\n"])
    assert visible({}, [unknown]) == ("0",)
    with pytest.raises(UsageError):
        chosen(["GPU-5d5ba0d6"], ["0"], [unknown], {})


def test_a_driver_that_crashes_at_a_device_hides_neither_it_nor_the_others() -> None:
    said = (
        '{"index": 0, "cuda": 0, "uuid": null, "software": false, "renderer": null}\n'
        '{"index": 0, "cuda": 0, "uuid": null, "software": false, "renderer": "NVIDIA T4"}\n'
        "libEGL warning: egl: failed to create dri2 screen\n"
        '{"index": 1, "cuda": 1, "uuid": null, "software": false, "renderer": null}\n'
    )
    first, second = parse_egl(said)
    assert (first.draws, second.draws) == (True, False)


def test_hardware_goes_to_other_processes_as_text() -> None:
    for hardware in (CROSSED, MIG_HOST, NOTHING):
        assert from_json(to_json(hardware)) == hardware


def test_the_egl_of_this_host_is_listed_with_what_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the tests of LIBERO run, something draws: a GPU, or Mesa's software."""
    monkeypatch.setenv(CUDA, "")  # it must not hide anything from the list
    found = list_egl()
    assert [device.index for device in found] == list(range(len(found)))
    assert any(device.draws for device in found)
    assert all(device.is_software for device in found if "llvmpipe" in (device.renderer or ""))


def test_nothing_is_asked_of_egl_where_nothing_speaks_of_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def list_mesa() -> tuple[EglDevice, ...]:
        asked.append("egl")
        return (mesa(0),)

    monkeypatch.setattr("pytest_vla_shift.simulators.hardware.list_gpus", lambda: ())
    monkeypatch.setattr("pytest_vla_shift.simulators.hardware.list_egl", list_mesa)
    assert find_hardware({}, asked=False) == NOTHING
    assert find_hardware({CUDA: "", "MUJOCO_GL": "osmesa"}, asked=False) == NOTHING
    assert find_hardware({CUDA: "", EGL: "0"}, asked=False) == NOTHING
    assert not asked
    assert find_hardware({CUDA: ""}, asked=False) == ONLY_MESA
    assert find_hardware({}, asked=True) == ONLY_MESA
