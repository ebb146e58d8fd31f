"""The error to expect of a run: that of measured runs like it, predicted by fits that had not seen them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simsys.config.hardware import Named
from simsys.fidelity.case import Prediction
from simsys.fidelity.errors import errors_of

FEWEST = 8
"""Fewer rows say nothing of a kind."""


def errors_to_expect(predictions: Sequence[Prediction], read: Sequence[frozenset[Named]]) -> dict[str, Any]:
    """Errors by family, then of all its rows and by GPU, then by metric: median, nine of ten, and rows.

    Args:
        predictions: Of rows that the fit had not seen.
        read: The profiles that each of them has read.
    """
    rows: dict[tuple[str, str, str], list[Prediction]] = {}
    for each, profiles in zip(predictions, read, strict=True):
        if each.predicted is not None:
            gpus = [name for kind, name in sorted(profiles) if kind == "gpu"]
            for name in ("all", *gpus):
                rows.setdefault((each.case.family, name, each.case.metric), []).append(each)
    found: dict[str, Any] = {}
    for (family, name, metric), own in sorted(rows.items()):
        if len(own) >= FEWEST:
            found.setdefault(family, {}).setdefault(name, {})[metric] = _errors(own)
    return found


def _errors(rows: Sequence[Prediction]) -> dict[str, float]:
    errors = errors_of(rows)
    assert errors.median_error is not None
    assert errors.p90_error is not None
    return {
        "rows": errors.predicted,
        "median": round(errors.median_error, 3),
        "nine_of_ten": round(errors.p90_error, 3),
    }
