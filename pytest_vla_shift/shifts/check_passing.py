"""What ``check_axis`` asks of shifts of what passes by: actions, sentences, noisy pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.shifts.protocol import (
    ActionLayout,
    ActionShift,
    Command,
    Draw,
    Frame,
    LanguageShift,
    Parameters,
    Shift,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Image

STEPS = 12
LAYOUT = ActionLayout(position=(0, 3), rotation=(3, 6), low=-1.0, high=1.0, control_hz=20.0)
REST = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0])
NOWHERE = Episode("no_such_task_suite", "no_such_task", 0)


def require(condition: bool, message: str) -> None:
    """Raise AssertionError with ``message`` unless ``condition``."""
    # Not an assert statement: the checker must check under python -O, too.
    if not condition:
        raise AssertionError(message)


def actions_effect(
    shift: ActionShift, level: Parameters, draw: Draw, seed: int, where: str
) -> tuple[bool, bytes]:
    """What becomes of a rollout's commands, checked: whether any changed, and all of them.

    Raises:
        AssertionError: the contract of :class:`ActionShift` is broken.
    """
    commanded = np.random.default_rng(seed).uniform(-0.9, 0.9, (STEPS, len(REST)))
    # Held for a while: a delay shows at the change, and noise shows where nothing changes.
    commanded[STEPS // 2 :] = commanded[STEPS // 2]
    forward = [_action(shift, level, draw, commanded, step, where) for step in range(STEPS)]
    backward = [_action(shift, level, draw, commanded, s, where) for s in reversed(range(STEPS))]
    require(
        all(np.array_equal(a, b) for a, b in zip(forward, reversed(backward), strict=True)),
        f"{where} action gives another answer after other steps: it must depend on its arguments"
        " alone (the commands so far are given; noise comes from command.generator())",
    )
    changed = any(not np.array_equal(a, b) for a, b in zip(forward, commanded, strict=True))

    def noise(step: int, seed: int) -> bytes:
        command = Command(step, seed, LAYOUT, REST)
        return np.asarray(shift.action(commanded, level, draw, command)).tobytes()

    _check_fresh(noise, f"{where} action", "command.generator()")
    return changed, np.stack(forward).tobytes()


def _action(
    shift: ActionShift,
    level: Parameters,
    draw: Draw,
    commanded: NDArray[np.float64],
    step: int,
    where: str,
) -> NDArray[np.float64]:
    given, rest = commanded[: step + 1].copy(), REST.copy()
    given.flags.writeable = rest.flags.writeable = False
    try:
        done = shift.action(given, level, draw, Command(step, 1, LAYOUT, rest))
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise AssertionError(f"{where} action writes into its input: {error}") from error
    require(
        isinstance(done, np.ndarray) and done.dtype == np.float64,
        f"{where} action must return a float64 array, not {type(done).__name__}",
    )
    require(
        done.shape == REST.shape,
        f"{where} action must return one action of shape {REST.shape}, not {done.shape}",
    )
    require(bool(np.isfinite(done).all()), f"{where} action is not finite: {done.tolist()}")
    # A copy: a shift that hands out one array of its own would change what was noted.
    return done.copy()


def check_frames(
    shift: Shift, level: Parameters, draw: Draw, picture: Image, frame: Frame, where: str
) -> None:
    """Noise of pictures must be of the frame: fresh in every step and camera, else the same.

    Raises:
        AssertionError: it is the same in every step, or in both cameras.
    """

    def shown(frame: Frame) -> bytes:
        return shift.image(picture.copy(), level, draw, frame).tobytes()

    def by_step(step: int, seed: int) -> bytes:
        return shown(replace(frame, step=step, seed=seed))

    noisy = _check_fresh(by_step, f"{where} image", "frame.generator()")
    others = [replace(frame, camera="right", step=step) for step in range(4)]
    require(
        not noisy or any(shown(f) != shown(replace(f, camera=frame.camera)) for f in others),
        f"{where} image has the same noise in both cameras: take it from frame.generator()",
    )


def _check_fresh(answer: Callable[[int, int], bytes], what: str, source: str) -> bool:
    """Whether ``answer(step, seed)`` is noisy; its noise must then differ from step to step.

    Several of each are compared: weak noise may leave one picture of 8 bits as it was.
    """
    noisy = len({answer(0, seed) for seed in range(1, 5)}) == 4
    fresh = len({answer(step, 1) for step in range(4)}) > 1
    require(fresh or not noisy, f"{what} has the same noise in every step: take it from {source}")
    return noisy


def sentences_effect(
    shift: LanguageShift,
    level: Parameters,
    draw: Draw,
    sentences: Mapping[Episode, str],
    where: str,
) -> tuple[bool, tuple[str, ...]]:
    """What becomes of the sentences, checked: whether they changed, and all of them.

    Raises:
        AssertionError: the contract of :class:`LanguageShift` is broken.
    """
    require(
        bool(sentences),
        "a shift of the instruction is checked on real tasks: give check_axis their sentences",
    )
    told = {
        episode: _sentence(shift, level, draw, sentence, episode, where)
        for episode, sentence in sentences.items()
    }
    again = {
        episode: _sentence(shift, level, draw, sentence, episode, where)
        for episode, sentence in reversed(list(sentences.items()))
    }
    require(told == again, f"{where} instruction gives another sentence when asked again")
    changed = {episode: told[episode] != sentence for episode, sentence in sentences.items()}
    same = [episode for episode, differs in changed.items() if not differs]
    require(
        not same or not any(changed.values()),
        f"{where} the instruction of {same[0].task if same else ''} stays, others change:"
        " raise ValueError where there is no other sentence",
    )
    _check_questions(shift, level, draw, sentences, where)
    return any(changed.values()), tuple(told.values())


def _sentence(
    shift: LanguageShift,
    level: Parameters,
    draw: Draw,
    sentence: str,
    episode: Episode,
    where: str,
) -> str:
    told: object = shift.instruction(sentence, level, draw, episode)
    require(
        isinstance(told, str) and bool(told.strip()),
        f"{where} instruction must return text for {episode.task}, not {told!r}",
    )
    return str(told)


def _check_questions(
    shift: LanguageShift,
    level: Parameters,
    draw: Draw,
    sentences: Mapping[Episode, str],
    where: str,
) -> None:
    """Before a run every task is asked for with no sentence; a stranger may be refused."""
    for episode in (*sentences, NOWHERE):
        try:
            shift.instruction("", level, draw, episode)
        except ValueError as error:
            require(
                episode is NOWHERE,
                f"{where} instruction refuses {episode.task} when asked with no sentence, as is"
                f" done before a run: {error}",
            )
        except Exception as error:
            raise AssertionError(
                f"{where} instruction answers {episode.task} without a sentence with"
                f" {type(error).__name__}: refuse with a ValueError"
            ) from error
