"""Scheduler conformance: the decisions of simsys against the step log of a real engine, step by step.

`step_log.py` reads the log, `replay.py` lets a simulated engine make the same steps, `comparison.py` compares both.
The simulated engine has no clock: all steps last equally long, and requests arrive before the step that the log says.
So differences are decisions of the scheduler and the KV cache, not errors of predicted times.
Start with `comparison.py`.
May import: build, config, errors, executors, input_files, model, platform, probes, serving, starter, teams.
"""
