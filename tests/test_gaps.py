"""Statistics of runs of steps, against those of a list of all gaps."""

from __future__ import annotations

import numpy as np
import pytest

from simsys.metrics import gaps
from simsys.metrics.gaps import Gaps


def runs(seed: int, count: int, growth: float) -> list[float]:
    """Runs of up to 50 steps with up to 20 sequences each, some without any."""
    rng = np.random.default_rng(seed)
    steps, tokens = rng.integers(1, 50, count), rng.integers(0, 20, count)
    columns = [rng.random(count), steps, tokens, tokens, rng.random(count), growth * rng.integers(0, 3, count)]
    return np.column_stack(columns).ravel().tolist()


def every_gap(runs: list[float]) -> np.ndarray:
    rows = np.array(runs).reshape(-1, 6)
    return np.concatenate(
        [np.repeat(first + growth * np.arange(count), int(tokens)) for _, count, tokens, _, first, growth in rows]
    )


@pytest.mark.parametrize("growth", [0.0, 1e-6, 0.01])
@pytest.mark.parametrize("few", [10, 50_000])
def test_statistics_are_those_of_all_gaps(growth: float, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "FEW", few)
    told = runs(1, 400, growth)
    found, expected = Gaps.of_runs(told), every_gap(told)
    assert found.total == len(expected)
    assert found.mean() == pytest.approx(expected.mean(), rel=1e-12)
    assert found.std() == pytest.approx(expected.std(), rel=1e-12)
    for share in (0.001, 0.1, 0.5, 0.9, 0.99, 1.0):
        exact = np.percentile(expected, 100 * share, method="inverted_cdf")
        assert found.quantile(share) == pytest.approx(exact, rel=1e-12)


def test_equal_gaps_need_no_list() -> None:
    found = Gaps.of_runs([0.0, 1e9, 4, 0, 0.25, 0.0])
    assert (found.mean(), found.std(), found.quantile(0.5), found.quantile(0.99)) == (0.25, 0.0, 0.25, 0.25)
