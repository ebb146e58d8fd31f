"""Several jobs on one cluster: the order of their starts, and their GPUs.

Start with `manager.py`, which handles arrival, wait, start and end of jobs; `queue.py` orders the waiting jobs and
`placement.py` picks GPUs. The work of jobs is not known here; `simsys/shared_cluster.py` runs them.
May import: platform.
"""
