"""Whatever a model server of vla-eval's harness serves, and there is one for most policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pytest_vla_shift.policies.extras import require
from pytest_vla_shift.policies.profile import TRANSFORMS
from pytest_vla_shift.policies.remote import Adapter, RemotePolicy
from pytest_vla_shift.policies.remote_arguments import remote_arguments, truth
from pytest_vla_shift.policies.wires.vla_eval import PORT, VlaEvalWire
from pytest_vla_shift.policies.wires.vla_eval_terms import Said
from pytest_vla_shift.policies.wires.websocket import check_token, check_url, require_websockets
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.profile import Transform
    from pytest_vla_shift.policies.settings import PolicySettings

REVISION = "vla-eval 1"
"""Raised whenever this adapter would send or read something else."""

URL = f"ws://127.0.0.1:{PORT}"


def vla_eval(
    profile: str = "libero",
    chunk: str | None = None,
    seeded: str | None = None,
    send_wrist_image: str | None = None,
    send_state: str | None = None,
    quat_no_antipodal: str | None = None,
    gripper: str | None = None,
    overrule: str | None = None,
    trial_suite: str | None = None,
    *,
    settings: PolicySettings,
) -> RemotePolicy:
    """``--vla-policy=vla-eval``.

    What a server asks for in its ``observation_params`` is done, and what it declares of its
    actions and observations is compared, before the first episode. As in vla-eval's own
    configurations, what the user says wins.

    Args:
        profile: shipped profile or TOML file; how observations and actions are laid out.
        chunk: the most actions in an answer, where not all are as long as that to the trial.
        seeded: whether a seed decides the policy's randomness; only a server of ours takes one.
        send_wrist_image: ``true`` or ``false``: whether the wrist's picture is sent.
        send_state: ``true`` or ``false``: whether the states are sent.
        quat_no_antipodal: ``true`` or ``false``: whether the rotation in ``states`` goes to 2 pi.
        gripper: ``sign``, ``open01``, ``half`` or ``identity``: how its number is read.
        overrule: items of the comparison that count as fitting, with commas between.
        trial_suite: the suite that the trial observation is announced as.
        settings: of the run.

    Raises:
        UsageError: an argument cannot be read, or the server cannot be used; see
            :class:`~pytest_vla_shift.policies.remote.RemotePolicy`.
    """
    require("vla-eval", "msgpack")
    require_websockets("vla-eval")
    arguments = remote_arguments("vla-eval", profile, chunk, seeded)
    said = Said(
        None if send_wrist_image is None else truth("send_wrist_image", send_wrist_image),
        None if send_state is None else truth("send_state", send_state),
        None if quat_no_antipodal is None else truth("quat_no_antipodal", quat_no_antipodal),
        None if gripper is None else _transform(gripper),
        tuple(item.strip() for item in (overrule or "").split(",") if item.strip()),
        trial_suite,
    )
    url = check_url(settings.url or URL)
    token = None if settings.token is None else check_token(settings.token)
    told: set[str] = set()
    adapter = Adapter(
        name="vla-eval",
        revision=REVISION,
        url=url,
        profile=arguments.profile,
        make_wire=lambda: VlaEvalWire(url, said, token, told),
        settings=settings,
        start=(
            "Start one: vla-eval serve -c <model server's configuration>. It listens once its model"
            " is loaded, and then answers GET /health"
        ),
        chunk=arguments.chunk,
        seeded=arguments.seeded,
    )
    return RemotePolicy(adapter)


def _transform(text: str) -> Transform:
    if text not in TRANSFORMS:
        raise UsageError(f"--vla-policy-arg=gripper: {text!r} is none of {', '.join(TRANSFORMS)}")
    return cast("Transform", text)
