"""``check_axis``: shows the author of a shift that it keeps the contract, without a simulator."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.shifts.check_passing import (
    actions_effect,
    check_frames,
    require,
    sentences_effect,
)
from pytest_vla_shift.shifts.probe import ProbeScene
from pytest_vla_shift.shifts.protocol import (
    ActionShift,
    Draw,
    Frame,
    LanguageShift,
    Parameters,
    Receipt,
    Shift,
)

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Episode, Image

DRAWS = 8
FRAME = Frame("left", step=3, seed=1)


def check_axis(
    shift: Shift,
    levels: Mapping[str, Parameters],
    *,
    sentences: Mapping[Episode, str] | None = None,
    seed: int = 0,
) -> None:
    """Check a shift at its levels, in the manner of gymnasium's ``check_env``.

    That it names itself and its parameters; refuses wrong ones; draws from the generator it is
    given and from nothing else; knows its identity, and does something otherwise; gives the same
    result whatever it did before; writes through the scene only, each field once, and only values
    that a simulator can take; and returns pictures that a policy can take. Levels need not
    get harder: RoboCasa-Shift's are ordinal by construction, not by measurement.

    What a shift does to a real simulator is not looked at here: this is a scene of plain numbers.

    Args:
        shift: the shift.
        levels: level name -> parameters, at least one.
        sentences: episode -> its task's own instruction; only a :class:`LanguageShift` needs any,
            and then one at least.
        seed: of the draws and of the pictures.

    Raises:
        AssertionError: the contract is broken; the message says how.
    """
    _check_names(shift)
    require(bool(levels), "give at least one level to check")
    for name, level in levels.items():
        _check_parameters(shift, name, level)
    draws = _check_draws(shift, seed)
    picture = np.random.default_rng(seed).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    for draw in draws:
        require(
            shift.is_identity(shift.neutral, draw),
            f"neutral parameters {dict(shift.neutral)} are not identity for draw {dict(draw)}",
        )

        def effect(level: Parameters, draw: Draw = draw) -> tuple[object, ...]:
            return _effect(shift, level, draw, picture, sentences or {}, seed)

        first = {name: effect(level) for name, level in levels.items()}
        again = {name: effect(level) for name, level in reversed(list(levels.items()))}
        for name in levels:
            require(
                first[name] == again[name],
                f"{name} gives another result after other levels: a shift must keep no state",
            )


def _check_names(shift: Shift) -> None:
    missing = sorted(m for m in vars(Shift) if m[0] != "_" and not hasattr(shift, m))
    require(not missing, f"{type(shift).__name__} is not a Shift: it lacks {', '.join(missing)}")
    require(isinstance(shift.name, str) and bool(shift.name), "name must be text")
    require(
        isinstance(shift.revision, int) and shift.revision >= 1,
        f"revision must be a whole number from 1, not {shift.revision!r}",
    )
    require(isinstance(shift.parameters, frozenset), "parameters must be a frozenset of names")
    require(bool(shift.parameters), "parameters must name at least one magnitude")
    require(
        set(shift.neutral) == shift.parameters,
        f"neutral gives {sorted(shift.neutral)}, parameters are {sorted(shift.parameters)}",
    )
    shift.check(shift.neutral)


def _check_parameters(shift: Shift, name: str, level: Parameters) -> None:
    try:
        shift.check(level)
    except ValueError as error:
        raise AssertionError(f"level {name} is refused: {error}") from error
    first = sorted(shift.parameters)[0]
    refused: list[tuple[str, Parameters]] = [
        ("a level without its parameters", {}),
        ("an unknown parameter", {**level, "no_such_parameter": 0.0}),
        ("a NaN", {**level, first: math.nan}),
        ("an infinity", {**level, first: math.inf}),
    ]
    for what, wrong in refused:
        try:
            shift.check(wrong)
        except ValueError:
            continue
        except Exception as error:
            raise AssertionError(
                f"check answers {what} with {type(error).__name__}, not with a ValueError"
            ) from error
        raise AssertionError(f"check accepts {what}: {dict(wrong)}")


def _check_draws(shift: Shift, seed: int) -> list[Draw]:
    """``DRAWS`` draws, shown to come from the generator alone."""
    outside = random.getstate(), np.random.get_state()
    first = [shift.draw(np.random.default_rng([seed, i])) for i in range(DRAWS)]
    random.random()
    np.random.random()
    second = [shift.draw(np.random.default_rng([seed, i])) for i in range(DRAWS)]
    random.setstate(outside[0])
    np.random.set_state(outside[1])
    require(first == second, "the same generator gives different draws: use nothing else")
    for draw in first:
        require(
            all(type(v) is float and math.isfinite(v) for v in draw.values()),
            f"a draw must be finite Python floats, not {dict(draw)}",
        )
        require(json.loads(json.dumps(dict(draw))) == draw, "a draw must survive JSON")
    require(len({frozenset(draw) for draw in first}) == 1, "draws differ in their names")
    if first[0]:
        require(
            any(draw != first[0] for draw in first), "all draws are equal: return an empty draw"
        )
    return first


def _effect(
    shift: Shift,
    level: Parameters,
    draw: Draw,
    picture: Image,
    sentences: Mapping[Episode, str],
    seed: int,
) -> tuple[object, ...]:
    """What the shift does to all that it may reach, checked, and comparable."""
    where = f"at {dict(level)} with draw {dict(draw)}"
    given = dict(level), dict(draw)
    moved, receipts = _scene_effect(shift, level, draw, where)
    altered, shown = _picture_effect(shift, level, draw, picture, where)
    acted, actions = False, b""
    if isinstance(shift, ActionShift):
        acted, actions = actions_effect(shift, level, draw, seed, where)
    told = False
    instructions: tuple[str, ...] = ()
    if isinstance(shift, LanguageShift):
        told, instructions = sentences_effect(shift, level, draw, sentences, where)
    require((dict(level), dict(draw)) == given, "level or draw was changed by the shift")
    something = moved or altered or acted or told
    if shift.is_identity(level, draw):
        require(not something, f"{where} it claims identity, yet something changes")
    else:
        require(something, f"{where} nothing changes, yet it does not say identity")
        require(
            altered or not shift.transforms_images,
            f"{where} transforms_images is declared, yet the picture stays",
        )
        if shift.transforms_images:
            check_frames(shift, level, draw, picture, FRAME, where)
    return receipts, shown, actions, instructions


def _scene_effect(
    shift: Shift, level: Parameters, draw: Draw, where: str
) -> tuple[bool, list[Receipt]]:
    scene = ProbeScene()
    before = scene.public()
    shift.apply(scene, level, draw)
    require(scene.public() == before, f"{where} the scene was changed past its setters")
    fields = [receipt.field for receipt in scene.receipts]
    require(len(fields) == len(set(fields)), f"{where} a field is written twice: {fields}")
    return any(receipt.before != receipt.after for receipt in scene.receipts), scene.receipts


def _picture_effect(
    shift: Shift, level: Parameters, draw: Draw, picture: Image, where: str
) -> tuple[bool, bytes]:
    shown = picture.copy()
    shown.flags.writeable = False
    try:
        result = shift.image(shown, level, draw, FRAME)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise AssertionError(f"{where} image writes into its input: {error}") from error
    require(
        isinstance(result, np.ndarray) and result.dtype == np.uint8,
        f"{where} image must return a uint8 array",
    )
    require(result.shape == picture.shape, f"{where} image changes the shape to {result.shape}")
    require(result.flags.c_contiguous, f"{where} image must return a C-contiguous array")
    altered = not np.array_equal(result, picture)
    require(
        shift.transforms_images or not altered, f"{where} image acts, transforms_images denies it"
    )
    return altered, result.tobytes()
