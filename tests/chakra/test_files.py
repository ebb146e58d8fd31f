"""Files of traces: their bytes, and damaged files."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from simsys.chakra.files import VERSION, read_trace, write_trace
from simsys.chakra.nodes import ChakraNode, NodeType, RankTrace
from simsys.errors import TraceError
from tests.helpers import chakra_wire as wire

NODE = ChakraNode(
    id=300,
    name="forward",
    type=NodeType.COMP,
    ctrl_deps=(1, 200),
    data_deps=(2,),
    start_micros=5,
    duration_micros=2**40,
    attributes={"is_cpu_op": True, "num_ops": 10**15, "tensor_size": 2**63, "simsys_duration_s": 0.1, "pg_name": "1"},
)
TRACE = RankTrace(3, "", VERSION, {"gpu": "H100-SXM", "iteration": 0}, (NODE, ChakraNode(0, "", NodeType.METADATA)))


def written(*, compressed: bool = False) -> bytes:
    stream = io.BytesIO()
    write_trace(stream, TRACE, compressed=compressed)
    return stream.getvalue()


def test_another_reader_of_the_schema_finds_every_field() -> None:
    metadata, first, second = wire.messages(written())
    found = list(wire.fields(metadata))
    assert (1, 2, VERSION.encode()) in found
    assert wire.attributes(found, 2) == TRACE.metadata
    assert wire.node(first) == {
        "id": 300,
        "name": "forward",
        "type": 4,
        "ctrl_deps": [1, 200],
        "data_deps": [2],
        "start": 5,
        "duration": 2**40,
        **NODE.attributes,
    }
    assert wire.node(second)["type"] == 1


@pytest.mark.parametrize("compressed", [False, True])
def test_a_trace_reads_back(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "x.3.et"
    path.write_bytes(written(compressed=compressed))
    found = read_trace(path, 3)
    assert (found.nodes, found.metadata, found.version) == (TRACE.nodes, TRACE.metadata, VERSION)


def test_fields_and_lists_of_other_writers_are_read(tmp_path: Path) -> None:
    # involved_dim is a bool_list (28), an AttributeProto with a list message; field 11 is of storage nodes.
    flags = wire.written((1, "involved_dim"), (28, wire.written((1, bytes([1, 0])))))
    content = wire.written((1, 7), (2, "all_reduce"), (3, 7), (10, flags), (11, wire.written((1, 1))))
    path = tmp_path / "x.0.et"
    path.write_bytes(wire.framed(b"", content))
    (node,) = read_trace(path, 0).nodes
    assert (node.id, node.type, node.attributes) == (7, 7, {"involved_dim": (True, False)})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (written()[:-1], "truncated in message 2"),
        (written()[:20], "truncated in message 0"),
        (written() + b"\x80", "truncated in the length of message 3"),
        (wire.framed(b"", b"\x0f\xff"), "byte 1: node 1 is no message of Chakra's schema"),
        (b"\xff" * 20, "no length of a message"),
        (b"\xff\xff\xff\x7f", "this is no Chakra trace"),
        (gzip.compress(written())[:-9], "truncated or damaged gzip file"),
        (b"\x1f\x8b" + b"x" * 30, "damaged"),
    ],
)
def test_a_damaged_file_is_refused_with_file_and_place(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "x.0.et"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=reason) as error:
        read_trace(path, 0)
    assert str(error.value).startswith(str(path))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot read .*No such file"):
        read_trace(tmp_path / "x.0.et", 0)
