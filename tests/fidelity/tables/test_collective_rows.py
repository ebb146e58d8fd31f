"""Tables of measured collectives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simsys.errors import ConfigError
from simsys.fidelity.case import Case
from simsys.fidelity.collective_run import CollectiveRun
from simsys.fidelity.tables.collective_rows import COLUMNS, cases
from simsys.fidelity.tables.table import Row, Table

ROW = {
    "id": "n-1",
    "system": "DGX A100 (1 node)",
    "gpus": "8",
    "nodes": "1",
    "collective": "all_reduce",
    "bytes": str(2**26),
    "time_us": "700",
}


def case_of(**cells: str) -> Case:
    problems: list[Any] = []
    table = Table("n.csv", list(COLUMNS), [Row({**ROW, **cells}, "n.csv", 2, problems)], problems)
    (case,) = cases(table)
    table.check()
    return case


def microseconds(**cells: str) -> float:
    case = case_of(**cells)
    assert case.run is not None, case.reason
    return case.run.figures()[case.figure] * case.scale


def test_a_row_becomes_a_collective_with_its_measured_time() -> None:
    case = case_of()
    assert (case.measured, case.unit, case.metric, case.group) == (700.0, "us", "time_us", "DGX A100 (1 node)")
    assert case.tags == {"collective": "all_reduce", "gpus": "8", "size": "1 MiB and more"}
    assert 350.0 < microseconds() < 1400.0


def test_small_messages_are_summed_up_apart() -> None:
    assert case_of(bytes=str(2**20 - 1)).metric == "time_us below 1 MiB"
    assert case_of(bytes=str(2**20)).metric == "time_us"


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter"])
def test_half_of_an_all_reduce_takes_about_half_as_long(collective: str) -> None:
    assert microseconds(collective=collective) == pytest.approx(microseconds() / 2, rel=0.2)


@pytest.mark.parametrize(
    "system", ["OCI BM.GPU4.8 A100-SXM4-40GB", "HGX H100", "AWS p5en H200", "HGX B200", "AMD MI300X", "CoreWeave V100"]
)
def test_known_systems(system: str) -> None:
    assert microseconds(system=system) > 50.0


def test_rings_are_taken_where_reduction_in_the_switch_is_off() -> None:
    case = case_of(system="H200 node (NCCL_NVLS_ENABLE=0 Ring)")
    assert isinstance(case.run, CollectiveRun)
    assert case.run.algorithm == "ring"
    assert microseconds(system="H200 node (NCCL_NVLS_ENABLE=0 Ring)") > microseconds(system="H200 node")


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"system": "a TPU pod"}, "no profile of GPU"),
        ({"collective": "gossip"}, "unknown collective 'gossip'"),
        ({"gpus": "9", "nodes": "2"}, "do not divide evenly"),
    ],
)
def test_what_is_not_supported_says_why(cells: dict[str, str], reason: str) -> None:
    case = case_of(**cells)
    assert case.run is None
    assert reason in case.reason


@pytest.mark.parametrize(("column", "cell"), [("time_us", "0"), ("time_us", "-3"), ("bytes", "1 MiB"), ("gpus", "0")])
def test_cells_that_cannot_be_read_are_named(column: str, cell: str) -> None:
    with pytest.raises(ConfigError, match=rf"n\.csv:2: {column}: '{cell}'"):
        case_of(**{column: cell})


@pytest.mark.parametrize(
    ("cells", "profile"),
    [
        ({"instance_type": "p5.48xlarge", "gpu": "H100-SXM-80GB"}, "p5.48xlarge"),
        ({"instance_type": "gpu-h100-sxm 8gpu"}, "gpu-h100-sxm_8gpu"),
        ({"system": "GKE a3-megagpu-8g H100 (2 nodes)"}, "a3-megagpu-8g"),
        ({"instance_type": "not stated (p4d inferred)", "gpu": "A100 (inferred)"}, "dgx-a100"),
        ({"gpu": "H200-SXM"}, "dgx-h200"),
    ],
)
def test_columns_of_the_row_name_its_machines(cells: dict[str, str], profile: str) -> None:
    run = case_of(gpus="16", nodes="2", **cells).run
    assert isinstance(run, CollectiveRun)
    assert json.loads(run.hardware)["profile"] == profile


def test_the_network_is_read_in_its_own_column_and_not_in_the_description() -> None:
    in_column = case_of(gpus="16", nodes="2", system="A100 nodes", fabric="RoCE 8x2x50G").run
    in_prose = case_of(gpus="16", nodes="2", system="A100 nodes with 8x2x50G RoCE and 2 x 5 GPUs").run
    assert isinstance(in_column, CollectiveRun)
    assert isinstance(in_prose, CollectiveRun)
    assert json.loads(in_column.hardware)["network_bandwidth"] == "96 GB/s"
    assert "network_bandwidth" not in json.loads(in_prose.hardware)


def test_switches_that_reduce_shorten_large_messages() -> None:
    nodes = {"gpus": "32", "nodes": "4", "bytes": str(2**30)}
    assert microseconds(system="HGX A100 InfiniBand SHARP", **nodes) < microseconds(system="HGX A100", **nodes)
    run = case_of(system="Azure ND A100 v4 SHARP", gpus="32", nodes="4").run
    assert isinstance(run, CollectiveRun)
    assert json.loads(run.hardware)["fabric"] == {"extends": "infiniband-hdr", "in_network_reduction": True}


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"instance_type": "p5.48xlarg"}, "no profile of instance type 'p5.48xlarg', did you mean 'p5.48xlarge'?"),
        ({"instance_type": "z80"}, "no profile of instance type 'z80'"),
        ({"fabric": "IPoIB TCP sockets"}, "sockets of the host, without RDMA, are not modelled"),
    ],
)
def test_unknown_machines_are_not_predicted_and_say_why(cells: dict[str, str], reason: str) -> None:
    case = case_of(gpus="16", nodes="2", **cells)
    assert (case.run, case.reason) == (None, reason)
