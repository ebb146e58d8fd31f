"""Small scenarios and traces."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from simsys.chakra.config import ReplayConfig
from simsys.chakra.export import ExportedTraces, export_traces
from simsys.chakra.files import VERSION, write_trace
from simsys.chakra.nodes import ChakraNode, NodeType, RankTrace, Value
from simsys.check import sound
from simsys.config.experiment import SimulationConfig

HARDWARE: dict[str, Any] = {"profile": "dgx-h100", "gpus_per_node": 2}
SCENARIO: dict[str, Any] = {
    "name": "small",
    "hardware": HARDWARE,
    "model": {"name": "GPT2-Small"},
    "parallelism": {"strategy": "DDP"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 2},
    "simulation": {"lod": "high"},
}


def exported(data: dict[str, Any] = SCENARIO, **sections: Any) -> ExportedTraces:
    return export_traces(sound(SimulationConfig.model_validate({**data, **sections})))


def replay_config(traces: Path, hardware: dict[str, Any] = HARDWARE, **chakra: Any) -> ReplayConfig:
    given = {"hardware": hardware, "chakra": {"traces": str(traces), **chakra}}
    return ReplayConfig.model_validate(given)


def write(folder: Path, *ranks: Iterable[ChakraNode], **metadata: Value) -> Path:
    """Write traces ``t.<rank>.et``; returns what the names begin with."""
    for rank, nodes in enumerate(ranks):
        with (folder / f"t.{rank}.et").open("wb") as file:
            write_trace(file, RankTrace(rank, "", VERSION, metadata, tuple(nodes)))
    return folder / "t"


def compute(number: int, micros: int, *deps: int, **attributes: Value) -> ChakraNode:
    values = {"is_cpu_op": False, **attributes}
    return ChakraNode(number, "compute", NodeType.COMP, data_deps=deps, duration_micros=micros, attributes=values)


def collective(number: int, nbytes: int, *deps: int, kind: int = 0, **attributes: Value) -> ChakraNode:
    values = {"comm_type": kind, "comm_size": nbytes, **attributes}
    return ChakraNode(number, "reduce", NodeType.COMM_COLL, data_deps=deps, attributes=values)


def send(number: int, dst: int, nbytes: int, *deps: int, tag: int = 0) -> ChakraNode:
    values = {"comm_dst": dst, "comm_size": nbytes, "comm_tag": tag}
    return ChakraNode(number, "send", NodeType.COMM_SEND, data_deps=deps, attributes=values)


def receive(number: int, src: int, *deps: int, tag: int = 0) -> ChakraNode:
    return ChakraNode(
        number, "receive", NodeType.COMM_RECV, data_deps=deps, attributes={"comm_src": src, "comm_tag": tag}
    )
