"""From configuration to runtime objects: the only package that knows both sides.

`job.py` makes each part of a scenario once, applies all rules and builds the job; `rules` checks combinations of
settings, `variants` holds the features of engines.
Start with `job.py`, then `cluster.py`, `training.py` and `serving.py`.
May import: collectives, config, costs, errors, executors, framework, input_files, metrics, model, parallel, platform,
probes, rank, rng, serving, starter, sums, teams, units.
"""
