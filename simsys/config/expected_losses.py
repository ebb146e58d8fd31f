"""The expected loss of a choice by simulation, measured on sets of runs that differ in one choice alone.

``simsys validate --expected-losses FILE`` writes it, of rows that the fits of the profiles had not seen.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from simsys.config.document import unchanged_document
from simsys.data import data_folders

FILENAME = "expected_losses.yaml"


@dataclass(frozen=True)
class MeasuredLoss:
    """How good the choices of simulations are, in measured values.

    Args:
        loss: Mean relative loss of the predicted best candidate against the measured best one: in time, in cost by
            token, or by a latency beyond its limit.
        sets: Number of sets of measured candidates, that is, of choices.
        rows: Number of their measured rows.
        rank_correlation: Mean rank correlation of predicted and measured values.
        beyond_limits: Share of the choices that are beyond a limit of latency as measured.
    """

    loss: float
    sets: int
    rows: int
    rank_correlation: float
    beyond_limits: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The loss as data for JSON."""
        return asdict(self)

    def text(self) -> str:
        """The loss in a line."""
        choices = f"n = {self.sets} measured choices among {self.rows} held-out rows"
        return f"expected loss against the best of these: {self.loss * 100:.1f} % ({choices})"


def measured_loss(kind: str) -> MeasuredLoss | None:
    """The expected loss of the choice of a search; None if it was not measured.

    Args:
        kind: ``training``, for a choice among layouts, or ``serving``, for one among degrees of parallelism and
            concurrencies within a limit of latency.
    """
    for folder in data_folders("hardware_profiles"):
        path = folder / "fits" / FILENAME
        if path.is_file():
            found = unchanged_document(path).data.get(kind)
            own = {key: value for key, value in (found or {}).items() if key != "choices"}
            return MeasuredLoss(**own) if own else None
    return None
