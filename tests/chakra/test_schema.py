"""The messages of the schema, made at run time."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from simsys.chakra import schema
from simsys.errors import UsageError


def test_attributes_have_the_numbers_of_the_schema() -> None:
    fields = schema.messages().node.DESCRIPTOR.fields_by_name["attr"].message_type.fields_by_name
    numbers = {name: field.number for name, field in fields.items()}
    assert {name: numbers[name] for name in ("double_val", "int64_val", "uint64_val", "bool_val", "string_val")} == {
        "double_val": 3,
        "int64_val": 9,
        "uint64_val": 13,
        "bool_val": 27,
        "string_val": 29,
    }
    assert (numbers["bool_list"], numbers["bytes_list"], len(numbers)) == (28, 32, 32)


def test_without_protobuf_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.startswith("google"):
            raise ImportError(name)
        return whole(name, *args)

    schema.messages.cache_clear()
    for name in [name for name in sys.modules if name.startswith("google")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install 'simsys\[chakra\]'"):
        schema.messages()
