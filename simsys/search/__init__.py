"""The best layouts of a training job: closed forms for all of them, simulations of the most promising.

Start with `stages.py`. `candidates.py` is what the stages need of a kind of scenario; `training` has the layouts of a
training job, their memory and their bounds. `simulated.py` simulates.
May import: build, check, collectives, config, costs, errors, executors, framework, metrics, model, parallel, platform,
simulation, sums, user_modules, workers.
"""

from __future__ import annotations

from simsys.search.result import SearchResult
from simsys.search.search import search

__all__ = ["SearchResult", "search"]
