"""check_axis against shifts that each break one clause of the contract."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.shifts.base import Base
from pytest_vla_shift.shifts.camera_orientation import CameraOrientation
from pytest_vla_shift.shifts.check import check_axis
from pytest_vla_shift.shifts.gaussian_blur import GaussianBlur
from pytest_vla_shift.shifts.illumination import Illumination

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Image
    from pytest_vla_shift.shifts.protocol import Draw, Frame, Parameters, Scene, Shift

CAMERA = {"L1": {"theta_max_deg": 2.0}, "L2": {"theta_max_deg": 6.0}}
BASE = {"L1": {"sigma_xy_m": 0.02, "sigma_yaw_deg": 2.0}}
BLUR = {"L1": {"sigma_px": 1.0}, "L2": {"sigma_px": 2.0}}
DIM = {"L1": {"alpha": 0.8}}


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
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_broken_clause_is_named(
    shift: Shift, levels: dict[str, Parameters], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        check_axis(shift, levels)


def test_the_process_keeps_its_own_random_state() -> None:
    random.seed(4)
    np.random.seed(4)
    expected = random.random(), np.random.random()
    random.seed(4)
    np.random.seed(4)
    check_axis(CameraOrientation(), CAMERA)
    assert (random.random(), np.random.random()) == expected
