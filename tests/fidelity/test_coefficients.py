"""Coefficients as they are written into profiles."""

from __future__ import annotations

import pytest

from simsys.fidelity.coefficients import coefficients_of


@pytest.mark.parametrize("gpu", ["H100-SXM", "A100-SXM-40GB", "MI250"])
@pytest.mark.parametrize("factor", [0.51, 0.9, 1.1])
def test_all_points_of_a_curve_are_scaled_alike_however_small_they_are(gpu: str, factor: float) -> None:
    curves = [each for each in coefficients_of([("gpu", gpu)]) if each.points]
    assert any("_attention" in str(each) for each in curves)
    for each in curves:
        written = [point[each.column] for point in each.written(factor * each.start)]
        expected = [min(1.0, factor * point[each.column]) for point in each.points]
        assert written == pytest.approx(expected, rel=1e-3)
