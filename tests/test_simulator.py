"""The facade: a scenario in, the same result out, every time and at both levels of detail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig, UsageError
from simsys.metrics.result import RunResult
from simsys.ops import Collective, Operation
from simsys.probes import Probe
from tests.helpers.places import ROOT

AGREEMENT = 1e-9

TRAINING: dict[str, dict[str, Any]] = {
    "alone": {"hardware": {"gpu": "A100-SXM-80GB"}},
    "ddp": {"hardware": {"profile": "dgx-a100"}, "parallelism": {"strategy": "DDP"}},
    "ddp-accumulation": {
        "hardware": {"profile": "dgx-h100", "gpus_per_node": 4},
        "parallelism": {"strategy": "DDP"},
        "training": {"batch_size_per_gpu": 1, "num_iterations": 3, "gradient_accumulation_steps": 3},
    },
    "ddp-nodes": {
        "hardware": {"profile": "dgx-a100", "num_nodes": 4, "gpus_per_node": 1},
        "parallelism": {"strategy": "DDP"},
    },
    "tp": {"hardware": {"profile": "dgx-a100", "gpus_per_node": 4}, "parallelism": {"strategy": "TP", "tp_degree": 4}},
}
SERVING: dict[str, dict[str, Any]] = {
    "one": {"hardware": {"gpu": "H100-SXM"}},
    "tp2": {
        "hardware": {"profile": "dgx-h100", "gpus_per_node": 2},
        "parallelism": {"strategy": "TP", "tp_degree": 2},
    },
    "tp4": {
        "hardware": {"profile": "dgx-h100", "gpus_per_node": 4},
        "parallelism": {"strategy": "TP", "tp_degree": 4},
    },
    "replicas": {"hardware": {"profile": "dgx-h100", "gpus_per_node": 2}},
    "crowded": {
        "hardware": {"gpu": "H100-SXM"},
        "serving": {
            "max_num_seqs": 64,
            "max_num_batched_tokens": 256,
            "gpu_memory_utilization": 0.218,
            "scheduler_reserve_full_isl": False,
        },
    },
}


def training_config(name: str = "ddp", **simulation: Any) -> SimulationConfig:
    scenario = {
        "name": name,
        "model": {"name": "GPT2-Small"},
        "training": {"batch_size_per_gpu": 2, "num_iterations": 3},
        **TRAINING[name],
    }
    return SimulationConfig(**scenario, simulation=simulation)


def serving_config(name: str = "one", **simulation: Any) -> SimulationConfig:
    scenario = {
        "name": name,
        "model": {"name": "Llama3-8B"},
        "serving": {},
        "workload": {
            "arrivals": {"kind": "poisson", "rate": "20 req/s"},
            "prompt_tokens": {"kind": "lognormal", "mean": 512},
            "output_tokens": {"kind": "lognormal", "mean": 48},
            "num_requests": 60,
        },
        **SERVING[name],
    }
    return SimulationConfig(**scenario, simulation=simulation)


def run(config: SimulationConfig) -> RunResult:
    return DistributedAISimulator(config).run()


def gap(one: RunResult, other: RunResult) -> float:
    """Largest relative difference of any time or figure; anything that is no float must be equal."""
    largest = 0.0
    columns = [(*pair,) for key in one.rows for pair in zip(one.rows[key], other.rows[key], strict=True)]
    for a, b in [*columns, *((one.metrics[key], other.metrics[key]) for key in one.metrics)]:
        if isinstance(a, float) and isinstance(b, float):
            largest = max(largest, abs(a - b) / max(abs(a), abs(b), 1e-6))
        else:
            assert a == b
    return largest


@pytest.mark.parametrize("name", TRAINING)
def test_the_levels_agree_on_training(name: str) -> None:
    high, medium = (run(training_config(name, lod=lod)) for lod in ("high", "medium"))
    assert gap(high, medium) <= AGREEMENT
    assert medium.events < high.events or name == "alone"


@pytest.mark.parametrize("name", SERVING)
def test_the_levels_agree_on_every_request(name: str) -> None:
    high, medium = (run(serving_config(name, lod=lod)) for lod in ("high", "medium"))
    assert gap(high, medium) <= AGREEMENT
    assert medium.events < high.events
    assert bool(medium.metrics["preemptions"]) == (name == "crowded")


def test_a_training_result() -> None:
    result = run(training_config())
    assert (result.kind, result.lod, result.contention) == ("training", "medium", "fair (max-min), none met")
    assert result.metrics["iterations"] == len(result.rows["iteration_s"]) == 3
    assert result.metrics["num_gpus"] == 8
    assert 0.0 < result.metrics["mfu"] < 1.0
    assert result.simulated_s == pytest.approx(sum(result.rows["iteration_s"]))
    assert result.metrics["peak_memory_bytes"] == pytest.approx(sum(result.memory_bytes.values()))
    assert result.assumptions


def test_a_serving_result() -> None:
    result = run(serving_config())
    assert result.kind == "serving"
    assert result.metrics["completed"] == 60
    assert set(result.rows["state"]) == {"completed"}
    assert result.simulated_s == pytest.approx(max(result.rows["finished_s"]), rel=1e-12)
    assert result.metrics["total_output_tokens"] == sum(result.rows["output_tokens"])
    times = zip(
        *(result.rows[name] for name in ("arrival_s", "admitted_s", "first_token_s", "finished_s")), strict=True
    )
    assert all(arrival <= admitted < first <= finished for arrival, admitted, first, finished in times)


@pytest.mark.parametrize("config", [training_config(), serving_config()], ids=["training", "serving"])
def test_a_run_can_be_repeated(config: SimulationConfig) -> None:
    simulator = DistributedAISimulator(config)
    assert simulator.result is None
    first, second = simulator.run(), simulator.run()
    assert first.as_dict() == second.as_dict()
    assert first.rows == second.rows
    assert simulator.result is second


@pytest.mark.parametrize("config", [training_config(), serving_config()], ids=["training", "serving"])
def test_the_summary_begins_with_the_answer_and_runs_only_if_needed(config: SimulationConfig) -> None:
    simulator = DistributedAISimulator(config)
    summary = simulator.get_summary()
    assert summary.startswith(f"{config.name}: ")
    result = simulator.result
    assert simulator.get_summary() == summary
    assert simulator.result is result


@pytest.mark.parametrize(
    ("config", "rows"),
    [(training_config(), "iterations"), (serving_config(), "requests")],
    ids=["training", "serving"],
)
def test_exported_results_are_those_of_the_run(config: SimulationConfig, rows: str, tmp_path: Path) -> None:
    simulator = DistributedAISimulator(config)
    files = {file.name: file for file in simulator.export_results(tmp_path)}
    name = config.name
    assert files.keys() >= {f"{name}_config.yaml", f"{name}_results.json", f"{name}_{rows}.csv"}
    assert all(file.parent == tmp_path / name for file in files.values())
    assert simulator.result is not None
    written = json.loads(files[f"{name}_results.json"].read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(simulator.result.as_dict()))
    again = SimulationConfig.from_yaml(files[f"{name}_config.yaml"])
    assert run(again).as_dict() == simulator.result.as_dict()


def test_events_are_collected_if_asked_for() -> None:
    silent, told = (DistributedAISimulator(training_config(collect_events=collect)) for collect in (False, True))
    rows, told_rows = silent.run().rows, told.run().rows
    for name, column in rows.items():  # equal iterations are told of, unless somebody watches: equal but for rounding
        assert list(column) == pytest.approx(list(told_rows[name]), rel=1e-12), name
    assert silent.engine.event_history == []
    history = told.engine.event_history
    kinds = [event.event_type for event in history if event.node_id == 0]
    assert kinds.count("ITERATION_START") == kinds.count("ITERATION_END") == 3
    assert kinds.count("ALLREDUCE_START") == kinds.count("ALLREDUCE_END") > 0
    assert [event.timestamp for event in history] == sorted(event.timestamp for event in history)


def test_further_probes_hear_the_run() -> None:
    class Exchanges(Probe):
        def __init__(self) -> None:
            self.nbytes = 0.0

        def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
            if isinstance(op, Collective):
                self.nbytes += op.nbytes

    probe = Exchanges()
    result = DistributedAISimulator(training_config(), probes=[probe]).run()
    assert probe.nbytes == pytest.approx(3 * result.memory_bytes["gradients"])


def test_what_does_not_fit_together_is_refused() -> None:
    config = SimulationConfig(
        hardware={"profile": "dgx-a100"},
        model={"name": "GPT2-Small"},
        parallelism={"strategy": "DDP", "dp_degree": 3},
        training={"batch_size_per_gpu": 2},
    )
    with pytest.raises(UsageError, match="= 3, the cluster has 8 GPUs"):
        run(config)


def written(seed: int) -> str:
    results = [run(serving_config("crowded", seed=seed)), run(training_config(seed=seed, lod="high"))]
    rows = [{name: list(column) for name, column in result.rows.items()} for result in results]
    return json.dumps([[result.as_dict(), columns] for result, columns in zip(results, rows, strict=True)])


def in_a_fresh_process(hash_seed: str, seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    program = "from tests import test_simulator as test; print(test.written({}))"
    command = [sys.executable, "-c", program.format(seed)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


def test_a_seed_gives_the_same_bytes_in_every_process_and_another_seed_does_not() -> None:
    first = written(seed=1)  # with a hash seed that is drawn for this process
    assert in_a_fresh_process("1", seed=1) == first
    other = json.loads(written(seed=2))
    serving, training = json.loads(first)
    assert other[0] != serving
    assert other[1] == training, "nothing in training is drawn at random"


def test_collectives_across_nodes_take_the_same_time_at_both_levels() -> None:
    config = {
        "hardware": {"profile": "dgx-h100", "num_nodes": 2},
        "model": {"name": "GPT2-Small"},
        "parallelism": {"strategy": "DDP"},
        "training": {"batch_size_per_gpu": 2, "num_iterations": 2},
    }
    high, medium = (
        DistributedAISimulator(SimulationConfig(**config, simulation={"lod": lod})).run() for lod in ("high", "medium")
    )
    assert high.metrics["mean_iteration_s"] == pytest.approx(medium.metrics["mean_iteration_s"], rel=1e-9)
    nics = [nbytes for kind, nbytes in zip(high.links["kind"], high.links["nbytes"], strict=True) if kind == "nic"]
    assert len(nics) == 2 * 2 * 8
    assert max(nics) == pytest.approx(min(nics)), "all NICs carry the same"
