"""The scenarios in which the levels of detail are compared, and each with so little to do that it takes no time."""

from __future__ import annotations

import json
from pathlib import Path

import experiments
from simsys.config.experiment import SimulationConfig
from simsys.config.scenarios import read_scenarios
from simsys.level_study.measurement import differences, figures
from simsys.level_study.variants import HIGH, MEDIUM, as_variant

FILE = Path(next(iter(experiments.__path__))) / "level_of_detail.yaml"
COUNTS = Path(__file__).parent / "level_of_detail_counts.json"
"""Events of the quick scenarios at both levels, written by scripts/make_level_of_detail_counts.py."""

AT_ONCE = "workload.arrivals={kind: all_at_once}"
"""So that which steps there are does not depend on how long they take: counts stay when profiles are fitted anew."""
QUICK = {
    "a-1-gpu": [AT_ONCE, "workload.num_requests=6", "workload.output_tokens={kind: uniform, low: 100, high: 300}"],
    "b-tp4": [AT_ONCE, "workload.num_requests=5", "workload.output_tokens={kind: uniform, low: 20, high: 80}"],
    "c-tp4-pp2": [AT_ONCE, "workload.num_requests=5", "workload.output_tokens={kind: uniform, low: 20, high: 60}"],
    "d-contended": ["workload.num_requests=5", "workload.output_tokens=12", "workload.arrivals.rate=3 req/s"],
    "e-disaggregated": ["workload.num_requests=10", "workload.output_tokens=64"],
    "f-8-replicas": [AT_ONCE, "workload.num_requests=16", "workload.output_tokens=64"],
    "g-ddp-64": ["training.num_iterations=5"],
    "g-fsdp-64": ["training.num_iterations=4"],
    # The same kinds of parallelism on a sixteenth of the GPUs.
    "g-3d-512": [
        "training.num_iterations=4",
        "model.name=GPT2-Large",
        "hardware.num_nodes=4",
        "parallelism.tp_degree=4",
        "parallelism.pp_stages=4",
        "parallelism.dp_degree=2",
    ],
}
SHARED = {"c-tp4-pp2": 0.001, "c-tp4-pp2-hour": 0.001, "d-contended": 0.015, "g-3d-512": 0.01}
"""By what share figures may differ where transfers meet on links: of groups, or hidden states and all-reduces."""


def quick(name: str) -> SimulationConfig:
    """A scenario with little to do."""
    (config,) = read_scenarios(FILE, QUICK[name], [name])
    return config


def count(name: str) -> tuple[dict[str, int], float]:
    """Events of a quick scenario at each level, and the largest difference of a figure."""
    high, medium = (as_variant(quick(name), level).simulate() for level in (HIGH, MEDIUM))
    off = differences(figures(medium), figures(high))
    return {HIGH: high.events, MEDIUM: medium.events}, max(map(abs, off.values()))


def counted() -> dict[str, dict[str, int]]:
    """What was counted when the file was written."""
    found: dict[str, dict[str, int]] = json.loads(COUNTS.read_text(encoding="utf-8"))
    return found
