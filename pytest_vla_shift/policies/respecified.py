"""A policy under a spec that says more than its own: name, source, checkpoint, replan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.guard import new_session
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.policies.settings import PolicySettings
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation


class Respecified:
    """Asks ``policy``, whatever it has; only its spec is another.

    Args:
        policy: who is asked.
        changes: fields of the spec. ``revision`` is put behind the policy's own.
    """

    def __init__(self, policy: Policy, changes: dict[str, str | int]) -> None:
        self._policy = policy
        self._changes = changes
        self._given: list[Policy] = []
        # The policy's own spec as it was seen last, and what became of it.
        self._last: tuple[PolicySpec | None, PolicySpec | None] = (None, None)

    @classmethod
    def of(
        cls, policy: Policy, *, name: str | None, source: str | None, settings: PolicySettings
    ) -> Policy:
        """``policy`` with what the run says about it; itself if that is nothing.

        Args:
            policy: as it was made.
            name: what was asked for, if that is not its own name.
            source: the digest of its source, if that belongs into its revision.
            settings: of the run.

        Raises:
            UsageError: its spec is none, or ``--vla-replan`` does not fit its chunk.
        """
        changes: dict[str, str | int] = {}
        if name is not None:
            changes["name"] = name
        if source is not None:
            changes["revision"] = source
        if settings.checkpoint is not None:
            changes["checkpoint"] = str(settings.checkpoint)
        if settings.replan is not None:
            changes["replan"] = settings.replan
        if not changes:
            return policy
        made = cls(policy, changes)
        spec, own = made.spec, policy.spec.checkpoint
        if settings.checkpoint is not None and own not in ("", spec.checkpoint):
            raise UsageError(
                f"policy {spec.name!r} says that its weights are {own}, and --vla-checkpoint that"
                f" they are {spec.checkpoint}"
            )
        if settings.replan is not None and settings.replan > spec.chunk:
            raise UsageError(
                f"--vla-replan={settings.replan}: policy {spec.name!r} gives {spec.chunk} actions"
                " at a time at most"
            )
        return made

    @property
    def spec(self) -> PolicySpec:
        """The policy's own, changed."""
        spec = self._policy.spec
        known, changed = self._last
        if spec is known and changed is not None:
            return changed  # it is asked for many times a rollout
        if not isinstance(spec, PolicySpec):
            name = self._changes.get("name", type(self._policy).__name__)
            raise UsageError(f"policy {name!r}: spec is a {type(spec).__name__}, not a PolicySpec")
        changes = dict(self._changes)
        if "revision" in changes:
            changes["revision"] = f"{spec.revision} {changes['revision']}".strip()
        changed = replace(spec, **changes)  # type: ignore[arg-type]  # names and types of its fields
        self._last = spec, changed
        return changed

    def unsupported(self, task_suite: str, task: str) -> str | None:
        return self._policy.unsupported(task_suite, task)

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        self._policy.reset(episode, seed)

    def act(self, observation: Observation) -> NDArray[np.floating]:
        return self._policy.act(observation)

    def close(self) -> None:
        self._policy.close()

    def __getattr__(self, name: str) -> object:
        """What a policy may have beyond the protocol, if this one has it."""
        if name.startswith("__"):
            raise AttributeError(name)
        found: object = getattr(self._policy, name)
        return self._session if name == "session" else found

    def _session(self) -> Respecified:
        return Respecified(new_session(self._policy, self._given), self._changes)
