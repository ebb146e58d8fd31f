"""Traces of training scenarios: dependencies, sizes, groups, and the exported iteration."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from simsys.chakra.export import export_scenarios
from simsys.chakra.nodes import ChakraNode, NodeType
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.simulation import simulate
from tests.helpers import chakra_wire as wire
from tests.helpers.chakra_toys import SCENARIO, exported

PIPELINE: dict[str, Any] = {
    "parallelism": {"strategy": "PP", "pp_stages": 2, "schedule": "gpipe"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 1, "gradient_accumulation_steps": 2},
}


def ended_before(nodes: tuple[ChakraNode, ...], number: int) -> set[int]:
    """All nodes that a node depends on, directly or not."""
    found: set[int] = set()
    open_nodes = [number]
    while open_nodes:
        new = set(nodes[open_nodes.pop()].data_deps) - found
        found |= new
        open_nodes += new
    return found


def test_the_iteration_is_that_of_the_simulation() -> None:
    found = exported()
    rows = simulate(SimulationConfig.model_validate(SCENARIO)).rows
    assert found.iteration_s == rows["iteration_s"][1]
    assert found.traces[0].metadata["iteration_s"] == found.iteration_s


def test_gradients_depend_on_the_backward_pass_and_the_optimizer_on_all_gradients() -> None:
    nodes = exported().traces[0].nodes
    reduces = [node for node in nodes if node.type == NodeType.COMM_COLL]
    computes = [node for node in nodes if node.type == NodeType.COMP]
    optimizer = next(node for node in computes if node.name == "optimizer")
    assert len(reduces) > 2
    assert {node.id for node in reduces} <= ended_before(nodes, optimizer.id)
    backward = [node.id for node in computes if node.name == "backward"]
    before_first = ended_before(nodes, reduces[0].id)
    assert before_first.intersection(backward)
    assert not before_first.issuperset(backward)  # it overlaps with the rest of the backward pass


def test_computations_of_a_rank_are_in_sequence() -> None:
    nodes = exported().traces[0].nodes
    computes = [node for node in nodes if node.type == NodeType.COMP]
    for before, after in pairwise(computes):
        assert before.id in ended_before(nodes, after.id)


def test_sizes_are_those_of_the_model() -> None:
    nodes = exported().traces[0].nodes
    moved = sum(node.attributes["comm_size"] for node in nodes if node.type == NodeType.COMM_COLL)
    assert moved == pytest.approx(124.4e6 * 4, rel=0.02)  # gradients in fp32
    flop = sum(node.attributes["num_ops"] for node in nodes if node.type == NodeType.COMP)
    assert flop > 6 * 85e6 * 1024  # 6 FLOP per parameter of the layers and token


def test_an_all_gather_has_the_size_of_a_shard() -> None:
    nodes = exported(parallelism={"strategy": "FSDP"}).traces[0].nodes
    gathers = [node for node in nodes if node.attributes.get("comm_type") == 2]
    assert gathers
    for node in gathers:
        assert node.attributes["comm_size"] == round(node.attributes["simsys_nbytes"] / 2)


def test_messages_of_stages_have_equal_tags_at_both_ends() -> None:
    first, second = (trace.nodes for trace in exported(**PIPELINE).traces)
    ends = Counter(
        (node.type, *(node.attributes[name] for name in ("comm_src", "comm_dst", "comm_tag")))
        for node in (*first, *second)
        if node.type in (NodeType.COMM_SEND, NodeType.COMM_RECV)
    )
    nodes = [node for node in (*first, *second) if node.type in (NodeType.COMM_SEND, NodeType.COMM_RECV)]
    assert len({node.attributes["comm_size"] for node in nodes}) == 1  # hidden states, or their gradients
    sent = {end[1:]: count for end, count in ends.items() if end[0] == NodeType.COMM_SEND}
    received = {end[1:]: count for end, count in ends.items() if end[0] == NodeType.COMM_RECV}
    assert sent == received
    assert len(sent) == 4  # two micro-batches in two directions


def test_the_wait_for_batches_is_work_of_the_host() -> None:
    training = {**SCENARIO["training"], "data_loading": {"time": "3 ms", "prefetch": False}}
    found = exported(training=training)
    first = found.traces[0].nodes[0]
    assert (first.name, first.attributes["is_cpu_op"], first.duration_micros) == ("data loading", True, 3000)
    assert all(0 in ended_before(found.traces[0].nodes, node.id) for node in found.traces[0].nodes[1:])


def test_dependencies_are_those_that_feeders_follow() -> None:
    for trace in exported(**PIPELINE).traces:
        assert not any(node.ctrl_deps for node in trace.nodes)
        assert all(dep < node.id for node in trace.nodes for dep in node.data_deps)


def test_files_and_groups_are_written(tmp_path: Path) -> None:
    found = exported(
        parallelism={"strategy": "TP_DDP", "tp_degree": 2}, hardware={"profile": "dgx-h100", "gpus_per_node": 4}
    )
    files = found.write(tmp_path)
    assert [path.name for path in files] == [*(f"small.{rank}.et" for rank in range(4)), "small.comm_groups.json"]
    groups = json.loads(files[-1].read_text())
    assert sorted(groups.values()) == [[0, 1], [0, 2], [1, 3], [2, 3]]
    assert "0" not in groups  # ASTRA-sim counts groups from 1
    metadata, *nodes = wire.messages(files[2].read_bytes())
    assert wire.attributes(list(wire.fields(metadata)), 2)["gpu"] == "H100-SXM"
    named = {each["pg_name"] for each in map(wire.node, nodes) if each["type"] == 7}
    assert all(2 in groups[name] for name in named)
    assert found.write(tmp_path, compressed=True)[0].read_bytes()[:2] == b"\x1f\x8b"


def test_the_same_scenario_gives_the_same_bytes(tmp_path: Path) -> None:
    files = [exported().write(tmp_path / name, compressed=True) for name in ("one", "other")]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_what_is_no_training_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "hardware: {gpu: H100-SXM}\nmodel: {name: Llama3-8B}\nserving: {}\nworkload: {arrivals: {kind: poisson, "
        "rate: 1 req/s}, prompt_tokens: 10, output_tokens: 2, num_requests: 2}\n"
    )
    with pytest.raises(UsageError, match="of one training job, not of serving"):
        next(export_scenarios(path))


def test_an_iteration_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("hardware: {gpu: H100-SXM}\nmodel: {name: GPT2-Small}\ntraining: {batch_size_per_gpu: 1}\n")
    with pytest.raises(UsageError, match=r"iterations 0 to \d+, not 100000"):
        next(export_scenarios(path, iteration=100_000))
