"""An independent reader and writer of the wire format, from the schema alone, without protobuf."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

Field = tuple[int, int, Any]
"""Number, wire type and raw value of a field."""


def varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def encoded(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def fields(data: bytes) -> Iterator[Field]:
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = varint(data, place)
        elif kind == 1:
            (value,), place = struct.unpack("<d", data[place : place + 8]), place + 8
        elif kind == 2:
            length, place = varint(data, place)
            value, place = data[place : place + length], place + length
        else:
            raise AssertionError(f"wire type {kind}")
        yield number, kind, value


def messages(data: bytes) -> list[bytes]:
    found, place = [], 0
    while place < len(data):
        length, place = varint(data, place)
        found.append(data[place : place + length])
        place += length
    return found


def attributes(found: list[Field], number: int) -> dict[str, Any]:
    """AttributeProto: name = 1; double_val = 3, int32 = 7, int64 = 9, uint64 = 13, bool = 27, string = 29."""
    result = {}
    for each, _, content in found:
        if each == number:
            inner = {place: value for place, _, value in fields(content)}
            name = inner.pop(1).decode()
            ((place, value),) = inner.items()
            result[name] = {3: float, 7: int, 9: int, 13: int, 27: bool, 29: lambda text: text.decode()}[place](value)
    return result


def node(data: bytes) -> dict[str, Any]:
    """Node: id = 1, name = 2, type = 3, ctrl_deps = 4, data_deps = 5 (packed), times = 6 and 7, attr = 10."""
    found = list(fields(data))
    plain = {number: value for number, kind, value in found if kind == 0}

    def numbers(field: int) -> list[int]:
        packed = b"".join(value for number, _, value in found if number == field)
        values, place = [], 0
        while place < len(packed):
            value, place = varint(packed, place)
            values.append(value)
        return values

    return {
        "id": plain.get(1, 0),
        "name": next((value.decode() for number, _, value in found if number == 2), ""),
        "type": plain.get(3, 0),
        "ctrl_deps": numbers(4),
        "data_deps": numbers(5),
        "start": plain.get(6, 0),
        "duration": plain.get(7, 0),
        **attributes(found, 10),
    }


def written(*parts: tuple[int, int | str | bytes]) -> bytes:
    """A message of varints and of text."""
    found = b""
    for number, value in parts:
        if isinstance(value, int):
            found += encoded(number << 3) + encoded(value)
        else:
            content = value.encode() if isinstance(value, str) else value
            found += encoded(number << 3 | 2) + encoded(len(content)) + content
    return found


def framed(*contents: bytes) -> bytes:
    return b"".join(encoded(len(content)) + content for content in contents)
