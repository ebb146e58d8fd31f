"""The hardware as SimPy resources: GPUs with memory, links, networks, and the environment in which they live.

Start with `platform.py`, which holds all of it, and `network.py`, the interface of contention models; `fifo.py` and
`fair.py` are the two models. `topology.py` and `nodes.py` define vertices and links, `turns.py` requests by processes.
May import: errors, model, ops, sums, units.
"""
