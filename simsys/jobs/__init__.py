"""Several jobs on one cluster: which job starts next, and on which GPUs.

Start with `manager.py`, which lets jobs arrive, wait, run and end; `queue.py` orders the waiting jobs and
`placement.py` picks GPUs. What the jobs do is not known here; `simsys/shared_cluster.py` runs them.
May import: platform.
"""
