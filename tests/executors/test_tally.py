"""The communication graph of a run: the same at both levels of detail, iterations that are told included."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.config.experiment import SimulationConfig
from simsys.executors import LEVELS
from simsys.probes import Probes
from simsys.simulation import simulate
from tests.agreement.test_training_mixes import ITERATIONS, config_of


def traffic(config: SimulationConfig) -> dict[tuple[int, int], float]:
    """Bytes from GPU to GPU."""
    settings = config.simulation.model_copy(update={"collect_events": True})
    graph = simulate(config.model_copy(update={"simulation": settings})).traffic
    return {(src, dst): nbytes for src, dst, nbytes in zip(*graph.values(), strict=True)}


MIXES: list[dict[str, Any]] = [
    {"data": 4},
    {"data": 4, "strategy": "FSDP"},
    {"data": 4, "strategy": "ZERO2"},
    {"tensor": 4, "data": 2},
    {"tensor": 4, "sequence_parallel": True, "tp_overlap": True},
    {"context": 2, "data": 2},
    {"stages": 4, "schedule": "gpipe"},
    {"tensor": 2, "stages": 2, "data": 2},
    {"tensor": 2, "stages": 2, "data": 2, "order": "pp-dp-tp"},
    {"tensor": 2, "stages": 2, "data": 2, "sequence_parallel": True, "scatter_gather": True},
    {"tensor": 2, "context": 2, "stages": 2, "data": 2, "schedule": "interleaved", "virtual_stages": 3},
]


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: "-".join(f"{key}={value}" for key, value in mix.items()))
def test_both_levels_send_the_same_from_everyone_to_everyone(mix: dict[str, Any]) -> None:
    mix = {"tensor": 1, "stages": 1, "data": 1, **mix}
    high, medium = traffic(config_of(lod="high", **mix)), traffic(config_of(lod="medium", **mix))
    assert high
    assert medium == pytest.approx(high, rel=1e-9)


def test_a_ring_of_replicas_sends_each_share_of_the_gradients_twice_but_for_one() -> None:
    config = config_of(1, 1, 4)
    gradients = build_job(config).memory_bytes["gradients"]
    graph = traffic(config)
    assert graph.keys() == {(rank, (rank + 1) % 4) for rank in range(4)}
    assert list(graph.values()) == pytest.approx([ITERATIONS * 2 * 3 / 4 * gradients] * 4)


@pytest.mark.parametrize("mix", [{"data": 4}, {"tensor": 2, "stages": 2, "data": 2}], ids=str)
def test_iterations_that_are_told_and_not_simulated_count(mix: dict[str, Any]) -> None:
    def unobserved(iterations: int) -> tuple[dict[str, list[Any]], int]:
        config = config_of(**{"tensor": 1, "stages": 1, "data": 1, **mix})
        assert config.training is not None
        training = config.training.model_copy(update={"num_iterations": iterations})
        job = build_job(config.model_copy(update={"training": training}))
        platform = job.cluster.platform()
        job.start(LEVELS["medium"](platform, job.execution_model(), job.roles(), Probes([job.collector()])))
        platform.env.run()
        return platform.traffic(), platform.env.events_scheduled

    (few, events_of_few), (many, events_of_many) = unobserved(3), unobserved(30)
    assert events_of_many == events_of_few
    assert many == {**few, "nbytes": pytest.approx([10 * nbytes for nbytes in few["nbytes"]], rel=1e-12)}


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_both_levels_send_the_same_in_serving(tensor: int) -> None:
    def config(lod: str) -> SimulationConfig:
        return SimulationConfig(
            hardware={"profile": "dgx-h100", "gpus_per_node": tensor},
            model={"name": "Llama3-8B"},
            parallelism={"strategy": "TP", "tp_degree": tensor} if tensor > 1 else {},
            serving={},
            workload={
                "arrivals": {"kind": "constant", "rate": "20 req/s"},
                "prompt_tokens": 100,
                "output_tokens": 20,
                "num_requests": 10,
            },
            simulation={"lod": lod},
        )

    high, medium = traffic(config("high")), traffic(config("medium"))
    assert bool(high) == (tensor > 1)
    assert medium == pytest.approx(high, rel=1e-9)
