"""Checks whether the failures of a scenario can happen, and are not too many to simulate."""

from __future__ import annotations

from simsys.build.campaign import failure_rates
from simsys.build.rules.findings import Findings
from simsys.build.rules.registry import Parts, rule
from simsys.errors import Problem
from simsys.sums import ordered_sum
from simsys.units import Dimension, pretty

MAX_FAILURES = 1_000_000
"""Most failures of a run; each of them is simulated."""


@rule("training.failures")
def failures(parts: Parts, found: Findings) -> None:
    """At least one component can fail, and failures are not too many to simulate."""
    assert parts.config.training is not None
    given = parts.config.training.failures
    if given is None or parts.cluster is None:
        return
    failures_per_s = ordered_sum(failure_rates(given, parts.cluster).values())
    if not failures_per_s:
        message = "one node has no links to other nodes that could fail; give gpu_mtbf or node_mtbf, or more nodes"
        found.error(("training", "failures", "link_mtbf"), message)
    elif (expected := failures_per_s * given.duration) > MAX_FAILURES:
        every, duration = (pretty(time_s, Dimension.SECONDS) for time_s in (1.0 / failures_per_s, given.duration))
        message = f"something fails every {every}, which is {expected:.3g} times in {duration}"
        found.error(("training", "failures"), f"{message}; at most {MAX_FAILURES:,} failures are simulated")
    elif parts.config.training.checkpoint is None:
        text = "without training.checkpoint, every failure loses all work since the beginning"
        found.warn(Problem(text, "training.failures"))
