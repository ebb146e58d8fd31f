"""Tables of measured collectives."""

from __future__ import annotations

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
        ({"system": "HGX A100 InfiniBand SHARP"}, "SHARP"),
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
