"""Clusters with several kinds of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.analysis.scaling import ScalingStudyRunner
from simsys.build.cluster import build_cluster
from simsys.build.job import build_job
from simsys.check import check_config
from simsys.config.cluster import HardwareConfig
from simsys.config.experiment import SimulationConfig
from simsys.config.network import NetworkConfig
from simsys.errors import UsageError
from simsys.metrics.result import RunResult
from simsys.simulation import simulate
from tests.costs.test_jitter import assert_equal_rows
from tests.helpers.thorough import every_second

A100, H100, V100 = {"profile": "dgx-a100"}, {"profile": "dgx-h100"}, {"profile": "dgx-v100"}


def config_on(
    nodes: list[dict[str, Any]], lod: str = "medium", network: dict[str, Any] | None = None, **parallelism: Any
) -> SimulationConfig:
    return SimulationConfig(
        hardware={"nodes": nodes},
        network=network or {},
        model={"name": "GPT2-Medium"},
        parallelism=parallelism or {"strategy": "DDP"},
        training={
            "batch_size_per_gpu": 2,
            "gradient_accumulation_steps": 4,
            "num_iterations": 2,
            "communication_pattern": "ring",
            "precision": "fp16",
            # Groups of four leave the gradients links inside the nodes in common with tensor parallelism.
            "options": {"overlap": False} if parallelism.get("tp_degree") == 4 else {},
        },
        simulation={"lod": lod},
    )


def run(*args: Any, **kwargs: Any) -> RunResult:
    config = config_on(*args, **kwargs)
    assert check_config(config) == []
    return simulate(config)


def test_every_node_has_its_own_gpus_inside_and_network_cards() -> None:
    cluster = build_cluster(HardwareConfig(nodes=[{**A100, "count": 2}, V100]), NetworkConfig())
    assert [spec.name for spec in cluster.specs[::8]] == ["A100-SXM-80GB", "A100-SXM-80GB", "V100-SXM-32GB"]
    assert (cluster.num_nodes, cluster.num_gpus, cluster.num_nics) == (3, 24, 2 * 8 + 4)
    links = {(link.kind, link.bytes_per_s) for link in cluster.topology.links}
    alone = [build_cluster(HardwareConfig(**one, num_nodes=2), NetworkConfig()).topology for one in (A100, V100)]
    inside = {(link.kind, link.bytes_per_s) for one in alone for link in one.links if link.kind != "switch"}
    assert inside <= links


def test_one_group_of_nodes_is_a_cluster_of_that_profile() -> None:
    grouped = build_cluster(HardwareConfig(nodes=[{**H100, "count": 3}]), NetworkConfig())
    assert grouped.topology == build_cluster(HardwareConfig(**H100, num_nodes=3), NetworkConfig()).topology


TOPOLOGIES: list[dict[str, Any]] = [
    {"topology_type": "switch"},
    {"topology_type": "fat_tree"},
    {"topology_type": "rail_optimized"},
    {"topology_type": "ring"},
]


@pytest.mark.parametrize(
    ("network", "nodes"), every_second(TOPOLOGIES, [[A100, H100], [H100, V100], [V100, A100, H100, V100]])
)
def test_levels_agree_on_data_parallelism_over_all_kinds(nodes: list[dict[str, Any]], network: dict[str, Any]) -> None:
    assert_equal_rows(*(run(nodes, lod, network) for lod in ("high", "medium")))


MIXES: list[dict[str, Any]] = [
    {"strategy": "TP_DDP", "tp_degree": 8},
    {"strategy": "TP_DDP", "tp_degree": 4},
    {"strategy": "TP_PP", "tp_degree": 8, "pp_stages": 4},
    {"strategy": "TP_PP_DDP", "tp_degree": 8, "pp_stages": 2},
    {"strategy": "FSDP"},
    {"strategy": "HSDP"},
]


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: f"{mix['strategy']} {mix.get('tp_degree', 1)}")
def test_levels_agree_on_mixes_over_all_kinds(mix: dict[str, Any]) -> None:
    """One exchange at a time on every link: full rails."""
    nodes = [{**A100, "count": 2}, {**H100, "count": 2}]
    high, medium = (run(nodes, lod, {"topology_type": "rail_optimized"}, **mix) for lod in ("high", "medium"))
    assert_equal_rows(high, medium)


def test_groups_of_the_same_shape_on_other_nodes_are_not_folded_together() -> None:
    """Equal GPUs, but tensor-parallel groups on nodes with another inside: each kind is a role of its own."""
    gpus = [{"nodes": [0, 1], "gpu": "H100-SXM"}]
    config = SimulationConfig(
        **{
            **config_on([{**A100, "count": 2}, {**H100, "count": 2}], strategy="TP_DDP", tp_degree=8).model_dump(),
            "hardware": {"nodes": [{**A100, "count": 2}, {**H100, "count": 2}], "exceptions": gpus},
        }
    )
    job = build_job(config)
    assert len({spec.name for spec in job.cluster.specs}) == 1
    roles = job.roles()
    assert len(roles) > 1
    for role in roles:
        assert len({rank // 16 for rank in role}) == 1


def test_a_cluster_is_as_fast_as_its_slowest_nodes() -> None:
    fast, slow, mixed = (run(nodes).rows["iteration_s"][0] for nodes in ([H100] * 2, [A100] * 2, [A100, H100]))
    assert fast < slow
    assert mixed >= 0.99 * slow


def test_the_price_is_the_mean() -> None:
    price = [
        build_cluster(HardwareConfig(nodes=nodes), NetworkConfig()).usd_per_gpu_hour
        for nodes in ([A100], [H100], [A100, H100])
    ]
    assert price[2] == pytest.approx((price[0] + price[1]) / 2)


@pytest.mark.parametrize(
    ("hardware", "path", "message"),
    [
        ({"nodes": [H100, {"profile": "pcie-a6000-4"}]}, "hardware.nodes[1].profile", "uses 4 of each"),
        ({"nodes": [H100, {"profile": "dgx-h1000"}]}, "hardware.nodes[1].profile", "unknown node profile 'dgx-h1000'"),
        ({"nodes": [V100, H100]}, "training.precision", "does not compute in bf16"),
        ({"nodes": [H100, V100]}, "hardware.nodes", "V100-SXM-32GB has no bf16 arithmetic"),
        ({"nodes": [H100], "gpus_per_node": 9}, "hardware.nodes[0].profile", "has 8 GPUs, not 9"),
    ],
)
def test_nodes_that_do_not_fit_together_are_named(hardware: dict[str, Any], path: str, message: str) -> None:
    config = SimulationConfig(
        hardware=hardware, model={"name": "GPT2-Small"}, training={"batch_size_per_gpu": 1, "precision": "bf16"}
    )
    (problem,) = check_config(config)
    assert problem.path == path
    assert message in problem.message


@pytest.mark.parametrize(
    ("hardware", "message"),
    [
        ({"nodes": []}, "at least 1 item"),
        ({"nodes": [H100], "profile": "dgx-h100"}, "profile\n.*leave it out"),
        ({"nodes": [{**H100, "count": 2}], "num_nodes": 3}, "num_nodes\n.*nodes are 2 in all"),
        ({"nodes": [{**H100, "count": 0}]}, "greater than 0"),
        ({"nodes": ["dgx-h100"]}, "valid dictionary or instance of NodeGroup"),
    ],
)
def test_nodes_that_are_no_description_are_refused(hardware: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HardwareConfig(**hardware)


def test_four_of_eight_gpus_of_each_may_be_used() -> None:
    hardware = HardwareConfig(nodes=[H100, {"profile": "pcie-a6000-4"}], gpus_per_node=4)
    assert build_cluster(hardware, NetworkConfig()).num_gpus == 8


def test_a_scaling_study_needs_one_kind() -> None:
    with pytest.raises(UsageError, match="give one kind of nodes"):
        ScalingStudyRunner(config_on([A100, H100])).run_scaling_study([1, 2])
