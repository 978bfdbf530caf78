"""Pictures as policies were trained on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from pytest_vla_shift.policies.pictures import from_profile, to_profile
from pytest_vla_shift.policies.profile import (
    ORIENTATIONS,
    ImageMap,
    MappingError,
    Orientation,
    Resize,
)

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Image

PLAIN = ImageMap("image", "agentview", "upright", None, "none")


def picture(height: int = 6, width: int = 4) -> Image:
    return np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)


def mapped(orientation: str, size: tuple[int, int] | None = None, resize: str = "none") -> ImageMap:
    return ImageMap(
        "image", "agentview", cast("Orientation", orientation), size, cast("Resize", resize)
    )


def test_what_liberos_scripts_call_a_rotation_is_a_mirror_image_of_the_upright_picture() -> None:
    """raw[::-1, ::-1], where the renderer's raw picture has its first row at the bottom."""
    raw = picture()
    upright = raw[::-1]
    assert np.array_equal(to_profile(mapped("mirrored"), upright), raw[::-1, ::-1])


def test_robocasas_vertical_flip_is_the_upright_picture() -> None:
    raw = picture()
    assert np.array_equal(to_profile(mapped("upright"), raw[::-1]), raw[::-1])


def test_the_three_orientations_are_three_pictures() -> None:
    upright = picture()
    found = {to_profile(mapped(each), upright).tobytes() for each in ORIENTATIONS}
    assert len(found) == 3
    assert np.array_equal(to_profile(mapped("rotate_180"), upright), np.rot90(upright, 2))


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_every_turn_is_undone(orientation: str) -> None:
    image, upright = mapped(orientation), picture()
    assert np.array_equal(from_profile(image, to_profile(image, upright)), upright)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("resize", ["none", "pad", "stretch"])
def test_a_picture_is_contiguous_and_in_memory_of_its_own(orientation: str, resize: str) -> None:
    upright = picture()
    upright.flags.writeable = False  # as a codec may hand it on
    found = to_profile(mapped(orientation, None if resize == "none" else (8, 8), resize), upright)
    assert found.flags.c_contiguous
    assert found.flags.writeable
    assert not np.shares_memory(found, upright)
    assert found.dtype == np.uint8


def test_another_size_is_refused_unless_the_profile_resizes() -> None:
    image = mapped("upright", (256, 256))
    with pytest.raises(MappingError, match=r"'image' takes pictures of 256 x 256 .* gives 6 x 4"):
        to_profile(image, picture())
    assert to_profile(replace(image, resize="stretch"), picture()).shape == (256, 256, 3)


SHAPES = [(256, 256), (128, 256), (300, 200), (31, 57), (224, 224), (100, 224)]


@pytest.mark.parametrize("shape", SHAPES)
def test_padding_is_that_of_openpis_client_bit_for_bit(shape: tuple[int, int]) -> None:
    tools = pytest.importorskip("openpi_client.image_tools")
    upright = picture(*shape)
    found = to_profile(mapped("upright", (224, 224), "pad"), upright)
    assert np.array_equal(found, tools.resize_with_pad(upright, 224, 224))


@pytest.mark.parametrize("shape", SHAPES)
def test_padding_is_that_of_vla_eval_bit_for_bit(shape: tuple[int, int]) -> None:
    tools = pytest.importorskip("vla_eval.benchmarks.libero.utils")
    upright = picture(*shape)
    found = to_profile(mapped("upright", (224, 224), "pad"), upright)
    assert np.array_equal(found, tools.resize_with_pad(upright, 224, 224))
