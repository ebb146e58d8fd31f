"""Readers of other people's measurements: tables as CSV, results of ``vllm bench serve``, output of nccl-tests.

`readers.py` knows every kind of table by its header and turns each row into a `Case`. What a table leaves out (names,
machines, how engines were set up) is data in ``experiments/measured/*.yaml``, read by `facts.py`.
Start with `readers.py`, then `training_rows.py` (from a row to a case) and `training_scenario.py` (to an experiment).
Of simsys.fidelity, it imports what a case is and how it is simulated, not the fits.
"""
