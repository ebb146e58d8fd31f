"""Measurements that a table lists more than once."""

from __future__ import annotations

from collections.abc import Sequence

from simsys.fidelity.case import Case, Run

SAME = 1e-3
"""Largest relative difference of two values of one measurement, which sources round differently."""


def without_repeats(cases: Sequence[Case]) -> list[Case]:
    """Return the cases of a table without those that repeat an earlier one.

    Collections of benchmarks copy from each other: the same value of the same run is listed under several sources, or
    under several names of its model. Counted twice, it would have twice the weight, and a value that is held out would
    be fitted under its other name.

    Args:
        cases: In the order of the table. Cases without a run are kept.
    """
    kept: list[Case] = []
    known: dict[tuple[Run, str], list[float]] = {}
    for case in cases:
        if case.run is not None:
            values = known.setdefault((case.run, case.figure), [])
            value = case.measured / case.scale
            if any(abs(value - earlier) <= SAME * earlier for earlier in values):
                continue
            values.append(value)
        kept.append(case)
    return kept
