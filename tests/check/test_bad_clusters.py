"""Clusters and failures that cannot be, through the command line: exit code, place, and what is allowed."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from simsys.cli import cli
from simsys.errors import UsageError
from simsys.parallel.layout import Group, Layout
from simsys.rank import Rank
from tests.helpers.toys import simulate

PARTS = {
    "hardware": "{profile: dgx-h100, num_nodes: 2}",
    "network": "{topology_type: switch}",
    "model": "{name: GPT2-Small}",
    "training": "{batch_size_per_gpu: 1, num_iterations: 2}",
    "parallelism": "{strategy: DDP}",
}
PAIR = "{gpu: H100-SXM, num_nodes: 2}"


def outcome(tmp_path: Path, **parts: str) -> tuple[int, str]:
    """Exit code and output of `simsys run`, every part of the experiment on a line of its own."""
    path = tmp_path / "experiment.yaml"
    path.write_text("\n".join(f"{key}: {value}" for key, value in {**PARTS, **parts}.items()))
    result = CliRunner().invoke(cli, ["run", str(path), "--out", str(tmp_path / "results")])
    return result.exit_code, result.output


def training(more: str) -> dict[str, str]:
    return {"training": f"{{batch_size_per_gpu: 1, num_iterations: 2, {more}}}"}


def hardware(more: str) -> dict[str, str]:
    return {"hardware": f"{{profile: dgx-h100, {more}}}"}


def weak(more: str) -> dict[str, str]:
    return {"network": f"{{degradations: [{{{more}}}]}}"}


def graph(edges: str) -> dict[str, str]:
    return {"hardware": PAIR, "network": f"{{topology_type: custom, edges: [{edges}]}}"}


FAILURES = "failures: {duration: 30 d, "
BAD: list[tuple[dict[str, str], str, str]] = [
    # Failures and checkpoints.
    (training("checkpoint: {interval: 0, storage_bandwidth: 1 GB/s}"), "training.checkpoint.interval", "above 0"),
    (training("checkpoint: {interval: 1, storage_bandwidth: 0 GB/s}"), "checkpoint.storage_bandwidth", "is zero"),
    (
        training(FAILURES + "detection: 1 min}"),
        "training.failures",
        "say what fails: gpu_mtbf, node_mtbf or link_mtbf",
    ),
    (training(FAILURES + "gpu_mtbf: 0 s}"), "training.failures.gpu_mtbf", "above zero is needed"),
    (training(FAILURES + "gpu_mtbf: 1 s}"), "training.failures", "at most 1,000,000 failures are simulated"),
    (
        {"hardware": "{profile: dgx-h100}", **training(FAILURES + "link_mtbf: 100 h}")},
        "training.failures.link_mtbf",
        "one node has no links to other nodes",
    ),
    # GPUs that differ.
    (hardware("exceptions: [{gpus: [1, 8], speed: 0.5}]"), "hardware.exceptions[0].gpus[1]", "has GPUs 0 to 7"),
    (hardware("exceptions: [{gpus: [-1], speed: 0.5}]"), "hardware.exceptions[0].gpus[0]", "at least 0"),
    (hardware("exceptions: [{gpus: [1], gpu: H10}]"), "hardware.exceptions[0].gpu", "did you mean"),
    (hardware("slowdowns: [{nodes: [1], speed: 0.5}]"), "hardware.slowdowns[0].nodes[0]", "has node 0 only"),
    (hardware("slowdowns: [{speed: 0.5}]"), "hardware.slowdowns[0]", "say which GPUs differ: gpus: [3] or nodes: [0]"),
    (hardware("slowdowns: [{gpus: [1], speed: 0}]"), "hardware.slowdowns[0].speed", "use training.failures"),
    (hardware("slowdowns: [{gpus: [1], speed: 2}]"), "hardware.slowdowns[0].speed", "at most 1"),
    (
        hardware("slowdowns: [{gpus: [1], speed: 0.5, from: 10 s, until: 5 s}]"),
        "hardware.slowdowns[0].until",
        "later than 'from' (10 s), not 5 s",
    ),
    (hardware("slowdowns: [{gpus: [1], speed: 0.5, from: -1 s}]"), "hardware.slowdowns[0].from", "is negative"),
    (hardware("jitter: {compute: -0.1}"), "hardware.jitter.compute", "above 0"),
    (hardware("jitter: {compute: 0.1, distribution: normal}"), "jitter.distribution", "did you mean 'lognormal'"),
    # Weak links.
    (weak("links: {kind: nic}, bandwidth: 0"), "network.degradations[0].bandwidth", "use training.failures"),
    (
        weak("links: {kind: nic}, bandwidth: -0.5"),
        "network.degradations[0].bandwidth",
        "above 0, the share",
    ),
    (weak("links: {kind: nic}"), "network.degradations[0]", "say how weak they are"),
    (weak("links: {}, bandwidth: 0.5"), "network.degradations[0].links", "say which links"),
    (weak("links: {kind: nics}, bandwidth: 0.5"), "degradations[0].links.kind", "of kind nvswitch, nic, switch"),
    (weak("links: {from: gpu 9 of node 0}, bandwidth: 0.5"), "degradations[0].links.from", "did you mean"),
    (weak("links: {ids: [3, 999]}, bandwidth: 0.5"), "degradations[0].links.ids[1]", "links 0 to "),
    (weak("links: {nodes: [2]}, bandwidth: 0.5"), "degradations[0].links.nodes[0]", "nodes 0 to 1"),
    (
        weak("links: {kind: nvswitch, from: port 0 of node 0}, bandwidth: 0.5"),
        "degradations[0].links",
        "no link meets",
    ),
    # Kinds of nodes.
    ({"hardware": "{nodes: [{profile: dgx-h100}, {profile: pcie-a6000-4}]}"}, "nodes[1].profile", "uses 4 of each"),
    (hardware("nodes: [{profile: dgx-h100}]"), "hardware.profile", "leave it out"),
    # Graphs and bandwidths.
    (graph("{from: gpu0, to: sw}"), "network.edges", "not connected"),
    (graph("{from: gpu0, to: gpu1, bidirectional: false}"), "network.edges", "no way leads to gpu0 from gpu1"),
    (graph("{from: gpu0, to: gpu1}, {from: gpu1, to: gpu1}"), "network.edges[1]", "an edge from gpu1 to itself"),
    (graph("{from: gpu0, to: gpu1}, {from: gpu1, to: gpu7}"), "network.edges[1].to", "has gpu0 to gpu1"),
    (graph("{from: gpu0, to: gpu1, bandwidth: 0 GB/s}"), "network.edges[0].bandwidth", "above zero is needed"),
    (graph("{from: gpu0, to: gpu1, bandwidth: -5 GB/s}"), "network.edges[0].bandwidth", "is negative"),
    ({"network": "{link_bandwidth: 0 GB/s}"}, "network.link_bandwidth", "above zero is needed"),
    (hardware("network_bandwidth: -1 GB/s"), "hardware.network_bandwidth", "is negative"),
    # Groups.
    ({"parallelism": "{strategy: DDP, dp_degree: 32}"}, "parallelism.dp_degree", "the cluster has 16 GPUs"),
    (
        {"parallelism": "{strategy: HSDP}", **training("options: {shard_size: 3}")},
        "training.options.shard_size",
        "1 or 2 or 4 would fit",
    ),
]


@pytest.mark.parametrize(("parts", "path", "message"), BAD, ids=[f"{path}: {message}" for _, path, message in BAD])
def test_what_cannot_be_is_named_with_its_place(
    tmp_path: Path, parts: dict[str, str], path: str, message: str
) -> None:
    code, output = outcome(tmp_path, **parts)
    assert code == 2
    first = " ".join(output.split())
    assert path in first
    assert message in first
    assert "experiment.yaml:" in output
    assert "Traceback" not in output
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("checkpoint", ["", "checkpoint: {interval: 1, storage_bandwidth: 100 GB/s}, "])
def test_the_only_node_fails_and_training_goes_on_when_it_is_back(tmp_path: Path, checkpoint: str) -> None:
    failing = training(f"{checkpoint}{FAILURES}node_mtbf: 100 h, detection: 1 min, restart: 10 min}}")
    code, output = outcome(tmp_path, hardware="{profile: dgx-h100}", **failing)
    assert code == 0
    assert "6 failures" in " ".join(output.split())


def test_a_single_gpu_is_a_group_of_one_and_communicates_with_nobody(tmp_path: Path) -> None:
    code, output = outcome(tmp_path, hardware="{gpu: H100-SXM}", parallelism="{strategy: DDP, dp_degree: 1}")
    assert code == 0
    assert "communication 0 s" in " ".join(output.split())


@pytest.mark.parametrize("level", ["high", "medium"])
@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ((), "a group of no ranks"),
        ((0, 1, 0), "rank 0 is more than once in a group: ranks 0, 1, 0"),
        ((0, 4), "rank 4 of a group is outside the job with ranks 0, 1, 2, 3"),
        ((0, -1), "rank -1 of a group is outside the job"),
        ((1, 2), "rank 0 calls all_reduce 'all_reduce' of a group that it is not in: ranks 1, 2"),
    ],
)
def test_a_group_that_cannot_be_is_refused(level: str, ranks: tuple[int, ...], message: str) -> None:
    group = Group(ranks, "data")

    def program(rank: Rank) -> Generator[Any, Any, None]:
        yield rank.all_reduce(1e6, over=group)

    with pytest.raises(UsageError, match=message):
        simulate(level, program, Layout(data=4))


@pytest.mark.parametrize("level", ["high", "medium"])
def test_a_group_of_one_has_nothing_to_do(level: str) -> None:
    group = Group((0,), "data")

    def program(rank: Rank) -> Generator[Any, Any, None]:
        if rank.index == 0:
            yield rank.all_reduce(1e6, over=group)

    assert simulate(level, program, Layout(data=4)).end_s == 0.0
