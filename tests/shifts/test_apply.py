from __future__ import annotations

import numpy as np
import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.shifts.apply import apply_interventions, load_shift
from pytest_vla_shift.shifts.gaussian_blur import GaussianBlur
from pytest_vla_shift.shifts.protocol import Draw, Frame, Intervention, Parameters, Receipt
from tests.shifts.fake_scene import FakeScene

PICTURE = np.random.default_rng(1).integers(0, 256, (32, 40, 3), dtype=np.uint8)
FRAME = Frame("agentview", step=0, seed=0)
BLUR = Intervention("blur", "gaussian_blur", "L2", {"sigma_px": 2.0}, {})
DIM = Intervention("illumination", "illumination", "L3", {"alpha": 0.4}, {})


class Negative(GaussianBlur):
    """An image shift that does not commute with blur's rounding: 255 minus the picture."""

    name = "negative"

    def image(
        self,
        image: np.ndarray[tuple[int, int, int], np.dtype[np.uint8]],
        level: Parameters,
        draw: Draw,
        frame: Frame,
    ) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
        out: np.ndarray[tuple[int, int, int], np.dtype[np.uint8]] = np.where(
            np.arange(image.shape[1])[None, :, None] < 20, 255 - image, image
        )[::-1]
        return out


NEGATIVE = Intervention("other", f"{__name__}:Negative", "L1", {"sigma_px": 1.0}, {})


def test_scene_shifts_reach_the_scene_and_leave_pictures_alone() -> None:
    scene = FakeScene()
    pipeline = apply_interventions(scene, [DIM])
    assert scene.written == ["lamp.diffuse", "headlight.diffuse", "headlight.ambient"]
    np.testing.assert_array_equal(pipeline(PICTURE, "agentview", 0), PICTURE)
    assert pipeline.receipts() == []


def test_image_shifts_reach_every_picture_and_confess() -> None:
    scene = FakeScene()
    pipeline = apply_interventions(scene, [DIM, BLUR])
    expected = GaussianBlur().image(PICTURE, {"sigma_px": 2.0}, {}, FRAME)
    np.testing.assert_array_equal(pipeline(PICTURE, "agentview", 0), expected)
    assert pipeline.receipts() == [Receipt("observation.rgb gaussian_blur.sigma_px", 0.0, 2.0)]


def test_image_shifts_act_in_the_order_given_and_answer_contiguously() -> None:
    one = apply_interventions(FakeScene(), [BLUR, NEGATIVE])(PICTURE, "agentview", 0)
    two = apply_interventions(FakeScene(), [NEGATIVE, BLUR])(PICTURE, "agentview", 0)
    assert one.flags.c_contiguous
    assert two.flags.c_contiguous
    assert not np.array_equal(one, two)
    blurred = GaussianBlur().image(PICTURE, {"sigma_px": 2.0}, {}, FRAME)
    np.testing.assert_array_equal(one, Negative().image(blurred, {}, {}, FRAME))


def test_an_identity_is_skipped_without_a_receipt() -> None:
    scene = FakeScene()
    draw = {"x": 1.0, "y": 1.0, "yaw": 1.0}
    still = {"sigma_xy_m": 0.0, "sigma_yaw_deg": 0.0}
    pipeline = apply_interventions(
        scene,
        [
            Intervention("illumination", "illumination", "L0", {"alpha": 1.0}, {}),
            Intervention("base", "base", "L0", still, draw),
            Intervention("blur", "gaussian_blur", "L0", {"sigma_px": 0.0}, {}),
        ],
    )
    assert scene.written == []
    assert pipeline.stages == ()


@pytest.mark.parametrize(
    "wrong, message",
    [
        (
            Intervention("blur", "gaussian_blur", "L9", {"sigma_px": -1.0}, {}),
            "axis 'blur', level 'L9'",
        ),
        (
            Intervention("camera", "camera_orientation", "L1", {"theta_max_deg": 2.0}, {}),
            "'yaw' is needed",
        ),
        (
            Intervention("blur", "gausian_blur", "L1", {"sigma_px": 1.0}, {}),
            "Did you mean 'gaussian_blur'",
        ),
    ],
)
def test_a_wrong_intervention_is_refused_before_the_scene_is_touched(
    wrong: Intervention, message: str
) -> None:
    scene = FakeScene()
    with pytest.raises(UsageError, match=message):
        apply_interventions(scene, [DIM, wrong])
    assert scene.written == []


def test_what_is_not_a_shift_is_refused_by_what_it_lacks() -> None:
    with pytest.raises(UsageError, match=r"not a Shift: it has no .*transforms_images"):
        load_shift("fractions:Fraction")
