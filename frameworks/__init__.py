"""The shipped framework modules, one per file; simsys finds them by name.

They say what a training step or a serving engine does, in the verbs of `simsys.framework`; executors decide how.
Start with `ddp.py` (a data-parallel module) and `chunked_prefill.py` (a scheduler). `training.py` composes a training
step of data parallelism, a pipeline schedule and passes, which `pass_descriptions.py` describes as data.
May import: simsys.framework, simsys.parallel, simsys.model, simsys.serving, simsys.units, simsys.sums, simsys.errors.
"""
