"""Rules for combinations of settings, one for each feature; `simsys check`, the command line and Python share them.

A rule is a function that is registered under a setting. It records a problem at the line of this setting, and proposes
valid settings. Start with `registry.py`, then `findings.py`. May import configuration, models, parallelism, framework
modules, and the builders of parts in `simsys.build`; not the check, nor anything that runs.
"""

from __future__ import annotations

from simsys.build.rules import (
    adapters,
    engine,
    experts,
    failures,
    model,
    modules,
    own_metrics,
    parallelism,
    precision,
    sequences,
    serving,
    stages,
    strategy,
    training_kernels,
    unequal_gpus,
    workload,
)
from simsys.build.rules.registry import RULES, Parts, apply_rules, rule

__all__ = [
    "RULES",
    "Parts",
    "adapters",
    "apply_rules",
    "engine",
    "experts",
    "failures",
    "model",
    "modules",
    "own_metrics",
    "parallelism",
    "precision",
    "rule",
    "sequences",
    "serving",
    "stages",
    "strategy",
    "training_kernels",
    "unequal_gpus",
    "workload",
]
