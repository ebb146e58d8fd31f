"""Profiles of nodes and GPUs: inline or beside the experiment, and what they take over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.build.cluster import Cluster, build_cluster
from simsys.build.profiles import hardware_profiles, profiles_of
from simsys.check import check_config
from simsys.config.cluster import HardwareConfig
from simsys.config.hardware import load_gpu
from simsys.config.network import NetworkConfig
from simsys.errors import ConfigError

TRAINING: dict[str, Any] = {
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 1},
}
SERVING: dict[str, Any] = {
    "model": {"name": "GPT2-Small"},
    "serving": {},
    "workload": {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 4, "output_tokens": 2, "num_requests": 1},
}


def built(**hardware: Any) -> Cluster:
    return build_cluster(HardwareConfig(**hardware), NetworkConfig())


def problems(hardware: dict[str, Any]) -> list[tuple[str, str]]:
    found = check_config(SimulationConfig(hardware=hardware, **TRAINING))
    return [(problem.path, problem.message) for problem in found]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Profiles beside an experiment, some in a folder of their own."""
    texts = {
        "gpus/mine": "extends: H100-SXM\nmemory: 96 GB\nprice: 2 $/h\n",
        "nodes/box": "extends: dgx-h100\ngpu: mine\nnics: {count: 4}\n",
        "hardware_profiles/engines/slow": "extends: vllm\nper_step: 90 ms\n",
        "hardware_profiles/fabrics/wire": "extends: infiniband-ndr\nbandwidth: 10 GB/s\n",
    }
    for name, text in texts.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


# --- inline ---


def test_a_node_profile_may_be_written_inline() -> None:
    nics = {"count": 2, "bandwidth": "10 GB/s"}
    cluster = built(profile={"extends": "dgx-h100", "nics": nics, "price": "16 $/h"}, num_nodes=2)
    assert cluster.network_text.startswith("network: 2 x 10 GB/s NICs per node (1.2 us each)")
    assert cluster.usd_per_gpu_hour == 2.0
    assert cluster.gpu.name == "H100-SXM"


def test_each_kind_of_node_may_be_written_inline() -> None:
    slow = {"extends": "dgx-h100", "nics": {"bandwidth": "10 GB/s"}}
    cluster = built(nodes=[{"profile": "dgx-h100"}, {"profile": slow, "count": 2}])
    assert cluster.num_nodes == 3
    assert "8 x 48 GB/s or 8 x 10 GB/s NICs" in cluster.network_text


def test_a_fabric_and_an_exception_may_be_written_inline() -> None:
    own = {"extends": "H100", "memory": "40 GB"}
    cluster = built(
        profile="dgx-h100",
        num_nodes=2,
        fabric={"extends": "infiniband-ndr", "bandwidth": "20 GB/s", "latency": "2 us"},
        exceptions=[{"gpus": [1], "gpu": own}, {"gpus": [3], "gpu": dict(own)}],
    )
    assert "8 x 20 GB/s NICs" in cluster.network_text
    assert cluster.network_text.endswith("2 us per link")
    assert {gpu: spec.memory_bytes for gpu, spec in cluster.exceptions.items()} == {1: 40e9, 3: 40e9}
    assert cluster.exceptions[1] is cluster.exceptions[3]


def test_beside_a_node_profile_settings_of_a_gpu_change_the_gpu_of_the_node() -> None:
    gpu = built(profile="dgx-h100", gpu={"price": "2.5 $/h", "peak": {"bf16": "1750 TFLOP/s"}}).gpu
    assert gpu.name == "H100-SXM (changed)"
    assert (gpu.price and gpu.price.usd_per_hour, gpu.peak["bf16"].dense) == (2.5, 1.75e15)
    assert gpu.sources["peak.bf16"] == "user"
    other = built(profile="dgx-h100", gpu={"extends": "H200", "price": "1 $/h"})
    assert (other.gpu.name, other.usd_per_gpu_hour) == ("H200-SXM (changed)", 1.0)


def test_the_price_of_a_gpu_in_the_experiment_replaces_that_of_a_node_unless_both_stand_there() -> None:
    assert built(profile={"extends": "dgx-h100", "price": "80 $/h"}).usd_per_gpu_hour == 10.0
    assert built(profile={"extends": "dgx-h100", "price": "80 $/h"}, gpu="H100").usd_per_gpu_hour == 10.0
    both = {"profile": {"extends": "dgx-h100", "price": "80 $/h"}, "gpu": {"price": "2 $/h"}}
    assert problems(both) == [
        ("hardware.gpu.price", "the node has a price too; give the price of the node or of a GPU")
    ]


@pytest.mark.parametrize(
    ("hardware", "path", "message"),
    [
        ({"profile": {"extends": "dgx-h1"}}, "hardware.profile", "unknown node profile 'dgx-h1'"),
        (
            {"profile": {"extends": "dgx-h100", "nics": {"cout": 1}}},
            "hardware.profile.nics.cout",
            "did you mean 'count'",
        ),
        ({"profile": {"nics": {"count": 1}}}, "hardware.profile", "without 'extends' lacks gpu, gpus_per_node, "),
        ({"gpu": {"memory": "1 GB"}}, "hardware.gpu", "a gpu profile without 'extends' lacks vendor, peak, "),
        (
            {"nodes": [{"profile": "dgx-h100"}, {"profile": {"extends": "dgx-h100", "gpus_per_node": "8"}}]},
            "hardware.nodes[1].profile.gpus_per_node",
            "a whole number is needed",
        ),
        ({"gpu": "H100", "fabric": {"extends": "ndr"}}, "hardware.fabric", "unknown fabric profile 'ndr'"),
        (
            {"gpu": "H100", "exceptions": [{"gpus": [0], "gpu": {"extends": "H100", "memory": "1"}}]},
            "hardware.exceptions[0].gpu.memory",
            "has no unit",
        ),
    ],
)
def test_a_mistake_inside_an_inline_profile_is_one_problem_at_its_place(
    hardware: dict[str, Any], path: str, message: str
) -> None:
    ((found, text),) = problems(hardware)
    assert found.removesuffix(".extends") == path
    assert message in text


def test_a_whole_gpu_beside_a_node_takes_nothing_from_the_gpu_of_the_node() -> None:
    own = load_gpu("L4").model_dump(mode="json", exclude={"sources", "fits", "price", "kernel_gap"}, exclude_none=True)
    cluster = built(profile="dgx-a100", gpu={**own, "name": "card", "nccl": "ampere"})
    assert (cluster.gpu.name, cluster.gpu.price, cluster.gpu.kernel_gap) == ("card", None, None)
    assert cluster.origins == ()


@pytest.mark.parametrize(
    ("gpu", "path"),
    [
        ({"link": {"bandwidth": "900 GB/s"}}, "hardware.gpu.link"),
        ({"extends": "H100", "link": {"latency": "1 us"}}, "hardware.gpu.link"),
        ({"host": {"memory_bandwidth": "1 TB/s"}}, "hardware.gpu.host"),
    ],
)
def test_what_a_node_decides_is_refused_of_its_gpu(gpu: dict[str, Any], path: str) -> None:
    ((found, message),) = problems({"profile": "dgx-h100", "gpu": gpu})
    assert found == path
    assert "of dgx-h100" in message
    assert problems({"gpu": {"extends": "H100", **gpu}, "gpus_per_node": 2}) == []


def test_kinds_of_nodes_with_unequal_numbers_of_gpus_are_called_by_their_names() -> None:
    small = {"extends": "dgx-h100", "name": "half", "gpus_per_node": 4}
    with pytest.raises(ConfigError, match="a half has 4 GPUs and a dgx-h100 has 8"):
        built(nodes=[{"profile": "dgx-h100"}, {"profile": small}])


# --- beside the experiment ---


def test_profiles_of_all_kinds_are_found_beside_the_experiment(folder: Path) -> None:
    config = SimulationConfig(
        **{**SERVING, "hardware": {"profile": "box", "num_nodes": 2, "fabric": "wire"}, "serving": {"engine": "slow"}}
    )
    assert [problem.path for problem in check_config(config)] == [
        "hardware.profile",
        "hardware.fabric",
        "serving.engine",
    ]
    config.located_in(folder)
    assert check_config(config) == []
    result = DistributedAISimulator(config).run()
    assert any(line.startswith("network: 4 x 10 GB/s NICs per node") for line in result.assumptions)
    assert any(line.startswith("engine profile slow") for line in result.assumptions)
    assert result.metrics["mean_tpot_ms"] > 20


def test_a_folder_of_profiles_may_be_named_and_must_hold_some(folder: Path, tmp_path: Path) -> None:
    there = {"profile": "box", "profile_folder": "."}
    assert check_config(SimulationConfig(hardware=there, **TRAINING).located_in(folder)) == []
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere"):
        config = SimulationConfig(hardware={**there, "profile_folder": name}, **TRAINING).located_in(tmp_path)
        paths = [problem.path for problem in check_config(config)]
        assert paths == ["hardware.profile_folder", "hardware.profile"]
        with pytest.raises(ConfigError, match=r"hardware\.profile_folder: .* is no folder that has gpus"):
            DistributedAISimulator(config).run()


def test_the_profiles_of_a_scenario_are_listed_each_once(folder: Path) -> None:
    hardware = {"nodes": [{"profile": "box"}, {"profile": "box"}], "exceptions": [{"gpus": [0], "gpu": "L4"}]}
    config = SimulationConfig(hardware=hardware, **TRAINING).located_in(folder)
    assert list(profiles_of(config)) == [
        ("node", "box"),
        ("gpu", "mine"),
        ("gpu", "L4"),
        ("fabric", "infiniband-hdr"),
        ("engine", "pytorch"),
    ]
    assert list(hardware_profiles(HardwareConfig(gpu="H100"), ())) == [("gpu", "H100")]


# --- what they take over ---


@pytest.mark.parametrize("work", [SERVING, TRAINING], ids=["serving", "training"])
def test_an_answer_says_what_a_gpu_takes_over_from_the_one_it_extends(work: dict[str, Any]) -> None:
    hardware = {"gpu": {"extends": "H100", "memory": "96 GB", "price": "2 $/h"}}
    lines = DistributedAISimulator(SimulationConfig(hardware=hardware, **work)).run().assumptions
    said = "GPU H100-SXM (changed) takes over from H100-SXM: efficiencies, kernel overheads, NCCL constants"
    assert lines.count(said) == 1
    plain = DistributedAISimulator(SimulationConfig(hardware={"gpu": "H100"}, **work)).run().assumptions
    assert not any("takes over" in line for line in plain)


def test_nodes_and_shipped_profiles_say_it_too() -> None:
    assert built(profile="dgx-b300").origins[0] == "node dgx-b300 takes over from dgx-b200: interconnect, host"
    own = {"extends": "dgx-h100", "name": "lab", "nics": {"count": 1, "bandwidth": "1 GB/s", "latency": "1 us"}}
    priced = built(profile={"extends": "dgx-h100", "price": "8 $/h"}, gpu={"memory": "96 GB"}).origins
    assert (
        priced[1] == "GPU H100-SXM (changed) takes over from H100-SXM: efficiencies, kernel overheads, NCCL constants"
    )
    assert built(profile=own).origins == ("node lab takes over from dgx-h100: interconnect, host",)
