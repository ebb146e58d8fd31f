"""The best layouts or deployments: closed forms for all of them, simulations of the most promising.

Start with `stages.py`. `candidates.py` is what the stages need of a kind of scenario; `training` has the layouts of a
training job, `serving` the deployments of a serving scenario, both with memory and bounds in closed form.
`simulated.py` simulates, and `sizes.py` looks for the smallest size of each deployment.
May import: build, capacity, check, collectives, config, costs, errors, executors, framework, metrics, model, parallel,
platform, serving, shown, simulation, sums, user_modules, workers.
"""

from __future__ import annotations

from simsys.searches.result import SearchResult
from simsys.searches.search import search

__all__ = ["SearchResult", "search"]
