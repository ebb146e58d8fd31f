"""What work takes: the only place where the duration of a computation or of a forward pass is spelled.

A pass is costed by segment (`PassCost.by_segment`, the definition) or as a line in its context (`PassCost.costs`, a
`StepLine`), whose sums over runs of steps are closed forms (`StepTimes`). All levels of detail use the same figures.
It may import `simsys.platform.device_spec`, `simsys.model`, `simsys.parallel` and what lies below them; neither SimPy
nor `simsys.executors`, which decide when work begins.
Start reading at `pass_cost.py`; for training, at `compute_speed.py`.
"""
