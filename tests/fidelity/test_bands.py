"""Bands hold the stated share of values, of other sources too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from simsys.fidelity.bands import SHARE, band_of, coverage_by_metric
from simsys.fidelity.case import Case, Prediction


def predictions(ratios: Sequence[float], sources: int = 10, gpu: str = "A100") -> list[Prediction]:
    """Predictions whose measured values are these multiples of them."""
    return [
        Prediction(Case(f"{gpu}{n}", "serving", f"g{n % sources}", "tpot_ms", "ms", 5.0 * ratio, {"gpu": gpu}), 5.0)
        for n, ratio in enumerate(ratios)
    ]


def test_a_band_holds_its_share_of_further_values() -> None:
    random = np.random.default_rng(3)
    inside = []
    for _ in range(400):
        low, high = band_of(1.0 / np.exp(random.normal(0.1, 0.3, 20)) - 1.0)
        inside.append(low <= np.exp(random.normal(0.1, 0.3)) - 1.0 <= high)
    assert np.mean(inside) == pytest.approx(SHARE, abs=0.05)


def test_a_band_is_where_measured_values_are() -> None:
    low, high = band_of([each.error for each in predictions(np.linspace(1.1, 1.5, 101).tolist())])
    assert low == pytest.approx(0.14, abs=0.01)
    assert high == pytest.approx(0.46, abs=0.01)


def test_bands_of_sources_that_are_alike_hold_and_others_do_not() -> None:
    random = np.random.default_rng(5)
    ratios = np.exp(random.normal(0.0, 0.2, 1000))
    [alike] = coverage_by_metric(predictions(ratios.tolist())).values()
    assert alike.rows == 1000
    assert alike.inside == pytest.approx(SHARE, abs=0.03)
    assert alike.width == pytest.approx(0.52, abs=0.05), "2.56 standard deviations"
    apart = [ratio * (1.0 + n % 10) for n, ratio in enumerate(ratios)]
    [found] = coverage_by_metric(predictions(apart)).values()
    assert found.width > 2.0


def test_a_gpu_with_enough_rows_has_a_band_of_its_own() -> None:
    exact = predictions(np.linspace(0.99, 1.01, 100).tolist(), gpu="A100")
    rough = predictions(np.linspace(0.5, 1.5, 100).tolist(), gpu="H100")
    [found] = coverage_by_metric(exact + rough).values()
    assert found.inside == pytest.approx(SHARE, abs=0.05)
    assert found.width < 0.9
    assert coverage_by_metric(exact[:20]) == {}
