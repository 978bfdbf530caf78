"""pi0, pi0-FAST and pi0.5 behind openpi's own server, or anything else that speaks its wire."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.extras import require
from pytest_vla_shift.policies.remote import Adapter, RemotePolicy
from pytest_vla_shift.policies.remote_arguments import remote_arguments
from pytest_vla_shift.policies.wires.openpi import PORT, OpenPiWire
from pytest_vla_shift.policies.wires.websocket import check_token, check_url, require_websockets
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.settings import PolicySettings

REVISION = "openpi 1"
"""Raised whenever this adapter would send or read something else."""

URL = f"ws://127.0.0.1:{PORT}"


def _policy(
    name: str,
    config: str,
    /,
    profile: str = "libero",
    chunk: str | None = None,
    seeded: str | None = None,
    metadata: str = "key",
    *,
    settings: PolicySettings,
) -> RemotePolicy:
    """A policy behind an openpi server.

    Args:
        name: what ``--vla-policy`` calls it.
        config: of openpi's, with which such a server is started.
        profile: shipped profile or TOML file; how observations and actions are laid out.
        chunk: the most actions in an answer, where not all are as long as that to the trial.
        seeded: whether a seed decides the policy's randomness; only a server of ours takes one.
        metadata: ``key``: what the server says of itself tells it apart from others, as the
            weights do; ``ignore``: it does not, since it differs from start to start.
        settings: of the run.

    Raises:
        UsageError: the server cannot be used; see
            :class:`~pytest_vla_shift.policies.remote.RemotePolicy`.
    """
    require("openpi", "msgpack")
    require_websockets("openpi")
    arguments = remote_arguments("openpi", profile, chunk, seeded)
    if metadata not in ("key", "ignore"):
        raise UsageError(f"--vla-policy-arg=metadata: {metadata!r} is neither key nor ignore")
    url = check_url(settings.url or URL)
    token = None if settings.token is None else check_token(settings.token)
    adapter = Adapter(
        name=name,
        revision=REVISION,
        url=url,
        profile=arguments.profile,
        make_wire=lambda: OpenPiWire(url, token, identified=metadata == "key"),
        settings=settings,
        start=(
            "Start one, in a checkout of openpi: uv run scripts/serve_policy.py policy:checkpoint"
            f" --policy.config={config} --policy.dir=<checkpoint>"
        ),
        chunk=arguments.chunk,
        seeded=arguments.seeded,
    )
    return RemotePolicy(adapter)


openpi = partial(_policy, "openpi", "pi05_libero")
"""``--vla-policy=openpi``: whatever an openpi server serves."""

pi0 = partial(_policy, "pi0", "pi0_libero")
"""``--vla-policy=pi0``: the same, under the name of the model, as all below."""

pi0_fast = partial(_policy, "pi0-fast", "pi0_fast_libero")
"""``--vla-policy=pi0-fast``."""

pi05 = partial(_policy, "pi05", "pi05_libero")
"""``--vla-policy=pi05``."""
