"""Observation of a run, and computation of its metrics.

Start with `collector.py`, the probe that observes a run, and `result.py`, which is what a run returns. `training.py`
and `serving.py` compute figures from logs (`iteration_log.py`, `serving_log.py`); `definitions.py` lists all metrics.
May import: collectives, errors, ops, parallel, probes, serving, sums, version.
"""
