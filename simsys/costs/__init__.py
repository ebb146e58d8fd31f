"""Durations of computations and forward passes, defined only here.

A pass is costed by segment (`PassCost.by_segment`, the definition) or as a line in its context (`PassCost.costs`, a
`StepLine`), whose sums over runs of steps are closed forms (`StepTimes`). All levels of detail use these durations.
Start with `pass_cost.py`; for training, with `compute_speed.py`. Neither SimPy nor executors are imported: these
decide when work begins.
May import: collectives, errors, model, ops, parallel, platform, rng, sums.
"""
