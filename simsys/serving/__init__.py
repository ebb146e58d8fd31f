"""Serving: requests, KV cache, scheduling and the engine, which advances by runs of steps.

Start with `engine.py`, the only implementation of an engine, and `engine_state.py`; `run_length.py` says how far a run
may go, `scheduler.py`, `phases.py` and `router.py` are the interfaces of policies, `source.py` delivers requests.
May import: config, errors, input_files, model, platform, probes, rng, sums, teams, units,
user_modules.
"""
