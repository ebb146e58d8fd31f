"""Checkpoints: how long training stops to save its state."""

from __future__ import annotations


class Checkpoints:
    """A checkpoint after every `interval`-th iteration; none begins before the one before is written.

    With a background write, training continues after the copy to the host: "snapshot" and "persist" of Mohan et
    al. 2021 (CheckFreq).

    Args:
        interval: Iterations between checkpoints.
        stop_s: Stop of all ranks for one.
        background_s: Duration of its write afterwards, during training.
    """

    def __init__(self, interval: int, stop_s: float, background_s: float = 0.0) -> None:
        self.interval = interval
        self.stop_s = stop_s
        self.background_s = background_s
        self._written_s = 0.0

    def save(self, now_s: float) -> float:
        """Start a checkpoint at `now_s`; return the time at which the ranks continue."""
        end_s = max(now_s, self._written_s) + self.stop_s
        self.saved(end_s)
        return end_s

    def saved(self, end_s: float) -> None:
        """Record that the ranks continued at `end_s`, after a checkpoint that was repeated instead of simulated."""
        self._written_s = end_s + self.background_s
