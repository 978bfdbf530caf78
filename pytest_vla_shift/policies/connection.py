"""A connection to a policy's server that was greeted, and what must stay the same about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_vla_shift.policies.profile import Profile, narrowed
from pytest_vla_shift.policies.wires.protocol import Greeting, Wire, WireError


@dataclass
class Connection:
    """A wire that was greeted, and its profile."""

    wire: Wire
    greeting: Greeting
    profile: Profile = field(init=False)

    def __post_init__(self) -> None:
        served = self.greeting.served
        profile = self.greeting.profile
        self.profile = profile if served is None else narrowed(profile, served.cameras)

    @property
    def identity(self) -> dict[str, object]:
        """What must not change while a run lasts, by name."""
        said = self.greeting
        return {
            "server": said.server,
            "layout": self.profile.digest,
            "chunk": said.chunk,
            "policy": said.served,
        }

    def check_same(self, first: Connection) -> None:
        """Refuse another server than that of the ``first`` connection.

        Raises:
            WireError: it is; names what is different.
        """
        was, now = first.identity, self.identity
        different = [f"{key} {now[key]}, was {was[key]}" for key in was if now[key] != was[key]]
        if different:
            raise WireError(
                f"it is another server than at the start of the run: {'; '.join(different)}"
            )
