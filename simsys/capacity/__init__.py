"""Capacity of one serving configuration: its steady state, and the greatest rate of requests that meets an SLO.

Start with `rate.py`, which bisects on the rate; `steady.py` runs one rate until it is steady.
May import: build, config, errors, metrics, serving, simulation.
"""

from __future__ import annotations

from simsys.capacity.rate import GreatestRate, greatest_rate
from simsys.capacity.steady import SteadyState, steady_state

__all__ = ["GreatestRate", "SteadyState", "greatest_rate", "steady_state"]
