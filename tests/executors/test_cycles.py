"""Micro-batches that are left out change no result."""

from __future__ import annotations

import random
from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.config.parallelism import STRATEGY_PARTS
from simsys.errors import SimsysError
from simsys.executors.cycles import Cycles
from simsys.metrics.result import RunResult
from simsys.probes import Probe
from simsys.simulation import simulate
from tests.helpers.thorough import cases


def scenario(seed: int) -> SimulationConfig:
    draw = random.Random(seed)
    tensor, context, stages = draw.choice([1, 1, 2]), draw.choice([1, 1, 2]), draw.choice([1, 1, 2, 4])
    nodes, gpus = draw.choice([1, 2, 3]), draw.choice([4, 8])
    data = nodes * gpus // (tensor * context * stages)
    kind = draw.choice(["FSDP", "FSDP", "HSDP", "ZERO2", "ZERO1", "DDP"])
    schedule = draw.choice(["1f1b", "interleaved", "zero_bubble", "gpipe"]) if stages > 1 else "1f1b"
    used = {"TP": tensor > 1, "CP": context > 1, "PP": stages > 1, kind: data * context > 1}
    return SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-h100", "num_nodes": nodes, "gpus_per_node": gpus},
            "network": draw.choice([{}, {}, {"topology_type": "ring"}]),
            "model": {"name": "GPT2-Small"},
            "parallelism": {
                "strategy": "_".join(part for part in STRATEGY_PARTS if used.get(part)) or "None",
                "tp_degree": tensor,
                "cp_degree": context,
                "pp_stages": stages,
                "dp_degree": data,
                "schedule": schedule,
                "virtual_stages": draw.choice([2, 3]) if schedule == "interleaved" else 1,
                "sequence_parallel": tensor > 1 and draw.random() < 0.5,
            },
            "training": {
                "batch_size_per_gpu": draw.choice([1, 2, 4]),
                "gradient_accumulation_steps": draw.choice([6, 8, 12, 16, 24]),
                "num_iterations": draw.choice([1, 3]),
                "engine": draw.choice(["pytorch", "megatron"]),
                "activation_recompute": draw.choice(["none", "selective", "full"]),
            },
            "simulation": {"occupy_links": draw.choice(["auto", True])},
        }
    )


FOLDED = SimulationConfig.model_validate(
    {
        "hardware": {"profile": "dgx-h100", "num_nodes": 2, "gpus_per_node": 4},
        "model": {"name": "GPT2-Small"},
        "parallelism": {
            "strategy": "CP_PP_FSDP",
            "cp_degree": 2,
            "pp_stages": 2,
            "dp_degree": 2,
            "schedule": "interleaved",
            "virtual_stages": 2,
        },
        "training": {"batch_size_per_gpu": 2, "gradient_accumulation_steps": 32, "num_iterations": 2},
    }
)


@pytest.fixture
def every_cycle(monkeypatch: pytest.MonkeyPatch):
    """Simulates a scenario with all its micro-batches."""

    def run(config: SimulationConfig) -> RunResult:
        begin = Cycles.begin
        with monkeypatch.context() as patch:
            patch.setattr(Cycles, "begin", lambda self, *, wanted: begin(self, wanted=False))
            return simulate(config)

    return run


def alike(value: Any, other: Any, second: float) -> bool:
    if isinstance(value, float) and isinstance(other, float):
        return value == pytest.approx(other, rel=1e-9, abs=1e-9 * second, nan_ok=True)
    return bool(value == other)


def assert_equal(some: RunResult, other: RunResult) -> None:
    second = other.metrics["mean_iteration_s"]
    tables = ["rows", "ranks", "links", "gpus", "memory_bytes"]
    for name in other.metrics:
        assert alike(some.metrics[name], other.metrics[name], second), name
    for table in tables:
        columns, others = getattr(some, table), getattr(other, table)
        assert columns.keys() == others.keys()
        for name, column in others.items():
            cells = column if isinstance(column, list) else [column]
            mine = columns[name] if isinstance(columns[name], list) else [columns[name]]
            assert len(mine) == len(cells), (table, name)
            assert all(alike(a, b, second) for a, b in zip(mine, cells, strict=True)), (table, name)
    assert (some.contention, some.warnings) == (other.contention, other.warnings)


@pytest.mark.parametrize("seed", range(cases(80)))
def test_results_are_those_of_all_micro_batches(seed, every_cycle):
    config = scenario(seed)
    try:
        found = simulate(config)
    except SimsysError:
        pytest.skip("no layout")
    assert_equal(found, every_cycle(config))


@pytest.mark.parametrize("kind", ["FSDP", "HSDP", "ZERO2", "ZERO1", "DDP"])
def test_few_micro_batches_are_simulated(kind, every_cycle):
    """Where a program is folded, the messages of passes after it have the numbers that receivers expect."""
    config = FOLDED.with_({"parallelism.strategy": f"CP_PP_{kind}", "simulation.occupy_links": True})
    found, whole = simulate(config), every_cycle(config)
    assert_equal(found, whole)
    assert found.events < 0.5 * whole.events


@pytest.mark.parametrize("lod", ["medium", "high"])
def test_observers_hear_of_all_micro_batches(lod, every_cycle):
    class Forwards(Probe):
        def __init__(self) -> None:
            self.count = 0

        def mark(self, rank: int, name: str, now_s: float) -> None:
            self.count += rank == 0 and name == "forward"

    observer = Forwards()
    simulate(FOLDED.with_({"simulation.lod": lod}), [observer])
    assert observer.count == 128  # 32 micro-batches through two chunks in each of two iterations
