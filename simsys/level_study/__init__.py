"""The levels of detail compared: speed-up and error of medium, and which abstraction causes them.

Start with `compare.py`, one scenario at both levels, and `study.py`, many of them. `attribution.py` exchanges one
abstraction at a time, `breakdown.py` measures where simulating takes its time.
May import: build, config, errors, executors, interrupts, job_run, metrics, report, shared_cluster, simulation, sums,
user_modules, version, workers.
"""
