"""The hardware as SimPy resources: GPUs with memory, links, networks, and the environment in which they live.

Start with `platform.py`, which holds all of it, and `network.py`, what every model of contention offers; `fifo.py` and
`fair.py` are the two models. `topology.py` and `nodes.py` say what is linked to what, `turns.py` how processes queue.
May import: errors, model, ops, sums, units.
"""
