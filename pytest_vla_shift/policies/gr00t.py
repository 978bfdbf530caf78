"""``--vla-policy=gr00t``: NVIDIA's GR00T N1.5, N1.6 and N1.7, behind their own servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pytest_vla_shift.policies.addresses import read_address
from pytest_vla_shift.policies.remote import Adapter, RemotePolicy
from pytest_vla_shift.policies.remote_arguments import remote_arguments
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.settings import PolicySettings
    from pytest_vla_shift.policies.wires.gr00t import Api
    from pytest_vla_shift.policies.wires.gr00t_codec import Arrays
    from pytest_vla_shift.policies.wires.gr00t_layout import Layout
    from pytest_vla_shift.policies.wires.protocol import Wire

REVISION = "1"
"""Raised whenever this adapter would send or read something else."""

START = (
    "Start one with: python gr00t/eval/run_gr00t_server.py --embodiment-tag LIBERO_PANDA"
    " --model-path CHECKPOINT --use-sim-policy-wrapper (N1.6 and later), or"
    " python scripts/inference_service.py --server (N1.5)"
)

T = TypeVar("T")


def gr00t(
    *,
    settings: PolicySettings,
    profile: str = "libero",
    api: str = "auto",
    layout: str = "auto",
    arrays: str = "auto",
    chunk: str | None = None,
    seeded: str | None = None,
) -> RemotePolicy:
    """A GR00T server at ``--vla-policy-url=tcp://HOST:5555``.

    Args:
        settings: of the run.
        profile: ``libero``, ``libero-n15``, ``robocasa``, ``robocasa365``, or a file.
        api: ``n1.5``, ``n1.6`` (also for N1.7), or ``auto``: N1.5 alone knows no reset.
        layout: of observations since N1.6: ``flat`` for a server that was started with
            ``--use-sim-policy-wrapper``, ``nested`` for one without, ``auto`` to try.
        arrays: how they are written: ``npy``, ``msgpack-numpy``, or ``auto``: as the server does,
            which its ``get_modality_config`` tells, and ``npy`` if it does not.
        chunk: the most actions in an answer, if the server does not say.
        seeded: whether the server's policy draws from the seed that ``reset`` is given; a stock
            one does not.

    Raises:
        UsageError: nobody listens there, server and profile do not agree, an argument cannot be
            read, or pyzmq or msgpack is not installed.
    """
    try:
        from pytest_vla_shift.policies.wires.gr00t import Gr00tWire
    except ImportError as error:
        raise UsageError(
            f"policy 'gr00t' needs pyzmq and msgpack ({error}):"
            " pip install 'pytest-vla-shift[groot]'"
        ) from error
    from pytest_vla_shift.policies.wires.gr00t_channel import PORT

    said = remote_arguments("gr00t", profile, chunk, seeded)
    apis: dict[str, Api | None] = {"auto": None, "n1.5": "n1.5", "n1.6": "n1.6", "n1.7": "n1.6"}
    layouts: dict[str, Layout | None] = {"auto": None, "flat": "flat", "nested": "nested"}
    encodings: dict[str, Arrays | None] = {"auto": None, "npy": "npy"}
    encodings["msgpack-numpy"] = "msgpack-numpy"
    chosen_arrays = _one_of("arrays", arrays, encodings)
    chosen_api = _one_of("api", api, apis)
    chosen_layout = _one_of("layout", layout, layouts)
    url = settings.url or f"tcp://127.0.0.1:{PORT}"
    host, port = read_url(url, PORT)

    def make_wire() -> Wire:
        return Gr00tWire(
            host,
            port,
            token=settings.token,
            api=chosen_api,
            layout=chosen_layout,
            arrays=chosen_arrays,
        )

    return RemotePolicy(
        Adapter(
            name="gr00t",
            revision=f"gr00t {REVISION}",
            url=url,
            profile=said.profile,
            make_wire=make_wire,
            settings=settings,
            start=START,
            chunk=said.chunk,
            seeded=said.seeded,
        )
    )


def read_url(url: str, port: int) -> tuple[str, int]:
    """Host and port of ``tcp://HOST[:PORT]``.

    Args:
        url: as it was given.
        port: where it has none.

    Raises:
        UsageError: it is of another form.
    """
    parts = read_address(url, ("tcp",), port, bare=True)
    return parts.hostname or "", parts.port or port


def _one_of(name: str, text: str, values: dict[str, T]) -> T:
    if text not in values:
        raise UsageError(f"--vla-policy-arg={name}: {text!r} is none of {', '.join(values)}")
    return values[text]
