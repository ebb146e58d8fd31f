"""What 'simsys topology' says of a network: counts, hops, bisection bandwidth, a route."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from simsys.cli import cli
from simsys.errors import UsageError
from simsys.platform.custom_graph import Edge, custom_graph
from simsys.platform.fabrics import TOPOLOGY_TYPES
from simsys.platform.fat_tree import fat_tree
from simsys.platform.nodes import Fabric, Nics, NodeInside, nodes_on_fabric
from simsys.platform.topology import Topology
from simsys.report import topology as report
from simsys.report.topology import count_hops, count_vertices, topology_answers

SCENARIO: dict[str, Any] = {
    "name": "rails",
    "hardware": {"profile": "dgx-h100", "num_nodes": 4, "fabric": "infiniband-ndr"},
    "network": {"topology_type": "rail_optimized", "leaf_size": 2},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 1},
}


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "e.yaml"
    path.write_text(yaml.safe_dump({"scenarios": [SCENARIO, {**SCENARIO, "name": "again"}]}), encoding="utf-8")
    return path


def build(kind: str, n: int, **options: Any) -> Topology:
    return TOPOLOGY_TYPES[kind](n, 10e9, 1e-6, **options)


# --- theory ---


@pytest.mark.parametrize(
    ("kind", "n", "options", "diameter", "mean"),
    [
        ("ring", 8, {}, 4, 16 / 7),  # n²/4 / (n - 1)
        ("torus_2d", 16, {}, 4, 32 / 15),
        ("torus_3d", 64, {}, 6, 192 / 63),
        ("full_mesh", 8, {}, 1, 1.0),
        ("switch", 8, {}, 2, 2.0),
        ("fat_tree", 16, {"radix": 4}, 6, (2 + 2 * 4 + 12 * 6) / 15),
        ("dragonfly", 72, {}, 5, None),
        ("tree", 15, {}, 6, None),
    ],
)
def test_hops_are_those_of_theory(
    kind: str, n: int, options: dict[str, Any], diameter: int, mean: float | None
) -> None:
    hops = count_hops(build(kind, n, **options))
    assert (hops.diameter, hops.sources) == (diameter, n)
    assert sum(hops.pairs.values()) == n * (n - 1)
    assert mean is None or hops.mean == pytest.approx(mean, rel=1e-12)


def test_one_gpu_has_no_hops() -> None:
    hops = count_hops(build("ring", 1))
    assert (hops.diameter, hops.mean) == (0, 0.0)


def test_in_a_large_network_some_gpus_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = fat_tree(128, 1.0, 0.0, radix=8)
    whole = count_hops(graph)
    monkeypatch.setattr(report, "MOST_STEPS", 16 * len(graph.links))
    part = count_hops(graph)
    assert (part.sources, whole.sources) == (16, 128)
    assert part.mean == whole.mean
    assert {hops: 8 * pairs for hops, pairs in part.pairs.items()} == whole.pairs


def test_vertices_are_counted_by_kind() -> None:
    node = NodeInside("nvswitch", 1e9, 0.0)
    graph = nodes_on_fabric(3, 4, node, Nics(2, 1e9, 0.0), Fabric("switch", 1e9, 0.0))
    assert count_vertices(graph) == {"gpu": 12, "nvswitch": 3, "port": 6, "switch": 1, "nic": 6}
    own = custom_graph(2, 1.0, 0.0, edges=[Edge("gpu0", "my own"), Edge("my own", "tor7"), Edge("tor7", "gpu1")])
    assert count_vertices(own) == {"gpu": 2, "switch": 2}


# --- the command ---


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["topology", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_answer_says_all_there_is(experiment: Path) -> None:
    text = run(str(experiment), "--scenario", "rails", "--route", "0", "9")
    assert text.startswith("rails: 4 x 8 GPUs on rail_optimized, routing adaptive\n")
    assert "vertices: 32 gpu, 4 nvswitch, 32 port, 16 leaf, 2 spine" in text
    assert "bisection bandwidth: 768 GB/s in each direction" in text
    assert "hops between GPUs: at most 8, " in text
    assert "route from gpu 0 of node 0 to gpu 1 of node 1" in text
    assert "  network: 8 x 48 GB/s NICs per node (1.2 us each), rail_optimized (fabric infiniband-ndr, 64" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["nvswitch", "64", "371", "GB/s", "300", "ns"] in rows
    assert ["leaf", "0", "of", "rail", "1", "leaf", "48", "GB/s", "250", "ns"] in rows


def test_json_holds_the_same(experiment: Path) -> None:
    first, second = json.loads(run(str(experiment), "--json", "--set", "network.pxn=false"))["scenarios"]
    assert {**first, "name": ""} == {**second, "name": ""}
    assert first["network"].startswith("network: 8 x 48 GB/s NICs per node")
    assert first["hops"]["diameter"] == 6
    assert sum(first["hops"]["pairs"].values()) == 32 * 31
    assert first["bisection_bytes_per_s"] == pytest.approx(768e9)
    assert first["bisection_is_exact"] is True
    route = first["route"]["links"]
    assert (first["route"]["src"], first["route"]["dst"]) == (0, 31) == (route[0]["src"], route[-1]["dst"])
    assert all(a["to"] == b["from"] for a, b in pairwise(route))
    assert sum(row["links"] for row in first["links"]) == 2 * (32 + 32 + 32 + 16 * 2)


@pytest.mark.parametrize(
    ("setting", "rate"),
    [("nic={bandwidth: 20 GB/s}", "20 GB/s"), ("fabric=infiniband-edr", "12.5 GB/s"), ("nic={count: 8}", "48 GB/s")],
)
def test_links_have_the_rates_that_the_network_line_states(experiment: Path, setting: str, rate: str) -> None:
    text = run(str(experiment), "--scenario", "rails", "--set", f"hardware.{setting}")
    assert f"network: 8 x {rate} NICs per node" in text
    table = {line.split()[0]: line for line in text.splitlines() if line.startswith("    ")}
    assert all(f" {rate} " in table[kind] for kind in ("nic", "leaf"))


def test_the_bisection_of_a_binary_tree_is_that_of_its_best_halves(experiment: Path) -> None:
    """One link joins the subtree of one child, half of the nodes, to the others; it was reported as eight."""
    tree = ["hardware={gpu: H100-SXM, num_nodes: 16, nic: {bandwidth: 100 GB/s}}", "network={topology_type: tree}"]
    text = run(str(experiment), "--scenario", "rails", *(part for each in tree for part in ("--set", each)))
    assert "  bisection bandwidth: 100 GB/s in each direction\n" in text


def test_a_bisection_that_is_not_proven_is_reported_as_a_bound(experiment: Path) -> None:
    dragonfly = ["hardware={gpu: H100-SXM, num_nodes: 72}", "network={topology_type: dragonfly}"]
    settings = [part for each in dragonfly for part in ("--set", each)]
    text = run(str(experiment), "--scenario", "rails", *settings)
    assert "  bisection bandwidth: at most 550 GB/s in each direction (upper bound from a search)" in text
    found = json.loads(run(str(experiment), "--scenario", "rails", "--json", *settings))["scenarios"][0]
    assert (found["bisection_bytes_per_s"], found["bisection_is_exact"]) == (550e9, False)


def test_the_table_of_links_is_written(experiment: Path, tmp_path: Path) -> None:
    run(str(experiment), "--links", str(tmp_path / "tables"))
    with (tmp_path / "tables" / "rails_topology.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    (answer, _) = topology_answers(experiment)
    assert len(rows) == len(answer.topology.links)
    for row, link in zip(rows, answer.topology.links, strict=True):
        assert (int(row["src"]), int(row["dst"]), row["kind"]) == (link.src, link.dst, link.kind)
        assert (float(row["bytes_per_s"]), float(row["latency_s"])) == (link.bytes_per_s, link.latency_s)
        assert row["from"] == answer.topology.vertex_name(link.src)
    assert (tmp_path / "tables" / "again_topology.csv").exists()


def test_a_single_gpu_has_a_topology_too(experiment: Path) -> None:
    text = run(str(experiment), "--set", "hardware={gpu: H100-SXM}", "--set", "network={}")
    assert "vertices: 1 gpu" in text
    assert "bisection" not in text


def test_a_route_between_gpus_that_are_not_there_is_refused(experiment: Path) -> None:
    with pytest.raises(UsageError, match="GPUs 0 to 31, not 32"):
        topology_answers(experiment, ends=(0, 32))
    result = CliRunner().invoke(cli, ["topology", str(experiment), "--route", "-1", "0"])
    assert result.exit_code == 2


def test_problems_of_the_file_are_reported_as_ever(experiment: Path) -> None:
    result = CliRunner().invoke(cli, ["topology", str(experiment), "--set", "network.leaf_size=99"])
    assert result.exit_code == 2
    assert "network.leaf_size: a leaf of 99 nodes needs 99 ports down" in result.stderr
