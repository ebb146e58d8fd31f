"""The messages of Chakra's schema, made at run time, so that any installed protobuf release will do.

Generated code refuses to load with a protobuf older than its generator. Field names and numbers are facts of
mlcommons/chakra, schema/protobuf/et_def.proto. Fields that simsys does not use, such as those of storage nodes, are
unknown fields here, which protobuf passes over.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from simsys.errors import UsageError

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

PACKAGE = "ChakraProtoMsg"
SCALARS = (
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
)
"""Types of attributes in the order of their numbers: the value of the first is field 3, a list of them field 4."""

_MESSAGES: dict[str, tuple[tuple[str, int, str, bool], ...]] = {
    "GlobalMetadata": (("version", 1, "string", False), ("attr", 2, "AttributeProto", True)),
    "IOInfo": (("values", 1, "string", False), ("shapes", 2, "string", False), ("types", 3, "string", False)),
    "Node": (
        ("id", 1, "uint64", False),
        ("name", 2, "string", False),
        ("type", 3, "int32", False),  # an enumeration, which has the same encoding and allows unknown numbers
        ("ctrl_deps", 4, "uint64", True),
        ("data_deps", 5, "uint64", True),
        ("start_time_micros", 6, "uint64", False),
        ("duration_micros", 7, "uint64", False),
        ("inputs", 8, "IOInfo", False),
        ("outputs", 9, "IOInfo", False),
        ("attr", 10, "AttributeProto", True),
    ),
}
"""Name, number, type and repetition of the fields of each message."""


class Messages(NamedTuple):
    """Classes of the messages of a file.

    Args:
        metadata: ``GlobalMetadata``, the first message.
        node: ``Node``, all other messages.
        error: What protobuf raises if bytes are no such message.
    """

    metadata: Any
    node: Any
    error: type[Exception]


@lru_cache(maxsize=1)
def messages() -> Messages:
    """The classes of the messages.

    Raises:
        UsageError: If protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pool, message_factory
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.message import DecodeError
    except ImportError:
        raise UsageError("Chakra traces need protobuf; install it with: pip install 'simsys[chakra]'") from None
    pool = descriptor_pool.DescriptorPool()  # apart from a program's own module of this schema
    pool.Add(_file(FileDescriptorProto()))
    classes = [
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in ("GlobalMetadata", "Node")
    ]
    return Messages(classes[0], classes[1], DecodeError)


def _file(file: FileDescriptorProto) -> FileDescriptorProto:
    """Describe the file of the schema."""
    file.name, file.package, file.syntax = "simsys/chakra.proto", PACKAGE, "proto3"
    attribute = file.message_type.add(name="AttributeProto")
    _add_field(attribute, "name", 1, "string")
    _add_field(attribute, "doc_string", 2, "string")
    attribute.oneof_decl.add(name="value")
    for place, scalar in enumerate(SCALARS):
        listed = file.message_type.add(name=f"{scalar.capitalize()}List")
        _add_field(listed, "values", 1, scalar, repeated=True)
        for number, name, kind in ((3, "val", scalar), (4, "list", listed.name)):
            _add_field(attribute, f"{scalar}_{name}", number + 2 * place, kind)
            attribute.field[-1].oneof_index = 0
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind, repeated in fields:
            _add_field(message, field_name, number, kind, repeated=repeated)
    return file


def _add_field(message: DescriptorProto, name: str, number: int, kind: str, *, repeated: bool = False) -> None:
    """Add a field of a scalar type or of a message of the schema."""
    field = message.field.add(name=name, number=number)
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if kind in SCALARS:
        field.type = field.Type.Value(f"TYPE_{kind.upper()}")
    else:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
