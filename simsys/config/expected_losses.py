"""The expected loss of a choice among layouts: measured on sets of runs that differ in their layout alone.

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
        loss: Mean relative loss of the predicted best layout against the measured best one.
        sets: Number of sets of measured layouts, that is, of choices.
        rows: Number of their measured rows.
        rank_correlation: Mean rank correlation of predicted and measured values.
    """

    loss: float
    sets: int
    rows: int
    rank_correlation: float

    def as_dict(self) -> dict[str, Any]:
        """The loss as data for JSON."""
        return asdict(self)

    def text(self) -> str:
        """The loss in a line."""
        choices = f"n = {self.sets} measured choices among {self.rows} held-out rows"
        return f"expected loss against the best of these: {self.loss * 100:.1f} % ({choices})"


def measured_loss(kind: str) -> MeasuredLoss | None:
    """The expected loss of a choice among layouts; None if it was not measured.

    Args:
        kind: ``training`` or ``serving``.
    """
    for folder in data_folders("hardware_profiles"):
        path = folder / "fits" / FILENAME
        if path.is_file():
            found = unchanged_document(path).data.get(kind)
            return None if found is None else MeasuredLoss(**found)
    return None
