"""Replays: the round trip, times of hand-made traces, and scaling to other GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simsys.chakra.export import export_traces
from simsys.chakra.nodes import ChakraNode, NodeType
from simsys.chakra.replay import replay
from simsys.check import sound
from simsys.config.experiment import SimulationConfig
from simsys.errors import ConfigError, InfeasibleError, TraceError
from tests.helpers.chakra_toys import HARDWARE, collective, compute, exported, receive, replay_config, send, write
from tests.helpers.random_scenarios import training_scenario

TWO_NODES = {"profile": "dgx-a100", "num_nodes": 2, "gpus_per_node": 4}
LAYOUTS: dict[str, dict[str, Any]] = {
    "ddp": {"parallelism": {"strategy": "DDP"}},
    "fsdp": {
        "parallelism": {"strategy": "FSDP"},
        "training": {"batch_size_per_gpu": 1, "options": {"offload": "parameters"}},
    },
    "pipeline": {
        "parallelism": {
            "strategy": "TP_PP_ZERO1",
            "tp_degree": 2,
            "pp_stages": 2,
            "schedule": "interleaved",
            "virtual_stages": 2,
        },
        "training": {"batch_size_per_gpu": 1, "gradient_accumulation_steps": 4},
    },
    "context": {
        "parallelism": {
            "strategy": "TP_CP_DDP",
            "tp_degree": 2,
            "sequence_parallel": True,
            "tp_overlap": True,
            "cp_degree": 2,
        }
    },
    "data": {"training": {"batch_size_per_gpu": 1, "data_loading": {"time": "5 ms", "prefetch": False}}},
}


def mean_s(config: Any) -> float:
    return float(replay(config).metrics["mean_iteration_s"])


@pytest.mark.parametrize("contention", ["fair", "fifo"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_round_trip_keeps_the_time_of_an_iteration(tmp_path: Path, name: str, contention: str) -> None:
    network = {"contention": contention}
    found = exported(hardware=TWO_NODES, network=network, **LAYOUTS[name])
    found.write(tmp_path, compressed=contention == "fifo")
    config = replay_config(tmp_path / "small", TWO_NODES).with_({"network.contention": contention})
    assert mean_s(config) == pytest.approx(found.iteration_s, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_round_trip_of_random_scenarios_keeps_the_time(tmp_path: Path, seed: int) -> None:
    data = training_scenario(seed)
    data["simulation"]["lod"] = "high"
    try:
        built = sound(SimulationConfig.model_validate(data))
    except (ConfigError, InfeasibleError, ValueError):
        pytest.skip("this scenario cannot be simulated")
    found = export_traces(built)
    found.write(tmp_path)
    hardware = {key: value for key, value in data["hardware"].items() if key != "jitter"}
    config = replay_config(tmp_path / found.name, hardware)
    config = config.model_copy(update={"network": built.config.network})
    # Links that serve in turn have to choose where transfers come at the same moment.
    in_turn = "fifo" in (data["network"].get("contention"), data["network"].get("switching"))
    assert mean_s(config) == pytest.approx(found.iteration_s, rel=1e-3 if in_turn else 1e-9)


def test_replays_follow_each_other(tmp_path: Path) -> None:
    prefix = write(tmp_path, [compute(0, 100), compute(1, 50, 0)])
    result = replay(replay_config(prefix, iterations=3))
    assert result.rows["iteration_s"] == pytest.approx([150e-6] * 3)
    assert result.simulated_s == pytest.approx(450e-6)
    assert result.metrics["gpu_utilization"] == pytest.approx(1.0)


def test_a_gpu_does_one_computation_at_a_time_and_the_host_works_beside_it(tmp_path: Path) -> None:
    prefix = write(tmp_path, [compute(0, 100), compute(1, 50), compute(2, 120, is_cpu_op=True)])
    assert mean_s(replay_config(prefix)) == pytest.approx(150e-6)


def test_a_message_needs_latency_and_bandwidth(tmp_path: Path) -> None:
    def replayed(nbytes: int) -> float:
        return mean_s(replay_config(write(tmp_path, [compute(0, 10), send(1, 1, nbytes, 0)], [receive(0, 0)])))

    assert replayed(2 * 10**9) - replayed(10**9) == pytest.approx(10**9 / 370.8e9, rel=1e-3)
    assert replayed(1) == pytest.approx(10e-6 + 2 * 300e-9, rel=1e-2)


def test_a_collective_starts_with_its_last_member(tmp_path: Path) -> None:
    nodes = [[compute(0, micros), collective(1, 10**6, 0)] for micros in (10, 500)]
    late = replay(replay_config(write(tmp_path, *nodes)))
    alone = mean_s(replay_config(write(tmp_path, *([collective(0, 10**6)] for _ in range(2)))))
    assert late.metrics["mean_iteration_s"] == pytest.approx(500e-6 + alone)
    assert late.metrics["idle_s"] == pytest.approx(490e-6)  # of rank 0
    assert late.metrics["exposed_data_s"] == pytest.approx(alone)


def test_an_all_gather_of_shards_is_one_of_their_sum(tmp_path: Path) -> None:
    gathers = write(tmp_path, *([collective(0, 10**8, kind=2)] for _ in range(2)))
    scatters_s = mean_s(replay_config(write(tmp_path, *([collective(0, 2 * 10**8, kind=7)] for _ in range(2)))))
    gathers = write(tmp_path, *([collective(0, 10**8, kind=2)] for _ in range(2)))
    assert mean_s(replay_config(gathers)) == pytest.approx(scatters_s, rel=0.01)


def test_groups_come_from_the_file_beside_the_traces(tmp_path: Path) -> None:
    (tmp_path / "t.comm_groups.json").write_text('{"7": [1, 0]}')
    prefix = write(tmp_path, *([collective(0, 10**6, pg_name="7")] for _ in range(2)))
    assert mean_s(replay_config(prefix)) > 0


def test_nodes_without_work_only_order_others(tmp_path: Path) -> None:
    chain = [ChakraNode(each, "", NodeType.METADATA, data_deps=(each - 1,) if each else ()) for each in range(5000)]
    assert mean_s(replay_config(write(tmp_path, [*chain, compute(5000, 7, 4999)]))) == pytest.approx(7e-6)


def test_control_dependencies_are_followed_on_request(tmp_path: Path) -> None:
    outer, inner = compute(0, 100, is_cpu_op=True), replace(compute(1, 40), ctrl_deps=(0,))
    prefix = write(tmp_path, [outer, inner])
    result = replay(replay_config(prefix))
    assert result.metrics["mean_iteration_s"] == pytest.approx(100e-6)
    assert result.warnings[0].startswith("control dependencies are not followed")
    everything = replay(replay_config(prefix, dependencies="all"))
    assert everything.metrics["mean_iteration_s"] == pytest.approx(140e-6)
    assert everything.warnings == []


def test_computations_scale_by_the_roofline(tmp_path: Path) -> None:
    bound = compute(0, 1000, num_ops=10**12, tensor_size=1), compute(1, 1000, 0, num_ops=1, tensor_size=10**9)
    prefix = write(tmp_path, bound, gpu="A100-SXM-80GB", dtype="bf16")
    scaled = mean_s(replay_config(prefix, compute="scaled"))
    assert scaled == pytest.approx(1e-3 * (312 / 989.4) + 1e-3 * (2.039 / 3.35), rel=0.01)


@pytest.mark.parametrize(
    ("metadata", "chakra", "reason"),
    [
        ({}, {}, "chakra.recorded_on: the traces do not state it"),
        ({"gpu": "H100-SXM"}, {}, "chakra.dtype: the traces do not state it"),
        ({"gpu": "H100-SXM", "dtype": "bf16"}, {"recorded_on": "H1000"}, "did you mean"),
        ({"gpu": "V100-SXM-32GB", "dtype": "bf16"}, {}, "V100-SXM-32GB has no bf16 arithmetic"),
        ({"gpu": "H100-SXM", "dtype": "bf16"}, {}, "node 0 .*needs num_ops or tensor_size"),
    ],
)
def test_what_cannot_be_scaled_is_refused(
    tmp_path: Path, metadata: dict[str, str], chakra: dict[str, str], reason: str
) -> None:
    prefix = write(tmp_path, [compute(0, 10)], **metadata)
    with pytest.raises((ConfigError, TraceError, Exception), match=reason):
        replay(replay_config(prefix, compute="scaled", **chakra))


def test_more_ranks_than_gpus_do_not_fit(tmp_path: Path) -> None:
    prefix = write(tmp_path, *([compute(0, 1)] for _ in range(3)))
    with pytest.raises(InfeasibleError, match="3 ranks, the cluster has 2 GPUs"):
        replay(replay_config(prefix, HARDWARE))


def test_jitter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="times of computations come from the traces"):
        replay_config(tmp_path, {**HARDWARE, "jitter": {"compute": 0.1}})
