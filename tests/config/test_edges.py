"""Edges of a graph in an experiment or a file of their own: read alike, with every problem at its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys.check import check_file
from simsys.config.edges import EdgeConfig, read_edges
from simsys.errors import ConfigError, Problem

HEAD = """\
hardware: {gpu: H100-SXM, gpus_per_node: 4}
model: {name: GPT2-Small}
training: {batch_size_per_gpu: 1, num_iterations: 1}
network:
  topology_type: custom
"""
STAR = "".join(f"  - {{from: gpu{gpu}, to: sw0, bandwidth: 50 GB/s, latency: 1 us}}\n" for gpu in range(4))


def problems(tmp_path: Path, network: str, head: str = HEAD) -> list[Problem]:
    path = tmp_path / "e.yaml"
    path.write_text(head + network, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        check_file(path)
    return list(caught.value.problems)


def places(found: list[Problem]) -> list[tuple[int, str]]:
    return [(problem.line, problem.path) for problem in found]


def edge(src: str, dst: str, **more: Any) -> EdgeConfig:
    return EdgeConfig.model_validate({"from": src, "to": dst, **more})


# --- what is read ---


def test_yaml_and_csv_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(
        "edges:\n- {from: gpu0, to: sw0, bandwidth: 50 GB/s, latency: 1 us}\n- {from: sw0, to: gpu1, "
        "bidirectional: false, kind: optical}\n- {from: gpu1, to: gpu0}\n",
        encoding="utf-8",
    )
    (tmp_path / "g.CSV").write_text(
        "\ufefffrom, to, bandwidth, latency, bidirectional, kind\n\ngpu0, sw0, 50 GB/s, 1 us,,\n"
        "sw0,gpu1,,,false,optical\n,,\ngpu1,gpu0\n",
        encoding="utf-8",
    )
    expected = (
        edge("gpu0", "sw0", bandwidth="50 GB/s", latency="1 us"),
        edge("sw0", "gpu1", bidirectional=False, kind="optical"),
        edge("gpu1", "gpu0"),
    )
    assert read_edges(tmp_path / "g.yaml")[0] == read_edges(tmp_path / "g.CSV")[0] == expected


@pytest.mark.parametrize("network", [f"  edges:\n{STAR}", "  edges_file: nets/star.csv\n"])
def test_a_scenario_with_a_graph_is_sound(tmp_path: Path, network: str) -> None:
    (tmp_path / "nets").mkdir()
    rows = "".join(f"gpu{gpu},sw0,50 GB/s,1 us\n" for gpu in range(4))
    (tmp_path / "nets" / "star.csv").write_text(f"from,to,bandwidth,latency\n{rows}", encoding="utf-8")
    path = tmp_path / "e.yaml"
    path.write_text(HEAD + network, encoding="utf-8")
    (built,) = check_file(path)
    assert built.config.network.topology_type == "custom"


# --- what is wrong ---


def test_all_problems_of_edges_are_found_at_once_at_their_lines(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "  edges:\n"
        "  - {from: gpu0, to: sw0, bandwidth: 50 GB/s}\n"
        "  - {from: gpu1, to: gpu1}\n"
        "  - {from: gpu2, to: sw0, bandwidth: 0 GB/s}\n"
        "  - {from: sw0, to: gpu0}\n"
        "  - {from: gpu3, to: sw0, bandwidth: -5 GB/s, latency: 5}\n"
        "  - {from: gpu9, too: sw0}\n"
        "  - gpu3\n"
        "  - {from: '', to: 7}\n",
    )
    assert places(found) == [
        (8, "network.edges[1]"),
        (9, "network.edges[2].bandwidth"),
        (10, "network.edges[3]"),
        (11, "network.edges[4].bandwidth"),
        (11, "network.edges[4].latency"),
        (12, "network.edges[5]"),
        (12, "network.edges[5].too"),
        (13, "network.edges[6]"),
        (14, "network.edges[7].from"),
        (14, "network.edges[7].to"),
    ]
    texts = [problem.message for problem in found]
    assert "an edge from gpu1 to itself" in texts[0]
    assert "zero" in texts[1]
    assert "edge 0 (counted from 0) already joins sw0 to gpu0" in texts[2]
    assert "negative" in texts[3]
    assert "has no unit" in texts[4]


def test_ends_outside_the_cluster_are_found_at_their_lines(tmp_path: Path) -> None:
    found = problems(tmp_path, f"  edges:\n{STAR}  - {{from: sw0, to: gpu4}}\n  - {{from: node0, to: sw1}}\n")
    assert {problem.path for problem in found} >= {"network.edges[0].from"}  # GPUs beside a node
    found = problems(tmp_path, f"  edges:\n{STAR}  - {{from: sw0, to: gpu4}}\n")
    assert places(found) == [(11, "network.edges[4].to")]
    assert found[0].message == "there is no gpu4: the cluster has gpu0 to gpu3"
    assert found[0].column == 21


def test_a_graph_in_pieces_is_refused(tmp_path: Path) -> None:
    found = problems(tmp_path, "  edges:\n  - {from: gpu0, to: gpu1}\n  - {from: gpu2, to: gpu3}\n")
    assert places(found) == [(7, "network.edges")]
    assert "no way leads from gpu0 to gpu2, gpu3" in found[0].message


@pytest.mark.parametrize(
    ("network", "path", "message"),
    [
        ("", "network", "needs edges"),
        ("  edges: []\n", "network.edges", "at least one edge"),
        ("  edges: 3\n", "network.edges", "a list is needed, not 3"),
        ("  edges: [{from: a, to: b}]\n  edges_file: g.csv\n", "network", "or an edges_file"),
        ("  edges: [{from: a, to: a}]\n  topology_type: ring\n", "", "duplicate key"),
    ],
)
def test_a_custom_topology_has_one_list_of_edges(tmp_path: Path, network: str, path: str, message: str) -> None:
    found = problems(tmp_path, network)
    assert [problem.path for problem in found] == [path]
    assert message in found[0].message


FILES = {
    "g.csv": "from,to,bandwidth\ngpu0,sw0,1 GB/s\n\ngpu1,sw0,0 GB/s\ngpu2,sw0,,1 us\n,sw0\ngpu0,sw0\n",
    "h.csv": "from,to\ngpu0,sw0\ngpu1,sw0\ngpu2,sw0\ngpu7,sw0\n",
    "i.csv": "from,too\ngpu0,sw0\n",
    "j.csv": "from\ngpu0\n",
    "k.csv": "from,to\n",
    "l.csv": 'from,to\n"gpu0,sw0\n',
    "g.yaml": "edges:\n- {from: gpu0, to: sw0}\n- {from: gpu1, to: gpu1}\n- {from: gpu2, to: sw0, bandwidth: 0 B/s}\n",
    "h.yaml": "edges:\n- {from: gpu0, to: sw0}\n- {from: gpu1, to: sw0}\n- {from: gpu8, to: sw0}\n",
    "i.yaml": "- {from: gpu0, to: sw0}\n",
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("g.csv", [(4, "edges[1].bandwidth"), (5, "edges[2].column 4"), (6, "edges[3]"), (7, "edges[4]")]),
        ("h.csv", [(5, "edges[3].from")]),
        ("i.csv", [(0, "")]),
        ("j.csv", [(0, "")]),
        ("k.csv", [(1, "edges")]),
        ("l.csv", [(0, "")]),
        ("g.yaml", [(3, "edges[1]"), (4, "edges[2].bandwidth")]),
        ("h.yaml", [(4, "edges[2].from")]),
        ("i.yaml", [(0, "")]),
    ],
)
def test_problems_of_a_file_stand_in_the_file(tmp_path: Path, name: str, expected: list[tuple[int, str]]) -> None:
    for file, text in FILES.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    found = problems(tmp_path, f"  edges_file: {name}\n")
    assert [(problem.line if problem.path else 0, problem.path) for problem in found] == expected
    assert {Path(problem.file) for problem in found} == {tmp_path / name}
    assert all(problem.line for problem in found)


@pytest.mark.parametrize("name", ["missing.csv", "missing.yaml", "."])
def test_a_file_that_is_missing_is_a_problem_of_the_setting(tmp_path: Path, name: str) -> None:
    (found,) = problems(tmp_path, f"  edges_file: {name}\n")
    assert (found.line, found.path) == (6, "network.edges_file")
    assert found.message.startswith(repr(str(tmp_path / name)))


def test_files_that_are_no_text_or_too_large_are_refused(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_bytes(b"from,to\n\xff\xfe")
    (tmp_path / "c.csv").write_bytes(b"from,to\n" + b"a,b\n" * 2**20)
    (tmp_path / "d.csv").mkdir()
    for name, message in (("b.csv", "not UTF-8"), ("c.csv", "larger than 4 MiB"), ("d.csv", "cannot be read")):
        with pytest.raises(ConfigError, match=message):
            read_edges(tmp_path / name)
