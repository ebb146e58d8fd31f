"""Traces of runs, of simulated and of real ones.

Start with `scenario_trace.py`, the trace of a simulated scenario: it has a probe for each kind of job
(`training_trace.py`, `serving_trace.py`) and writes the Chrome format of PyTorch's profiler (`chrome.py`).
May import: check, collectives, config, errors, input_files, metrics, ops, parallel, probes, serving, simulation, sums,
version.
"""
