"""Candidates of remedies: each changes something, and can be built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from simsys.analysis.remedies import OTHER_BATCH, TRAINING, Candidate
from simsys.analysis.serving_remedies import SERVING, more_sequences
from simsys.build.job import build_job
from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.check.remedies import applied, changed
from simsys.config.experiment import SimulationConfig
from simsys.errors import SimsysError
from tests.helpers.planted import SCENARIOS, planted

MODEL = {"model": {"name": "GPT2-Small"}}
RICH: dict[str, Any] = {
    "hardware": {"profile": "dgx-h100", "num_nodes": 2, "jitter": None},
    **MODEL,
    "parallelism": {"strategy": "TP_PP_DDP", "tp_degree": 2, "pp_stages": 2},
    "training": {
        "global_batch_size": 64,
        "batch_size_per_gpu": 2,
        "num_iterations": 4,
        "activation_recompute": "full",
        "attention": "unfused",
        "norms": "eager",
        "fused_optimizer": False,
        "communication_pattern": "ring",
        "checkpoint": {"interval": 2, "storage_bandwidth": "1 GB/s"},
        "data_loading": {"time": "10 ms", "prefetch": False},
    },
}


def candidates(config: SimulationConfig) -> Iterator[tuple[str, Candidate]]:
    job = build_job(config)
    table: Any = TRAINING if isinstance(job, TrainingJob) else SERVING
    for kind, functions in table.items():
        for function in functions:
            for candidate in function(job):
                yield kind, candidate


@pytest.mark.parametrize("name", [*SCENARIOS, "rich"])
def test_every_candidate_changes_the_scenario(name: str) -> None:
    config = SimulationConfig(**RICH) if name == "rich" else planted(name)
    base = build_job(config).config
    found = list(candidates(config))
    assert len(found) > 5
    for _, candidate in found:
        assert changed(base, candidate.settings) != base, candidate


def test_only_those_that_say_so_change_the_global_batch() -> None:
    job = build_job(SimulationConfig(**RICH))
    assert isinstance(job, TrainingJob)
    tried = 0
    for _, candidate in candidates(SimulationConfig(**RICH)):
        try:
            other = applied(job, candidate.settings)
        except SimsysError:
            continue
        tried += 1
        assert (other.global_batch_size != job.global_batch_size) == (OTHER_BATCH in candidate.note), candidate
    assert tried > 20


def test_every_resource_has_remedies_for_a_rich_scenario() -> None:
    assert {kind for kind, _ in candidates(SimulationConfig(**RICH))} == set(TRAINING)


@pytest.mark.parametrize(("clients", "seats", "proposed"), [(64, 16, True), (64, 64, False), (64, 256, False)])
def test_more_seats_than_clients_are_not_proposed(clients: int, seats: int, proposed: bool) -> None:
    arrivals = {"kind": "closed_loop", "concurrency": clients}
    workload = {"arrivals": arrivals, "prompt_tokens": 64, "output_tokens": 8, "num_requests": 500}
    serving = {"max_num_seqs": seats}
    config = SimulationConfig(hardware={"gpu": "H100-SXM"}, **MODEL, serving=serving, workload=workload)
    job = build_job(config)
    assert isinstance(job, ServingJob)
    assert bool(list(more_sequences(job))) == proposed
