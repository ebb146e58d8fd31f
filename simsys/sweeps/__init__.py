"""Sweeps: many variants of one scenario, each simulated once, in one table.

The section ``sweep`` of an experiment is expanded to points (`space.py`, `points.py`); a point is a scenario that is
checked and simulated as by ``simsys run`` (`evaluate.py`). Points run in shards on worker processes (`local.py`), and
one process writes their rows to a store (`store.py`), from which tables and pictures are made.

Start with `plan.py`, then `run.py`; `api.py` is the interface for Python.

May import: build, check, config, contents, data, errors, input_files, interrupts, metrics, plots, report, rng, shown,
simulation, sums, units, user_modules, version, workers.
"""

from __future__ import annotations

from simsys.sweeps.api import SweepResult, sweep

__all__ = ["SweepResult", "sweep"]
