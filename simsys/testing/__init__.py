"""Tools for authors of framework modules: toy scenarios, a harness of serving engines, a conformance kit.

Start with `check.py`, the rules for every framework module, and `toys.py`; `collectives.py` and `metrics.py` have the
rules for algorithms and metrics, `runs.py` records the operations of a module, `engines.py` builds serving engines.
May import: collectives, config, errors, executors, framework, metrics, model, ops, parallel, platform, probes, rng,
serving, simulation, starter, sums.

Example:
    >>> from simsys.testing import check_framework, record
    >>> from frameworks.ddp import DDP
    >>> check_framework(DDP)
    'ok'
    >>> [op["verb"] for op in record(DDP) if op["name"] == "gradients"]
    ['all_reduce', 'all_reduce']
"""

from __future__ import annotations

from simsys.executors.recording import Recording
from simsys.testing.check import check_framework, check_scheduler
from simsys.testing.collectives import check_collective
from simsys.testing.engines import EngineHarness, EngineParts, WatchedTeam
from simsys.testing.metrics import check_metric
from simsys.testing.runs import record
from simsys.testing.toys import toy_device, toy_executor, toy_model, toy_platform, toy_requests

__all__ = [
    "EngineHarness",
    "EngineParts",
    "Recording",
    "WatchedTeam",
    "check_collective",
    "check_framework",
    "check_metric",
    "check_scheduler",
    "record",
    "toy_device",
    "toy_executor",
    "toy_model",
    "toy_platform",
    "toy_requests",
]
