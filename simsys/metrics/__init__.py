"""Observation of a run, and computation of its metrics.

Start with `collector.py`, the probe that observes a run, and `result.py`, which is what a run returns. `training.py`
and `serving.py` compute figures from logs (`iteration_log.py`, `serving_log.py`); `definitions.py` lists all metrics,
`own.py` has the bases of those of the user's own.
May import: collectives, errors, ops, parallel, probes, registry, serving, shown, sums, user_modules, version.
"""
