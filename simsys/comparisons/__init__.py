"""Comparisons of scenarios, results of runs and measurements: ratios of metrics, their errors, and time by cause.

Start with `comparison.py`, the result; `sources.py` reads what is compared, `side.py` simulates it. `expected.py`
finds the expected error of a ratio, `causes.py` divides the time by cause.
May import: build, check, config, contents, errors, fidelity, input_files, metrics, report, shown, sums, sweeps, units,
version.
"""

from __future__ import annotations

from simsys.comparisons.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]
