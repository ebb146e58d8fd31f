"""Laws of scaling, fitted to speed-ups: the serial fraction of Amdahl and of Gustafson.

Both laws are linear in the fraction f. It is fitted by least squares of relative differences, through the origin,
since times of large and small sizes scatter by equal shares:

- Amdahl 1967, for a fixed problem: 1/S = f + (1 - f)/N, so 1/S - 1/N = f (1 - 1/N), in which f of a single point is
  the metric of Karp and Flatt 1990;
- Gustafson 1988, for a problem that grows with the size: S = N - f (N - 1), so N - S = f (N - 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from simsys.sums import ordered_sum

Law = Literal["Amdahl", "Gustafson"]
LAWS: tuple[Law, ...] = ("Amdahl", "Gustafson")


@dataclass(frozen=True)
class Fit:
    """A law with its fitted fraction.

    Args:
        law: The law.
        fraction: The serial fraction of the time of the base, 0 to 1.
        deviation: Largest relative difference between a speed-up and the law.
    """

    law: Law
    fraction: float
    deviation: float

    @property
    def limit(self) -> float | None:
        """The speed-up that no size exceeds by Amdahl's law; None without a serial part, or by Gustafson's law."""
        return 1.0 / self.fraction if self.law == "Amdahl" and self.fraction else None

    def as_dict(self) -> dict[str, Any]:
        """The fit as data for JSON."""
        return {**asdict(self), "limit": self.limit}


def speedup(law: Law, fraction: float, size: float) -> float:
    """The speed-up by a law.

    Example:
        >>> speedup("Amdahl", 0.25, 4.0), speedup("Gustafson", 0.25, 4.0)
        (2.2857142857142856, 3.25)
    """
    if law == "Amdahl":
        return 1.0 / (fraction + (1.0 - fraction) / size)
    return size - fraction * (size - 1.0)


def fit(law: Law, sizes: Sequence[float], speedups: Sequence[float]) -> Fit | None:
    """Fit a law; None with fewer than two sizes. Superlinear scaling gives a fraction of 0.

    Args:
        law: The law.
        sizes: Sizes over the size of the base.
        speedups: Speed-ups over the base, above 0.
    """
    pairs = list(zip(sizes, speedups, strict=True))
    if law == "Amdahl":
        x = [fast * (1.0 - 1.0 / size) for size, fast in pairs]
        y = [1.0 - fast / size for size, fast in pairs]
    else:
        x = [(size - 1.0) / fast for size, fast in pairs]
        y = [size / fast - 1.0 for size, fast in pairs]
    weight = ordered_sum(a * a for a in x)
    if not weight:
        return None
    fraction = min(1.0, max(0.0, ordered_sum(a * b for a, b in zip(x, y, strict=True)) / weight))
    return Fit(law, fraction, max(abs(fast / speedup(law, fraction, size) - 1.0) for size, fast in pairs))
