"""Metrics that a comparison shows first."""

from __future__ import annotations

import pytest

from simsys.comparisons.headline import HEADLINE, MEASURED, ordered_metrics
from simsys.config.expected_errors import NAMES
from simsys.metrics.definitions import metrics_by_name


@pytest.mark.parametrize("kind", HEADLINE)
def test_headline_metrics_exist_and_come_first(kind: str) -> None:
    names = [each.name for each in ordered_metrics(kind)]
    assert names[: len(HEADLINE[kind])] == list(HEADLINE[kind])
    assert len(set(names)) == len(names)


def test_measured_metrics_are_metrics_with_known_errors() -> None:
    assert set(MEASURED) <= set(metrics_by_name())
    assert set(MEASURED.values()) <= set(NAMES)
