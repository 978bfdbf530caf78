"""check_axis against shifts that each break one clause of the contract."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.shifts.actuation import Actuation
from pytest_vla_shift.shifts.base import Base
from pytest_vla_shift.shifts.camera_orientation import CameraOrientation
from pytest_vla_shift.shifts.check import check_axis
from pytest_vla_shift.shifts.gaussian_blur import GaussianBlur
from pytest_vla_shift.shifts.illumination import Illumination
from pytest_vla_shift.shifts.kinds import PassingShift
from pytest_vla_shift.shifts.sensor import Sensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Image
    from pytest_vla_shift.shifts.protocol import (
        Command,
        Draw,
        Frame,
        Parameters,
        Scene,
        Shift,
    )

    Actions = NDArray[np.float64]

CAMERA = {"L1": {"theta_max_deg": 2.0}, "L2": {"theta_max_deg": 6.0}}
BASE = {"L1": {"sigma_xy_m": 0.02, "sigma_yaw_deg": 2.0}}
BLUR = {"L1": {"sigma_px": 1.0}, "L2": {"sigma_px": 2.0}}
DIM = {"L1": {"alpha": 0.8}}
SENSOR = {"L1": {"radius": 4.0, **dict.fromkeys(Sensor().parameters - {"radius"}, 0.5)}}
ACTUATION = {"L1": {"radius": 4.0, **dict.fromkeys(Actuation().parameters - {"radius"}, 0.5)}}
WORDS = {"L1": {"depth": 1.0}}

PICK = Episode("kitchen", "pick_up_the_cup", 0)
SENTENCES = {
    PICK: "pick up the cup",
    Episode("kitchen", "open_the_drawer", 3): "open the drawer",
}


class AcceptsAnything(GaussianBlur):
    def check(self, level: Parameters) -> None:
        pass


class RefusesItsOwn(GaussianBlur):
    def check(self, level: Parameters) -> None:
        super().check(level)
        if level["sigma_px"] > 1:
            raise ValueError("too much")


class AnswersKeyError(GaussianBlur):
    def check(self, level: Parameters) -> None:
        if not 0 <= level["sigma_px"] <= 9:
            raise ValueError


class DrawsFromPython(CameraOrientation):
    def draw(self, rng: np.random.Generator) -> Draw:
        return {"yaw": random.uniform(-1, 1), "pitch": 0.5}


class DrawsFromNumpy(CameraOrientation):
    def draw(self, rng: np.random.Generator) -> Draw:
        return {"yaw": float(np.random.uniform(-1, 1)), "pitch": 0.5}


class DrawsNumpyScalars(CameraOrientation):
    def draw(self, rng: np.random.Generator) -> Draw:
        yaw, pitch = rng.uniform(-1, 1, 2)
        return {"yaw": yaw, "pitch": pitch}


class DrawsAlwaysTheSame(CameraOrientation):
    def draw(self, rng: np.random.Generator) -> Draw:
        return {"yaw": 0.5, "pitch": 0.5}


class NeverIdentity(Illumination):
    def is_identity(self, level: Parameters, draw: Draw) -> bool:
        return False


class AlwaysIdentity(Illumination):
    def is_identity(self, level: Parameters, draw: Draw) -> bool:
        return True


class DoesNothing(Illumination):
    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        pass


class TurnsTheWrist(CameraOrientation):
    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        scene.set_camera_quat("robot0_eye_in_hand", np.array([1.0, 0.0, 0.0, 0.0]))


class NotARotation(CameraOrientation):
    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        for camera in scene.third_person_cameras:
            scene.set_camera_quat(camera, scene.camera_quat(camera) * 1.1)


class WritesTwice(Base):
    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        super().apply(scene, level, draw)
        super().apply(scene, level, draw)


class WritesPastTheSetters(Base):
    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        super().apply(scene, level, draw)
        scene.moved = True  # type: ignore[attr-defined]


class Accumulates(Illumination):
    def __init__(self) -> None:
        self._times = 0

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        self._times += 1
        super().apply(scene, {"alpha": level["alpha"] ** self._times}, draw)


class BlursInPlace(GaussianBlur):
    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:
        image[:] = super().image(image, level, draw, frame)
        return image


class ReturnsFloats(GaussianBlur):
    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:
        return super().image(image, level, draw, frame) / 255.0  # type: ignore[return-value]


class Crops(GaussianBlur):
    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:
        return np.ascontiguousarray(super().image(image, level, draw, frame)[2:-2])


class Flips(GaussianBlur):
    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:
        return super().image(image, level, draw, frame)[:, ::-1]


class Noise(GaussianBlur):
    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:
        return np.random.default_rng().integers(0, 256, image.shape, dtype=np.uint8)


class DeniesPictures(GaussianBlur):
    transforms_images = False


class BoastsPictures(Illumination):
    transforms_images = True


class NeutralOfOthers(Illumination):
    neutral = {"sigma_px": 0.0}  # noqa: RUF012


class FrozenNoise(Sensor):
    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:
        return super().image(image, level, draw, replace(frame, step=0))


class NoiseOfBothEyes(Sensor):
    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:
        return super().image(image, level, draw, replace(frame, camera="left"))


class NoiseByTheCall(Sensor):
    """Fresh at every look instead of in every frame."""

    def __init__(self) -> None:
        self._looks = 0

    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:
        self._looks += 1
        return super().image(image, level, draw, replace(frame, step=self._looks))


def last(commanded: Actions) -> Actions:
    action: Actions = commanded[-1].copy()
    return action


class Lazy(Actuation):
    def action(
        self, commanded: Actions, level: Parameters, draw: Draw, command: Command
    ) -> Actions:
        return last(commanded)


class Restless(Actuation):
    def action(
        self, commanded: Actions, level: Parameters, draw: Draw, command: Command
    ) -> Actions:
        return last(commanded) * 0.9

    def is_identity(self, level: Parameters, draw: Draw) -> bool:
        return True


class KeepsItsOwnHistory(Actuation):
    def __init__(self) -> None:
        self._before = np.zeros(7)

    def action(
        self, commanded: Actions, level: Parameters, draw: Draw, command: Command
    ) -> Actions:
        done, self._before = self._before, commanded[-1].copy()
        return done


class ShakesByNumpy(Actuation):
    def action(
        self, commanded: Actions, level: Parameters, draw: Draw, command: Command
    ) -> Actions:
        return last(commanded) + np.random.standard_normal(7)


class ShakesAlways(Actuation):
    """The same noise in every step."""

    def action(
        self, commanded: Actions, level: Parameters, draw: Draw, command: Command
    ) -> Actions:
        return super().action(commanded, level, draw, replace(command, step=0))


class WritesItsCommand(Actuation):
    def action(
        self, commanded: Actions, level: Parameters, draw: Draw, command: Command
    ) -> Actions:
        commanded[-1] *= 0.5
        return last(commanded)


class ReturnsAll(Actuation):
    def action(
        self, commanded: Actions, level: Parameters, draw: Draw, command: Command
    ) -> Actions:
        return commanded * 0.5


class ReturnsAList(Actuation):
    def action(
        self, commanded: Actions, level: Parameters, draw: Draw, command: Command
    ) -> Actions:
        return [0.0] * 7  # type: ignore[return-value]


class Explodes(Actuation):
    def action(
        self, commanded: Actions, level: Parameters, draw: Draw, command: Command
    ) -> Actions:
        return last(commanded) + np.inf


class Polite(PassingShift):
    """A right one: another sentence for the tasks that it knows."""

    name = "polite"
    revision = 1
    limits = {"depth": (0.0, 3.0)}  # noqa: RUF012
    neutral = {"depth": 0.0}  # noqa: RUF012

    def is_identity(self, level: Parameters, draw: Draw) -> bool:
        return level["depth"] == 0

    def instruction(self, instruction: str, level: Parameters, draw: Draw, episode: Episode) -> str:
        if episode.task_suite != "kitchen":
            raise ValueError(f"no sentence for {episode.task}")
        return f"please {episode.task.replace('_', ' ')}"


class Silent(Polite):
    def instruction(self, instruction: str, level: Parameters, draw: Draw, episode: Episode) -> str:
        return " "


class Parrot(Polite):
    def instruction(self, instruction: str, level: Parameters, draw: Draw, episode: Episode) -> str:
        return instruction or "hello"


class HalfParrot(Polite):
    def instruction(self, instruction: str, level: Parameters, draw: Draw, episode: Episode) -> str:
        return instruction if episode == PICK else f"please {instruction}"


class Fickle(Polite):
    def instruction(self, instruction: str, level: Parameters, draw: Draw, episode: Episode) -> str:
        return f"{instruction} {random.random()}"


class ForgetsTasks(Polite):
    def instruction(self, instruction: str, level: Parameters, draw: Draw, episode: Episode) -> str:
        return {"pick_up_the_cup": "take it", "open_the_drawer": "open it"}[episode.task]


class NeedsASentence(Polite):
    def instruction(self, instruction: str, level: Parameters, draw: Draw, episode: Episode) -> str:
        if not instruction:
            raise ValueError("nothing to rewrite")
        return f"please {instruction}"


@pytest.mark.parametrize(
    "shift, levels, message",
    [
        (AcceptsAnything(), BLUR, "accepts a level without its parameters"),
        (RefusesItsOwn(), BLUR, "level L2 is refused: too much"),
        (AnswersKeyError(), BLUR, "with KeyError, not with a ValueError"),
        (DrawsFromPython(), CAMERA, "the same generator gives different draws"),
        (DrawsFromNumpy(), CAMERA, "the same generator gives different draws"),
        (DrawsNumpyScalars(), CAMERA, "finite Python floats"),
        (DrawsAlwaysTheSame(), CAMERA, "all draws are equal"),
        (NeverIdentity(), DIM, "neutral parameters .* are not identity"),
        (AlwaysIdentity(), DIM, "claims identity, yet something changes"),
        (DoesNothing(), DIM, "nothing changes, yet it does not say identity"),
        (TurnsTheWrist(), CAMERA, "camera 'robot0_eye_in_hand' is not one of"),
        (NotARotation(), CAMERA, "expected a unit quaternion"),
        (WritesTwice(), BASE, "a field is written twice"),
        (WritesPastTheSetters(), BASE, "changed past its setters"),
        (Accumulates(), DIM, "must keep no state"),
        (BlursInPlace(), BLUR, "writes into its input"),
        (ReturnsFloats(), BLUR, "must return a uint8 array"),
        (Crops(), BLUR, r"changes the shape to \(44, 64, 3\)"),
        (Flips(), BLUR, "C-contiguous"),
        (Noise(), BLUR, "must keep no state"),
        (DeniesPictures(), BLUR, "transforms_images denies it"),
        (BoastsPictures(), DIM, "transforms_images is declared, yet the picture stays"),
        (NeutralOfOthers(), DIM, r"neutral gives \['sigma_px'\]"),
        (Illumination(), {}, "at least one level"),
        (FrozenNoise(), SENSOR, "image has the same noise in every step"),
        (NoiseOfBothEyes(), SENSOR, "image has the same noise in both cameras"),
        (NoiseByTheCall(), SENSOR, "must keep no state"),
        (Lazy(), ACTUATION, "nothing changes, yet it does not say identity"),
        (Restless(), ACTUATION, "claims identity, yet something changes"),
        (KeepsItsOwnHistory(), ACTUATION, "another answer after other steps"),
        (ShakesByNumpy(), ACTUATION, "another answer after other steps"),
        (ShakesAlways(), ACTUATION, "action has the same noise in every step"),
        (WritesItsCommand(), ACTUATION, "action writes into its input"),
        (ReturnsAll(), ACTUATION, r"one action of shape \(7,\), not \(1, 7\)"),
        (ReturnsAList(), ACTUATION, "must return a float64 array, not list"),
        (Explodes(), ACTUATION, "action is not finite"),
        (Silent(), WORDS, "must return text for pick_up_the_cup"),
        (Parrot(), WORDS, "nothing changes, yet it does not say identity"),
        (HalfParrot(), WORDS, "the instruction of pick_up_the_cup stays, others change"),
        (Fickle(), WORDS, "another sentence when asked again"),
        (ForgetsTasks(), WORDS, "answers no_such_task without a sentence with KeyError"),
        (NeedsASentence(), WORDS, "refuses pick_up_the_cup when asked with no sentence"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_broken_clause_is_named(
    shift: Shift, levels: dict[str, Parameters], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        check_axis(shift, levels, sentences=SENTENCES)


def test_a_language_shift_that_keeps_the_contract_passes_and_needs_real_tasks() -> None:
    check_axis(Polite(), WORDS, sentences=SENTENCES)
    with pytest.raises(AssertionError, match="give check_axis their sentences"):
        check_axis(Polite(), WORDS)


def test_weak_noise_that_leaves_pictures_as_they_are_is_no_complaint() -> None:
    level = {**SENSOR["L1"], "sigma_noise_255": 0.03, "sigma_jpeg_log2": 0.0}
    check_axis(Sensor(), {"L1": level})


def test_the_process_keeps_its_own_random_state() -> None:
    random.seed(4)
    np.random.seed(4)
    expected = random.random(), np.random.random()
    random.seed(4)
    np.random.seed(4)
    check_axis(CameraOrientation(), CAMERA)
    assert (random.random(), np.random.random()) == expected
