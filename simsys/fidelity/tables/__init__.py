"""Readers of other people's measurements: tables as CSV, results of ``vllm bench serve``, output of nccl-tests.

`readers.py` knows every kind of table by its header and turns each row into a `Case`. What a table leaves out (names,
machines, how engines were set up) is data in ``experiments/measured/*.yaml``, read by `facts.py`.
May import: simsys.config, simsys.build, simsys.simulation, and case and scenario_run of simsys.fidelity; not the fit.
Start reading at `readers.py`, then `training_rows.py`.
"""
