"""GR00T's servers: ZeroMQ and msgpack, of N1.5, N1.6 and N1.7.

Formats were read in NVIDIA/Isaac-GR00T: gr00t/eval/service.py (N1.5) and
gr00t/policy/server_client.py (since N1.6). The server is never asked to end (``kill``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pytest_vla_shift.policies import extension as ours
from pytest_vla_shift.policies.wires import gr00t_layout as layouts
from pytest_vla_shift.policies.wires import gr00t_modality as modalities
from pytest_vla_shift.policies.wires.gr00t_channel import Channel, Deadline
from pytest_vla_shift.policies.wires.gr00t_codec import CodecError, decode, encode
from pytest_vla_shift.policies.wires.protocol import Greeting, WireError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.mapping import Payload
    from pytest_vla_shift.policies.profile import Profile
    from pytest_vla_shift.policies.wires.gr00t_codec import Arrays
    from pytest_vla_shift.policies.wires.protocol import Answer
    from pytest_vla_shift.protocol.observation import EpisodeInfo

Api = Literal["n1.5", "n1.6"]
"""How requests look; N1.7's look like N1.6's."""

OLD = b"ERROR"
"""What a server answers, without any msgpack, that talks in torch's own format."""


class Refused(WireError):
    """The server answered that it failed; the message has its words."""


class Gr00tWire:
    """One connection; see :class:`~pytest_vla_shift.policies.wires.protocol.Wire`.

    Args:
        host, port: where the server listens.
        token: what its ``api_token`` must be.
        api: of the server; None to find out.
        layout: of observations, since N1.6; None to find out with the first one.
        arrays: how they are written; None for as the server writes its own, if it tells.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        token: str | None = None,
        api: Api | None = None,
        layout: layouts.Layout | None = None,
        arrays: Arrays | None = None,
    ) -> None:
        self._host, self._port = host, port
        self._token = token
        self._api = api
        self._layout = layout
        self._told = arrays
        self._arrays: Arrays = arrays or "npy"
        self._channel: Channel | None = None
        self._served = False
        self._widths: Mapping[str, int] = {}

    def greet(self, profile: Profile, limit_s: float) -> Greeting:
        """Is it well, what does it want, and which version is it?"""
        deadline = Deadline(limit_s)
        self._channel = Channel(self._host, self._port, deadline)
        answer = self._call("ping", deadline)
        if not isinstance(answer, Mapping) or answer.get("status") != "ok":
            raise WireError(f"answered a ping with {str(answer)[:200]}")
        seen: set[Arrays] = set()
        try:
            config = self._call("get_modality_config", deadline, seen=seen)
        except Refused:
            config = None  # it says nothing
        if self._told is None and seen == {"msgpack-numpy"}:
            self._arrays = "msgpack-numpy"
        try:
            said = modalities.read(config)
            served = ours.announced(config.get(ours.KEY) if isinstance(config, Mapping) else None)
        except (CodecError, ours.ExtensionError) as error:
            raise WireError(f"answered get_modality_config with {error}") from error
        api = self._api or ("n1.6" if served else self._found_out(deadline))
        self._api = api
        self._served = served is not None
        agreed = modalities.agree(profile, said)
        self._widths = agreed.profile.action_widths
        return Greeting(
            server="GR00T N1.5" if api == "n1.5" else "GR00T N1.6 or later",
            profile=agreed.profile,
            rows=agreed.rows,
            chunk=agreed.chunk,
            seedable=api != "n1.5",
            served=served,
        )

    def begin(self, episode: EpisodeInfo, seed: int, limit_s: float) -> None:
        """Reset the policy, with the seed; N1.5 has nothing for that."""
        if self._api == "n1.5":
            return
        options: dict[str, object] = {"seed": seed}
        if self._served:
            options[ours.KEY] = ours.begun(episode, seed)
        self._call("reset", Deadline(limit_s), {"options": options})

    def ask(
        self, payload: Payload, extension: Mapping[str, object] | None, limit_s: float
    ) -> Answer:
        """The actions for one observation."""
        deadline = Deadline(limit_s)
        if self._api == "n1.5":
            answer = self._call("get_action", deadline, layouts.unbatched(payload))
            return layouts.actions(answer, self._widths)
        options = None if extension is None else {ours.KEY: extension}
        try:
            answer = self._act(payload, options, self._layout or "flat", deadline)
            self._layout = self._layout or "flat"
        except Refused as error:
            if self._layout is not None or not layouts.wants_nested(str(error)):
                raise
            answer = self._act(payload, options, "nested", deadline)
            self._layout = "nested"
        return layouts.actions(answer, self._widths)

    def close(self) -> None:
        """Hang up."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _act(
        self,
        payload: Payload,
        options: Mapping[str, object] | None,
        layout: layouts.Layout,
        deadline: Deadline,
    ) -> object:
        sent = layouts.flat(payload) if layout == "flat" else layouts.nested(payload)
        return self._call("get_action", deadline, {"observation": sent, "options": options})

    def _found_out(self, deadline: Deadline) -> Api:
        """Only N1.5 has no reset."""
        try:
            self._call("reset", deadline, {"options": None})
        except Refused as error:
            if "Unknown endpoint" not in str(error):
                raise
            return "n1.5"
        return "n1.6"

    def _call(
        self,
        endpoint: str,
        deadline: Deadline,
        data: object = None,
        seen: set[Arrays] | None = None,
    ) -> object:
        """What the server answers.

        Raises:
            Refused: an error, in its own words.
            WireError: nothing that could be read.
        """
        if self._channel is None:
            raise WireError("there is no connection")
        request: dict[str, object] = {"endpoint": endpoint}
        if data is not None:
            request["data"] = data
        if self._token:
            request["api_token"] = self._token
        try:
            reply = self._channel.exchange(encode(request, self._arrays), deadline)
            if reply == OLD:
                raise WireError(
                    f"answered {endpoint} with the bare bytes ERROR: it is an old server, which"
                    " talks in torch's own format, not in msgpack"
                )
            answer = decode(reply, seen)
        except CodecError as error:
            raise WireError(f"{endpoint}: {error}") from error
        except WireError as error:
            raise type(error)(f"{endpoint}: {error}") from error
        if isinstance(answer, Mapping) and "error" in answer:
            words = str(answer["error"]) or "no reason given"
            raise Refused(f"refused {endpoint}: {words}")
        return answer
