"""Chakra execution traces of MLCommons: written from a training scenario, replayed on any cluster.

Start with `export.py` (a scenario to traces) and `replay.py` (traces to a result); `nodes.py` has the data of a node.
May import: build, check, collectives, config, errors, executors, input_files, job_run, metrics, model, ops, parallel,
platform, probes, report, simulation, sums, units, version.
"""
