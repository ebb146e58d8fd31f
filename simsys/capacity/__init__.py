"""Capacity of one serving configuration: its steady state, and the greatest rate of requests that meets an SLO.

Start with `rate.py`, which bisects on the rate, and `replicas.py`, which bisects on the size; `judgement.py` compares
a steady state with the SLO, and `steady.py` runs a scenario until it is steady.
May import: build, config, errors, metrics, serving, simulation.
"""

from __future__ import annotations

from simsys.capacity.judgement import Judgement
from simsys.capacity.rate import GreatestRate, greatest_rate
from simsys.capacity.replicas import FewestReplicas, fewest_replicas
from simsys.capacity.steady import SteadyState, steady_state

__all__ = [
    "FewestReplicas",
    "GreatestRate",
    "Judgement",
    "SteadyState",
    "fewest_replicas",
    "greatest_rate",
    "steady_state",
]
