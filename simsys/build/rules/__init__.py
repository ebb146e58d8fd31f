"""What may be combined: one rule beside each feature, for `simsys check`, the command line and Python alike.

A rule is a function registered under the setting that it is about; it books its problem at the line of that setting,
with settings that would be right. Start with `registry.py`, then `findings.py`. May import configuration, models,
parallelism, framework modules, and what `simsys.build` builds parts with; not the check, nor anything that runs.
"""

from __future__ import annotations

from simsys.build.rules import (
    engine,
    experts,
    failures,
    model,
    modules,
    parallelism,
    precision,
    sequences,
    serving,
    stages,
    strategy,
    unequal_gpus,
    workload,
)
from simsys.build.rules.registry import RULES, Parts, apply_rules, rule

__all__ = [
    "RULES",
    "Parts",
    "apply_rules",
    "engine",
    "experts",
    "failures",
    "model",
    "modules",
    "parallelism",
    "precision",
    "rule",
    "sequences",
    "serving",
    "stages",
    "strategy",
    "unequal_gpus",
    "workload",
]
