"""Columns for instance types, GPUs and fabrics, which come before descriptions in words."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.errors import ConfigError
from simsys.fidelity.tables.machine_columns import hardware_of_row
from simsys.fidelity.tables.table import Row, Table


def hardware(system: str = "", interconnect: str = "", **cells: str) -> dict[str, Any]:
    problems: list[Any] = []
    row = Row(cells, "n.csv", 2, problems=problems)
    try:
        return hardware_of_row(row, 16, 2, system=system, interconnect=interconnect)
    finally:
        Table("n.csv", list(cells), [row], problems).check()


def test_columns_come_before_descriptions() -> None:
    found = hardware("A100, says the text", "2x100G", instance_type="p5.48xlarge", gpu="H100-SXM-80GB")
    assert found == {"profile": "p5.48xlarge", "num_nodes": 2, "gpus_per_node": 8}
    found = hardware("H100, says the text", "2x25G", instance_type="not stated", gpu="A100", fabric="8x400G")
    assert (found["profile"], found["network_bandwidth"]) == ("dgx-a100", "384 GB/s")


def test_what_columns_leave_empty_is_in_descriptions() -> None:
    assert hardware("AWS p4de.24xlarge A100 (2 nodes)")["profile"] == "p4de.24xlarge"
    assert hardware("A100 nodes", "4x100G")["network_bandwidth"] == "48 GB/s"


def test_an_unknown_instance_type_is_refused_at_its_place() -> None:
    with pytest.raises(ConfigError, match=r"csv:2: instance_type: unknown instance type 'p5\.48xlarg', did you mean"):
        hardware(instance_type="p5.48xlarg", gpu="H100")


def test_another_gpu_than_the_instance_has_is_refused_at_its_place() -> None:
    with pytest.raises(ConfigError, match=r"csv:2: gpu: 'A100-SXM-80GB' is not the GPU of p5, which has H100-SXM"):
        hardware(instance_type="p5", gpu="A100-SXM-80GB")
