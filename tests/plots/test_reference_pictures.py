"""Pictures look as the committed ones, but for fonts; written by scripts/make_reference_pictures.py."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.reference_pictures import FOLDER, PICTURES, coarse, pixels, png

TOLERANCE = 0.02
"""Largest mean difference of lightness."""
WORST = 0.25
"""Largest difference of the mean lightness of a square of 8 x 8 pixels."""


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_looks_as_before(name: str) -> None:
    now, before = pixels(png(name)), pixels((FOLDER / f"{name}.png").read_bytes())
    assert now.shape == before.shape
    difference = np.abs(coarse(now) - coarse(before))
    assert difference.mean() < TOLERANCE
    assert difference.max() < WORST


def test_another_picture_is_noticed() -> None:
    now, other = (coarse(pixels((FOLDER / f"{name}.png").read_bytes())) for name in ("latencies", "topology"))
    rows, columns = (min(lengths) for lengths in zip(now.shape, other.shape, strict=True))
    difference = np.abs(now[:rows, :columns] - other[:rows, :columns])
    assert difference.mean() > TOLERANCE
    assert difference.max() > WORST
