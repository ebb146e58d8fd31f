"""Training iterations: the loop over them, and the programs of passes that ranks run in each.

`played` is the component of an executor that runs passes one by one; `foreseen` computes the ends of all passes of a
group in a recurrence (`programs`), `on_links` executes operations without links at once. `training_loop` repeats equal
iterations; `campaign` and `goodput` compute the effect of failures and checkpoints on a long run. It may import
`simsys.executors.executor` and what that imports; not `simsys.executors.levels`. Start with `played.py`, then
`programs.py`; for the loop, with `training_loop.py`.
"""
