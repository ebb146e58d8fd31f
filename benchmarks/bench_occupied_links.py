"""What it costs that transfers meet on links, against links that are idle, over the experiments of the project.

Where none meet, there are as many events, which is asserted; times are printed. Aims: at most 1.5 times the CPU time
where nothing is shared, 5 times where links are.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from conftest import FIGURES

import experiments
from simsys.config.experiment import SimulationConfig
from simsys.config.scenarios import read_scenarios
from simsys.metrics.result import RunResult
from simsys.simulation import NONE_MET, simulate

FOLDER = Path(next(iter(experiments.__path__)))
FILES = ("level_of_detail", "training", "shared_cluster", "experiment_config")
SCENARIOS = [config for name in FILES for config in read_scenarios(FOLDER / f"{name}.yaml", (), ())]
MEDIUM = [config for config in SCENARIOS if config.simulation.lod == "medium"]
ROUNDS = 3


def with_links(config: SimulationConfig, occupy: Any) -> SimulationConfig:
    simulation = config.simulation.model_copy(update={"occupy_links": occupy})
    return config.model_copy(update={"simulation": simulation})


def timed(config: SimulationConfig) -> tuple[float, RunResult]:
    started_s = time.process_time()
    result = simulate(config)
    return time.process_time() - started_s, result


@pytest.mark.parametrize("config", MEDIUM, ids=lambda config: config.name)
def test_occupied_against_idle_links(benchmark: Any, config: SimulationConfig) -> None:
    idle_config, config = with_links(config, False), with_links(config, "auto")
    simulate(idle_config)
    rounds = [(timed(idle_config), timed(config)) for _ in range(ROUNDS)]
    idle_s, found_s = (min(each[place][0] for each in rounds) for place in range(2))
    idle, found = (each[1] for each in rounds[-1])
    benchmark.pedantic(lambda: simulate(config))
    benchmark.extra_info.update(
        ratio=found_s / idle_s, idle_cpu_s=idle_s, events=found.events, idle_events=idle.events
    )
    kind = "none met" if found.contention.endswith(NONE_MET) else "met"
    text = f"{found_s / idle_s:5.2f} times the CPU time of idle links ({idle_s:.3f} s), {kind}; "
    FIGURES.append((config.name, f"{text}{idle.events:,} -> {found.events:,} events"))
    if kind == "none met":
        assert found.events == idle.events
