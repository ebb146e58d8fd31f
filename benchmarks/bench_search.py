"""A search among all layouts of a large model. Counts are asserted, which hold anywhere; times are printed."""

from __future__ import annotations

import time
from typing import Any

import pytest
from conftest import FIGURES

from simsys.config.experiment import SimulationConfig
from simsys.searches.result import SearchResult
from simsys.searches.search import search

QUESTION = {
    "hardware": {"profile": "dgx-h100", "num_nodes": 32},
    "model": {"name": "Llama3-70B"},
    "training": {"global_batch_size": 1024},
    "search": {"minimize": "steady_iteration_s", "over": "auto"},
}


@pytest.mark.slow
def test_all_layouts_of_70b_on_256_gpus(benchmark: Any) -> None:
    """In two processes, from their start on."""
    config, stages = SimulationConfig.model_validate(QUESTION), list[str]()

    def once() -> SearchResult:
        return search(config, top=1, jobs=2, say=stages.append)

    started_s = time.perf_counter()
    answer = benchmark.pedantic(once, rounds=1)
    seconds = time.perf_counter() - started_s
    assert answer.considered == 174_196
    assert answer.best
    FIGURES.append(("layouts of 70B on 256 GPUs", f"{seconds:.1f} s in two processes; {stages[0]}"))
