"""Files of Chakra traces: messages, each after its length; one file per rank, also compressed by gzip."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from simsys.chakra.nodes import COMM_DST, COMM_SRC, COMM_TAG, TENSOR_SIZE, ChakraNode, RankTrace, Value
from simsys.chakra.schema import messages
from simsys.errors import TraceError
from simsys.input_files import open_bytes, unreadable

VERSION = "0.0.4"
"""Version of the schema that is written."""
LARGEST_MESSAGE = 2**26
"""Bytes; a longer message means that the file is not a trace."""
_GZIP = b"\x1f\x8b"
_INT64 = 2**63
_INTEGERS = {TENSOR_SIZE: "uint64_val", COMM_SRC: "int32_val", COMM_DST: "int32_val", COMM_TAG: "int32_val"}
"""Fields of integers that readers expect; of others it is ``int64_val`` (mlcommons/chakra, et_feeder_node.cpp)."""


def write_trace(stream: BinaryIO, trace: RankTrace, *, compressed: bool = False) -> None:
    """Write the trace of a rank.

    Args:
        stream: The file.
        trace: The trace.
        compressed: Whether to compress it, with equal bytes for equal traces.
    """
    with ExitStack() as stack:
        if compressed:
            file = gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0)
            stream = stack.enter_context(io.BufferedWriter(file))
        kinds = messages()
        metadata = kinds.metadata(version=trace.version)
        _fill(metadata, trace.metadata)
        _write_message(stream, metadata)
        for node in trace.nodes:
            _write_message(stream, _message_of(kinds.node, node))


def _message_of(kind: Any, node: ChakraNode) -> Any:
    message = kind(
        id=node.id,
        name=node.name,
        type=int(node.type),
        ctrl_deps=node.ctrl_deps,
        data_deps=node.data_deps,
        start_time_micros=node.start_micros,
        duration_micros=node.duration_micros,
    )
    if node.values:
        message.inputs.values = node.values
    _fill(message, node.attributes)
    return message


def _fill(message: Any, attributes: Mapping[str, Value]) -> None:
    """Add attributes with the types that ASTRA-sim and the tools of Chakra use."""
    for name, value in attributes.items():
        attribute = message.attr.add(name=name)
        if isinstance(value, bool):
            attribute.bool_val = value
        elif isinstance(value, int):
            setattr(attribute, _INTEGERS.get(name, "int64_val" if value < _INT64 else "uint64_val"), value)
        elif isinstance(value, float):
            attribute.double_val = value
        else:
            attribute.string_val = str(value)


def _write_message(stream: BinaryIO, message: Any) -> None:
    content = message.SerializeToString()
    length, head = len(content), bytearray()
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    head.append(length)
    stream.write(bytes(head) + content)


def read_trace(path: Path, rank: int) -> RankTrace:
    """Read the trace of a rank.

    Args:
        path: The file.
        rank: The rank.

    Raises:
        TraceError: If it cannot be read or is no such trace, with the byte and the number of the message.
    """
    kinds = messages()
    try:
        with ExitStack() as stack:
            file: Any = stack.enter_context(open_bytes(path))
            if file.read(2) == _GZIP:
                file.seek(0)
                file = stack.enter_context(gzip.GzipFile(fileobj=file))
            else:
                file.seek(0)
            parts = _parts(path, file)
            first = next(parts, None)
            if first is None:
                raise TraceError(f"{path}: the file is empty; a Chakra trace begins with its GlobalMetadata")
            metadata = _parsed(kinds.metadata, first[1], kinds.error, f"{path}: byte 0: the GlobalMetadata")
            nodes = tuple(_node(path, number, each) for number, each in enumerate(parts, start=1))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"{path}: truncated or damaged gzip file: {error}") from None
    except (OSError, ValueError) as error:
        raise TraceError(unreadable(path, error)) from None
    return RankTrace(rank, str(path), metadata.version, _attributes(metadata), nodes)


def _node(path: Path, number: int, part: tuple[int, bytes]) -> ChakraNode:
    kinds, (start, content) = messages(), part
    message = _parsed(kinds.node, content, kinds.error, f"{path}: byte {start}: node {number}")
    return ChakraNode(
        id=message.id,
        name=message.name,
        type=message.type,
        ctrl_deps=tuple(message.ctrl_deps),
        data_deps=tuple(message.data_deps),
        start_micros=message.start_time_micros,
        duration_micros=message.duration_micros,
        attributes=_attributes(message),
        values=message.inputs.values,
    )


def _parsed(kind: Any, content: bytes, error: type[Exception], place: str) -> Any:
    message = kind()
    try:
        message.ParseFromString(content)
    except error:
        raise TraceError(f"{place} is no message of Chakra's schema (protobuf cannot decode it)") from None
    return message


def _attributes(message: Any) -> dict[str, Value]:
    """The attributes of a message; of equal names the last one counts."""
    found: dict[str, Value] = {}
    for attribute in message.attr:
        which = attribute.WhichOneof("value")
        if which is not None:
            value = getattr(attribute, which)
            value = tuple(value.values) if which.endswith("_list") else value
            found[attribute.name] = value.hex() if isinstance(value, bytes) else value
    return found


def _parts(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The first byte and the content of each message."""
    place = number = 0
    while True:
        length = shift = 0
        start = place
        while True:
            byte = file.read(1)
            if not byte:
                if place == start:
                    return
                raise TraceError(f"{path}: byte {start}: truncated in the length of message {number}")
            place += 1
            length |= (byte[0] & 127) << shift
            shift += 7
            if byte[0] < 128:
                break
            if shift > 28:
                raise TraceError(f"{path}: byte {start}: no length of a message; this is no Chakra trace")
        if length > LARGEST_MESSAGE:
            raise TraceError(f"{path}: byte {start}: a message of {length} bytes; this is no Chakra trace")
        content = file.read(length)
        if len(content) < length:
            missing = f"{length - len(content)} of {length} bytes are missing"
            raise TraceError(f"{path}: byte {start}: truncated in message {number}: {missing}")
        yield start, content
        place += length
        number += 1
