"""Which shard runs what: ``--vla-shard=I/N`` divides a selection by episode, never inside one.

All cells of an episode share its clean rollout: conditions, the replicate, the nominal cell. Were
they divided, each shard would run that rollout again, and two runs of it would have to agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.protocol.plan import Cell, cost


@dataclass(frozen=True, slots=True, order=True)
class EpisodeGroup:
    """What stays together: one initial state of one task of one suite."""

    suite: str
    task_suite: str
    task: str
    episode: int

    @classmethod
    def of(cls, cell: Cell) -> EpisodeGroup:
        """The group of ``cell``."""
        place = cell.episode
        return cls(cell.suite, place.task_suite, place.task, place.index)

    @property
    def digest(self) -> str:
        """The same on every machine, and unrelated to the order of episodes."""
        return digest([self.suite, self.task_suite, self.task, self.episode])


def weigh(cells: Iterable[Cell]) -> dict[EpisodeGroup, int]:
    """Group -> rollouts that its cells take, the clean ones counted once."""
    groups: defaultdict[EpisodeGroup, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[EpisodeGroup.of(cell)].append(cell)
    return {group: cost(found).rollouts for group, found in groups.items()}


def divide(weights: Mapping[EpisodeGroup, int], shards: int) -> dict[EpisodeGroup, int]:
    """Group -> its shard, from 1 to ``shards``: a function of the groups and their weights alone.

    The heaviest group first, and among equals by digest, each goes to the shard with the least so
    far: of the fewest rollouts, then of the fewest groups, then of the lowest number. Equal groups
    are thus dealt out in the order of their digests, so no shard gets the same episode of every
    task; and no two shards differ by more than the heaviest group (Graham 1969, longest processing
    time first).

    Args:
        weights: group -> rollouts.
        shards: how many, from 1.
    """
    load = {shard: (0, 0, shard) for shard in range(1, shards + 1)}
    found: dict[EpisodeGroup, int] = {}
    for group in sorted(weights, key=lambda g: (-weights[g], g.digest)):
        shard = min(load, key=load.__getitem__)
        rollouts, groups, _ = load[shard]
        load[shard] = rollouts + weights[group], groups + 1, shard
        found[group] = shard
    return found
