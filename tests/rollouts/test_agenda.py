"""What a free lane takes next: in order, clean arms first, nothing twice, nothing forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from pytest_vla_shift.rollouts.agenda import Agenda, Job
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.request import RolloutRequest


def job(key: str) -> Job:
    """``a`` is a clean rollout, ``a1`` one that pairs with it. Only keys matter here."""

    def requested(name: str) -> RolloutRequest:
        return cast("RolloutRequest", SimpleNamespace(key=name))

    return Job(requested(key), requested(key[0]) if len(key) > 1 else None)


@dataclass
class Finished:
    """Stands for the store: keys and whether they are done or in error."""

    status: dict[str, str] = field(default_factory=dict)

    def __call__(self, key: str) -> RolloutRecord | None:
        if key not in self.status:
            return None
        return cast("RolloutRecord", SimpleNamespace(status=self.status[key]))


def agenda_of(keys: str, finished: Finished) -> Agenda:
    agenda = Agenda(finished)
    agenda.expect(job(key) for key in keys.split())
    return agenda


def taken(agenda: Agenda) -> str | None:
    found = agenda.take()
    return None if found is None else found.key


def test_while_the_clean_arm_runs_its_others_wait_and_the_next_episode_begins() -> None:
    finished = Finished()
    agenda = agenda_of("a a1 a2 b b1", finished)
    assert [taken(agenda), taken(agenda), taken(agenda)] == ["a", "b", None]
    finished.status["a"] = "done"
    agenda.ended(job("a"))
    assert [taken(agenda), taken(agenda), taken(agenda)] == ["a1", "a2", None]
    finished.status["b"] = "done"
    agenda.ended(job("b"))
    assert taken(agenda) == "b1"


def test_what_is_recorded_is_not_run() -> None:
    agenda = agenda_of("a a1 a2", Finished({"a": "done", "a1": "error"}))
    assert [taken(agenda), taken(agenda)] == ["a2", None]


def test_an_error_of_the_clean_arm_leaves_nothing_to_compare_with() -> None:
    finished = Finished()
    agenda = agenda_of("a a1 a2 b", finished)
    assert taken(agenda) == "a"
    finished.status["a"] = "error"
    agenda.ended(job("a"))
    assert [taken(agenda), taken(agenda)] == ["b", None]


def test_what_somebody_waits_for_goes_first() -> None:
    agenda = agenda_of("a b c d", Finished())
    assert taken(agenda) == "a"
    agenda.demand([job("d"), job("d1")])
    assert [taken(agenda), taken(agenda), taken(agenda)] == ["d", "b", "c"]


def test_what_another_process_runs_is_offered_again_later_and_only_if_it_is_not_done() -> None:
    finished = Finished()
    agenda = agenda_of("a b c", finished)
    for key in ("a", "b"):
        assert taken(agenda) == key
        agenda.run_elsewhere(job(key))
    assert agenda.elsewhere
    assert [taken(agenda), taken(agenda)] == ["c", None]
    finished.status["b"] = "done"
    agenda.look_again()
    assert not agenda.elsewhere
    assert [taken(agenda), taken(agenda)] == ["a", None]


@given(
    lanes=st.integers(1, 5),
    order=st.lists(
        st.sampled_from([f"{e}{c}" for e in "abcd" for c in ("", 1, 2, 3)]), unique=True
    ),
    data=st.data(),
)
def test_every_job_runs_once_and_no_lane_idles_while_one_could_run(
    lanes: int, order: list[str], data: st.DataObject
) -> None:
    keys = list(dict.fromkeys(k for key in order for k in (key[0], key)))
    finished = Finished()
    agenda = agenda_of(" ".join(keys), finished)
    running: list[Job] = []
    began: list[str] = []
    while True:
        while len(running) < lanes and (found := agenda.take()) is not None:
            assert len(found.key) == 1 or finished.status.get(found.key[0]) == "done"
            running.append(found)
            began.append(found.key)
        if not running:
            break
        if len(running) < lanes:
            under_way = {each.key for each in running}
            waiting = [k for k in keys if k not in finished.status and k not in under_way]
            assert all(len(k) > 1 and k[0] not in finished.status for k in waiting)
        ended = running.pop(data.draw(st.integers(0, len(running) - 1)))
        finished.status[ended.key] = "done"
        agenda.ended(ended)
    assert sorted(began) == sorted(keys)
    assert set(finished.status) == set(keys)
