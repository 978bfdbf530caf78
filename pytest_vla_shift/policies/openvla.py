"""``openvla`` and ``openvla-oft``: policies behind their own REST servers, vla-scripts/deploy.py.

docs/reference/policies.md says how to start one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.probe import EPISODE
from pytest_vla_shift.policies.remote import Adapter, RemotePolicy
from pytest_vla_shift.policies.remote_arguments import remote_arguments, truth
from pytest_vla_shift.policies.wires.openvla import TASK_SUITE, OpenVlaWire
from pytest_vla_shift.policies.wires.timed_http import address_of
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.settings import PolicySettings

REVISION = "openvla 1"
"""Raised whenever these adapters would send or read something else."""

URL = "http://127.0.0.1:8000"
OFT_URL = "http://127.0.0.1:8777"

ANY = "any"
NO_NOOPS = "_no_noops"


def openvla(
    *,
    settings: PolicySettings,
    profile: str = "libero",
    chunk: str | None = None,
    seeded: str | None = None,
    encoded: str = "false",
    unnorm_key: str = TASK_SUITE,
) -> RemotePolicy:
    """OpenVLA at ``--vla-policy-url``, or at port 8000 of this machine.

    Args:
        settings: of the run.
        profile: name or file.
        chunk: the most actions in an answer.
        seeded: whether a seed decides its randomness; a stock server cannot be given one.
        encoded: ``true`` sends the payload as a text within the payload.
        unnorm_key: the checkpoint's statistics that actions are un-normalised with;
            ``{task_suite}`` stands for the episode's suite, and nothing sends none.

    Raises:
        UsageError: an argument cannot be read, nobody listens, or the trial fails.
    """
    return RemotePolicy(
        _adapter(
            "openvla",
            settings,
            URL,
            (profile, chunk, seeded),
            "Start one: python vla-scripts/deploy.py --openvla_path CHECKPOINT",
            encoded,
            unnorm_key or None,
        )
    )


def openvla_oft(
    *,
    settings: PolicySettings,
    profile: str = "oft-libero",
    chunk: str | None = None,
    seeded: str | None = None,
    encoded: str = "false",
    unnorm_key: str | None = None,
) -> RemotePolicy:
    """OpenVLA-OFT at ``--vla-policy-url``, or at port 8777 of this machine.

    Args:
        settings: of the run.
        profile: name or file.
        chunk: the most actions in an answer.
        seeded: whether a seed decides its randomness; a stock server cannot be given one.
        encoded: ``true`` sends the payload as a text within the payload.
        unnorm_key: what the server was started with. It is not sent: tasks of other suites are
            refused. ``any`` refuses none. Without it, a stock server gets tasks of one suite alone.

    Raises:
        UsageError: an argument cannot be read, nobody listens, or the trial fails.
    """
    suite = OneSuite(unnorm_key)
    adapter = _adapter(
        "openvla-oft",
        settings,
        OFT_URL,
        (profile, chunk, seeded),
        "Start one: python vla-scripts/deploy.py --pretrained_checkpoint CHECKPOINT"
        " --unnorm_key libero_object_no_noops --num_images_in_input 2 --use_proprio True"
        " --center_crop True",
        encoded,
        None,
        suite.refusal,
    )
    return OneSuitePolicy(adapter, suite)


class OneSuite:
    """A stock server un-normalises every action with the statistics of one task suite.

    Another suite's task would get plausible actions of the wrong size, and fail.

    Args:
        unnorm_key: the suite whose statistics it was started with, :data:`ANY`, or None for
            whichever is asked about first.

    Raises:
        UsageError: ``unnorm_key`` names no suite.
    """

    def __init__(self, unnorm_key: str | None) -> None:
        self._suite = None if unnorm_key is None else unnorm_key.strip().removesuffix(NO_NOOPS)
        if self._suite == "":
            raise UsageError(
                f"--vla-policy-arg=unnorm_key: {unnorm_key!r} names no suite. Say what the server"
                " was started with, such as 'libero_object_no_noops'; or 'any', if its statistics"
                " fit all suites of the run; or leave the argument out for a run of one suite"
            )
        self._said = unnorm_key is not None

    def refusal(self, task_suite: str) -> str | None:
        """Why it cannot be asked about ``task_suite``, or None."""
        if self._suite is None and task_suite != EPISODE.episode.task_suite:
            self._suite = task_suite
        if self._suite in (None, task_suite, ANY):
            return None
        because = (
            f"the server was started with the statistics of {self._suite}, not of {task_suite}"
            if self._said
            else f"the server has the statistics of one suite, and the run asks for {self._suite}"
            f" and {task_suite}"
        )
        return (
            f"{because}. Run one suite at a time (-k {task_suite}), each against a server started"
            " with its --unnorm_key; or, if this server's fit all of them,"
            f" --vla-policy-arg=unnorm_key={ANY}"
        )


class OneSuitePolicy(RemotePolicy):
    """Says before the first episode which tasks a stock server cannot be asked about.

    Args:
        adapter: of the server.
        suite: whose statistics it has.
    """

    def __init__(self, adapter: Adapter, suite: OneSuite) -> None:
        super().__init__(adapter)
        self._suite = suite
        self._stock = self._first.greeting.served is None

    def unsupported(self, task_suite: str, task: str) -> str | None:  # noqa: ARG002
        """Why a task of another suite is refused."""
        return self._suite.refusal(task_suite) if self._stock else None


def _adapter(
    name: str,
    settings: PolicySettings,
    url: str,
    shared: tuple[str, str | None, str | None],
    start: str,
    encoded: str,
    unnorm_key: str | None,
    refusal: Callable[[str], str | None] = lambda _: None,
) -> Adapter:
    arguments = remote_arguments("openvla", *shared)
    url = settings.url or url
    address = address_of(url, "/act")
    twice = truth("encoded", encoded)
    token = settings.token
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise UsageError("the token has characters that an HTTP header cannot have")

    def make_wire() -> OpenVlaWire:
        return OpenVlaWire(
            address, token=token, encoded=twice, unnorm_key=unnorm_key, refusal=refusal
        )

    return Adapter(
        name=name,
        revision=f"{REVISION}{'' if unnorm_key is None else f' unnorm_key {unnorm_key}'}",
        url=url,
        profile=arguments.profile,
        make_wire=make_wire,
        settings=settings,
        start=start,
        chunk=arguments.chunk,
        seeded=arguments.seeded,
    )
