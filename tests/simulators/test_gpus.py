"""From processes and GPUs to environment variables: tables of hosts as people have met them.

No GPU was at hand: what drivers say is taken from the sources named, not measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.simulators.gpus import CUDA, Gpu, Place, share
from pytest_vla_shift.simulators.rendering import (
    EGL,
    Assignment,
    Hardware,
    assign,
    for_robosuite,
)
from tests.simulators.gpu_hosts import (
    CROSSED,
    MIG,
    MIG_DRAWS,
    MIG_HOST,
    NOTHING,
    ONE,
    ONLY_MESA,
    SEVEN,
    gpu_egl,
    gpus,
    mesa,
    uuid,
)

MAIN = Place()
W1, W3 = Place("gw1", 4), Place("gw3", 4)
OF_2 = [Place(f"gw{n}", 2) for n in range(2)]


@dataclass(frozen=True, slots=True)
class Ask:
    """What ``assign`` is asked."""

    place: Place
    lanes: int
    hardware: Hardware
    environment: Mapping[str, str]
    gpus: Sequence[str] | None = None
    render_gpus: Sequence[str] | None = None

    def answer(self) -> Assignment:
        return assign(*(getattr(self, field.name) for field in fields(self)))


def lane(egl: int, cuda: str) -> dict[str, str]:
    return {EGL: str(egl), CUDA: cuda}


# What the process gets, and what each of its simulators gets over that.
CASES: dict[str, tuple[Ask, tuple[dict[str, str], list[dict[str, str]]]]] = {
    "no GPU: nothing is touched": (Ask(MAIN, 2, NOTHING, {}), ({}, [{}, {}])),
    "no GPU, in the pytest process": (Ask(MAIN, 0, NOTHING, {}), ({}, [])),
    "no GPU, a worker": (Ask(W1, 1, NOTHING, {}), ({}, [{}])),
    "one GPU: the process keeps what it had": (Ask(MAIN, 1, ONE, {}), ({}, [lane(0, "0")])),
    "EGL's order is another": (Ask(MAIN, 2, CROSSED, {}), ({}, [lane(1, "0,1"), lane(0, "1,0")])),
    "a worker for each GPU, the first": (
        Ask(OF_2[0], 1, CROSSED, {}),
        ({CUDA: "0"}, [lane(1, "0,1")]),
    ),
    "a worker for each GPU, the second": (
        Ask(OF_2[1], 1, CROSSED, {}),
        ({CUDA: "1"}, [lane(0, "1,0")]),
    ),
    "more workers than GPUs take turns": (Ask(W3, 1, CROSSED, {}), ({CUDA: "1"}, [lane(0, "1,0")])),
    "more GPUs than workers are divided": (
        Ask(OF_2[1], 3, SEVEN, {}),
        ({CUDA: "3,4,5,6"}, [lane(5, "3,5"), lane(4, "4"), lane(3, "5,3")]),
    ),
    "a worker that came for one that crashed": (
        Ask(Place("gw2", 2), 1, CROSSED, {}),
        ({CUDA: "0"}, [lane(1, "0,1")]),
    ),
    "mujoco#3245, GPU 3 alone": (
        Ask(MAIN, 1, SEVEN, {CUDA: "3"}),
        ({}, [lane(5, "3,5")]),
    ),
    "the order of CUDA_VISIBLE_DEVICES counts": (
        Ask(OF_2[0], 1, CROSSED, {CUDA: "1,0"}),
        ({CUDA: "1"}, [lane(0, "1,0")]),
    ),
    "a UUID": (
        Ask(MAIN, 1, CROSSED, {CUDA: uuid(1)}),
        ({}, [lane(0, uuid(1))]),  # its text has a 0, which is all that robosuite wants
    ),
    "a UUID cut short": (
        Ask(MAIN, 1, CROSSED, {CUDA: uuid(1)[:12]}),
        ({}, [lane(0, f"{uuid(1)[:12]},0")]),
    ),
    # Without cgroups Slurm numbers the host's GPUs; EGL lists all of them.
    "Slurm, a task bound to GPU 1": (
        Ask(MAIN, 1, CROSSED, {CUDA: "1", "SLURM_LOCALID": "1"}),
        ({}, [lane(0, "1,0")]),
    ),
    # With them a job sees its own GPUs from 0 on (VirtualGL#207: CUDA_VISIBLE_DEVICES=0,1, while
    # the devices are /dev/nvidia[23]), and so do nvidia-smi and EGL.
    "Slurm with cgroups": (Ask(MAIN, 1, ONE, {CUDA: "0"}), ({}, [lane(0, "0")])),
    "Slurm without a GPU": (
        Ask(MAIN, 1, ONLY_MESA, {CUDA: "NoDevFiles"}),
        ({}, [lane(0, "")]),
    ),
    # starVLA#390: CUDA_VISIBLE_DEVICES=1, and EGL has one device: robosuite asked for number 1.
    "EGL has the visible GPU alone": (
        Ask(MAIN, 1, Hardware(gpus(2), (gpu_egl(0, 1),)), {CUDA: "1"}),
        ({}, [lane(0, "1,0")]),
    ),
    # A container without the driver capability "graphics": EGL has Mesa alone.
    "a container without graphics": (
        Ask(MAIN, 1, Hardware(gpus(2), (mesa(0),)), {CUDA: "1"}),
        ({}, [lane(0, "1,0")]),
    ),
    "no extension says which: one of each": (
        Ask(MAIN, 1, Hardware(gpus(1), (gpu_egl(0, 0, known_by=""), mesa(1))), {}),
        ({}, [lane(0, "0")]),
    ),
    "no extension says which of two": (
        Ask(
            OF_2[1],
            1,
            Hardware(gpus(2), (gpu_egl(0, 0, known_by=""), gpu_egl(1, 1, known_by=""))),
            {},
        ),
        ({CUDA: "1"}, [lane(0, "1,0")]),  # EGL's first, as MuJoCo alone would take, and a note
    ),
    "CUDA's number alone": (
        Ask(
            MAIN,
            1,
            Hardware(gpus(2), (gpu_egl(0, 1, known_by="cuda"), gpu_egl(1, 0, known_by="cuda"))),
            {CUDA: "0"},
        ),
        ({}, [lane(1, "0,1")]),
    ),
    # CUDA puts the fastest model first, nvidia-smi the lowest bus: its UUIDs say nothing then.
    "two models": (
        Ask(
            MAIN,
            1,
            Hardware(
                gpus(2, "NVIDIA T400", "NVIDIA A100"),
                (
                    replace(gpu_egl(0, 1), uuid=uuid(0)[4:]),
                    replace(gpu_egl(1, 0), uuid=uuid(1)[4:]),
                ),
            ),
            {CUDA: "0"},
        ),
        ({}, [lane(1, "0,1")]),
    ),
    "two models, numbered by bus": (
        Ask(
            MAIN,
            1,
            Hardware(
                gpus(2, "NVIDIA T400", "NVIDIA A100"),
                (gpu_egl(0, 0, known_by="uuid"), gpu_egl(1, 1, known_by="uuid")),
            ),
            {CUDA: "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        ),
        ({}, [lane(1, "1")]),
    ),
    "hidden by nothing": (Ask(MAIN, 1, CROSSED, {CUDA: ""}), ({}, [lane(2, "")])),
    "hidden by -1": (Ask(MAIN, 1, CROSSED, {CUDA: "-1"}), ({}, [lane(2, "")])),
    "hidden, and EGL has GPUs alone": (
        Ask(MAIN, 1, Hardware(gpus(1), (gpu_egl(0, 0),)), {CUDA: ""}),
        ({}, [{}]),
    ),
    "hidden, on a host without a GPU": (Ask(MAIN, 1, ONLY_MESA, {CUDA: ""}), ({}, [lane(0, "")])),
    "hidden, in the pytest process": (
        Ask(MAIN, 0, CROSSED, {CUDA: "-1"}),
        ({EGL: "2", CUDA: ""}, []),
    ),
    "a list ends at what is no device": (
        Ask(MAIN, 2, CROSSED, {CUDA: "0,-1,1"}),
        ({}, [lane(1, "0,1"), lane(1, "0,1")]),
    ),
    "a list ends at a number that is not there": (
        Ask(MAIN, 2, CROSSED, {CUDA: "1,7,0"}),
        ({}, [lane(0, "1,0"), lane(0, "1,0")]),
    ),
    "the user's EGL device is kept": (
        Ask(MAIN, 1, CROSSED, {EGL: "0"}),
        ({}, [{}]),
    ),
    # vlarl#16: MUJOCO_EGL_DEVICE_ID=0 and robosuite's AssertionError.
    "the user's EGL device is kept, and robosuite with it": (
        Ask(MAIN, 1, CROSSED, {EGL: "0", CUDA: "1"}),
        ({}, [{CUDA: "1,0"}]),
    ),
    "the user's EGL device, GPUs hidden": (
        Ask(MAIN, 1, CROSSED, {EGL: "0", CUDA: "-1"}),
        ({}, [{CUDA: ""}]),
    ),
    "the user's EGL device, in the pytest process": (
        Ask(MAIN, 0, CROSSED, {EGL: "0", CUDA: "1"}),
        ({EGL: "0", CUDA: "1,0"}, []),
    ),
    "the user's EGL device, a worker": (
        Ask(OF_2[1], 1, CROSSED, {EGL: "0"}),
        ({CUDA: "1"}, [{CUDA: "1,0"}]),
    ),
    "osmesa draws on the CPU": (
        Ask(OF_2[1], 1, CROSSED, {"MUJOCO_GL": "osmesa"}),
        ({CUDA: "1"}, [{}]),
    ),
    "in the pytest process the policy keeps its GPUs": (
        Ask(MAIN, 0, CROSSED, {CUDA: "0"}),
        ({EGL: "1", CUDA: "0,1"}, []),
    ),
    "in the pytest process, nothing set": (Ask(MAIN, 0, CROSSED, {}), ({EGL: "1"}, [])),
    "MIG: EGL gives no context": (
        Ask(MAIN, 1, MIG_HOST, {CUDA: MIG[0]}),
        ({}, [lane(1, MIG[0])]),
    ),
    "MIG: nothing set": (Ask(MAIN, 1, MIG_HOST, {}), ({}, [lane(1, MIG[0])])),
    "MIG: an instance for each worker": (
        Ask(OF_2[1], 1, MIG_HOST, {}),
        ({CUDA: MIG[1]}, [lane(1, f"{MIG[1]},1")]),
    ),
    "MIG: one instance for a worker that could have two": (
        Ask(Place("gw0", 1), 1, MIG_HOST, {CUDA: ",".join(MIG)}),
        ({CUDA: MIG[0]}, [lane(1, MIG[0])]),
    ),
    "MIG: a card that draws, through its whole self": (
        Ask(OF_2[0], 1, MIG_DRAWS, {}),
        ({CUDA: MIG[0]}, [lane(0, f"{MIG[0]},0")]),
    ),
    "MIG: the name of older drivers": (
        Ask(MAIN, 1, MIG_DRAWS, {CUDA: f"MIG-{uuid(0)}/7/0"}),
        ({}, [lane(0, f"MIG-{uuid(0)}/7/0")]),
    ),
    "--vla-gpus": (
        Ask(MAIN, 1, SEVEN, {}, ["5", "6"]),
        ({CUDA: "5,6"}, [lane(3, "5,3")]),
    ),
    "--vla-gpus among the visible, a worker": (
        Ask(OF_2[1], 1, SEVEN, {CUDA: "1,5,6"}, ["5", "6"]),
        ({CUDA: "6"}, [lane(6, "6")]),
    ),
    "--vla-gpus by UUID, where numbers are visible": (
        Ask(MAIN, 1, CROSSED, {CUDA: "0,1"}, [uuid(1)]),
        ({CUDA: "1"}, [lane(0, "1,0")]),
    ),
    "--vla-render-gpus splits": (
        Ask(MAIN, 1, CROSSED, {CUDA: "0"}, None, ["1"]),
        ({}, [lane(0, "1,0")]),
    ),
    "--vla-gpus and --vla-render-gpus": (
        Ask(MAIN, 3, SEVEN, {}, ["0"], ["1", "2"]),
        ({CUDA: "0"}, [lane(1, "1"), lane(0, "2,0"), lane(1, "1")]),
    ),
    "--vla-render-gpus: workers and lanes take turns": (
        Ask(OF_2[1], 2, SEVEN, {}, ["0", "6"], ["1", "2", "3"]),
        ({CUDA: "6"}, [lane(0, "2,0"), lane(1, "1")]),
    ),
    "--vla-render-gpus in the pytest process": (
        Ask(MAIN, 0, CROSSED, {CUDA: "0"}, None, ["1"]),
        ({EGL: "0", CUDA: "0"}, []),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_assignments(case: str) -> None:
    ask, (process, wanted) = CASES[case]
    got = ask.answer()
    assert (dict(got.process), [dict(lane) for lane in got.lanes]) == (process, wanted)
    for variables in got.lanes or ({},):
        robosuite_starts({**ask.environment, **got.process, **variables}, ask.hardware)


def robosuite_starts(environment: dict[str, str], hardware: Hardware) -> None:
    """What robosuite 1.4.0 demands at import and at its first context, told apart from us."""
    if (environment.get("MUJOCO_GL") or "egl") != "egl":
        return
    cuda, egl = environment.get(CUDA), environment.get(EGL)
    if cuda and egl is not None:
        assert egl.isdigit()
        assert egl in cuda
    if egl is None and cuda == "" and any(device.is_software for device in hardware.egl):
        raise AssertionError("robosuite takes the empty list for a number")


REFUSED: dict[str, tuple[Ask, str]] = {
    "not visible": (
        Ask(MAIN, 1, CROSSED, {CUDA: "0"}, ["1"]),
        r"GPU '1' is not one of those that are visible: 0 \(CUDA_VISIBLE_DEVICES=0\)",
    ),
    "not there": (Ask(MAIN, 1, CROSSED, {}, ["2"]), "visible: 0, 1$"),
    "no GPU": (Ask(MAIN, 1, NOTHING, {}, ["0"]), "visible: none"),
    "twice": (Ask(MAIN, 1, CROSSED, {}, ["1", uuid(1)]), "named twice"),
    "ambiguous": (
        Ask(
            MAIN,
            1,
            Hardware((Gpu(0, "a", "GPU-11"), Gpu(1, "b", "GPU-12"))),
            {CUDA: "GPU-11,GPU-12"},
            ["GPU-1"],
        ),
        "not one of",
    ),
    "a GPU in MIG mode": (Ask(MAIN, 1, MIG_HOST, {}, ["0"]), f"visible: {MIG[0]}, {MIG[1]}"),
    "numbers of two models against UUIDs": (
        Ask(MAIN, 1, Hardware(gpus(2, "NVIDIA T400", "NVIDIA A100")), {CUDA: uuid(1)}, ["1"]),
        "not one of",
    ),
    "cannot draw": (
        Ask(MAIN, 1, MIG_HOST, {}, None, [MIG[0]]),
        "EGL cannot draw on GPU 'MIG-.*; it has 0: gives no context, 1: llvmpipe",
    ),
    "both say what draws": (Ask(MAIN, 1, CROSSED, {EGL: "0"}, None, ["1"]), "both say what draws"),
    "nothing that could": (
        Ask(MAIN, 1, CROSSED, {"MUJOCO_GL": "osmesa"}, None, ["1"]),
        "needs MUJOCO_GL=egl, not osmesa",
    ),
    "beyond what MuJoCo asks EGL for": (
        Ask(MAIN, 1, Hardware(gpus(11), tuple(gpu_egl(n, n) for n in range(11))), {}, None, ["10"]),
        "EGL cannot draw on GPU '10'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    ask, message = REFUSED[case]
    with pytest.raises(UsageError, match=message):
        ask.answer()


@pytest.mark.parametrize(
    "hardware,environment,note",
    [
        (CROSSED, {}, None),
        (CROSSED, {CUDA: "-1"}, None),  # as asked
        (MIG_HOST, {}, f"EGL cannot draw on GPU {MIG[0]}: llvmpipe"),
        (Hardware(gpus(2), ()), {CUDA: "1"}, "EGL's device of GPU 1 is not known (no device)"),
    ],
)
def test_people_are_told_what_draws_instead(
    hardware: Hardware, environment: dict[str, str], note: str | None
) -> None:
    notes = assign(MAIN, 1, hardware, environment).notes
    assert len(notes) == (note is not None)
    assert note is None or notes[0].startswith(note)


@pytest.mark.parametrize("workers", range(1, 12))
@pytest.mark.parametrize("count", range(1, 10))
def test_every_device_is_used_and_no_worker_goes_without(workers: int, count: int) -> None:
    devices = [str(number) for number in range(count)]
    shares = [share(devices, Place(f"gw{n}", workers)) for n in range(workers)]
    assert all(shares)
    used = [device for own in shares for device in own]
    assert set(used) == set(devices[:workers] if count > workers else devices) or count > workers
    assert set(used) == set(devices)
    counts = [used.count(device) for device in devices]
    assert max(counts) - min(counts) <= 1
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("cuda,egl,wanted", [("3", "1", "3,1"), ("13", "3", "13"), ("", "0", "")])
def test_robosuite_wants_one_text_within_the_other(cuda: str, egl: str, wanted: str) -> None:
    assert for_robosuite(cuda, egl) == wanted


# NVIDIA's MIG user guide, section "CUDA device enumeration", two drivers.
