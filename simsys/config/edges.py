"""The edges of a custom network graph: inline, or in a separate YAML or CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self, get_args

from pydantic import ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from simsys.config.base import FrozenModel, invalid
from simsys.config.csv_table import CsvTable, Headings, read_csv_table
from simsys.config.document import Document, plain_value, read_document
from simsys.config.validation import validate
from simsys.units import BytesPerSecond, NonNegativeSeconds

HEADINGS = Headings(
    known=("from", "to", "bandwidth", "latency", "bidirectional", "kind"),
    needed=("from", "to"),
    example="from,to,bandwidth,latency",
)
"""Headings of a table of edges."""

_BUILT_IN = frozenset(get_args(ErrorType))

Name = Annotated[str, Field(min_length=1, max_length=100)]


class EdgeConfig(FrozenModel):
    """A cable between two vertices: ``gpu3``, ``node3``, or any other name, which is a switch.

    Bandwidth (of each direction) and latency default to the values of the network.
    """

    model_config = ConfigDict(populate_by_name=False)

    src: Name = Field(alias="from", description="Vertex at which the link begins, such as gpu0 or sw1")
    dst: Name = Field(alias="to", description="Vertex at which the link ends")
    bandwidth: BytesPerSecond | None = Field(
        default=None, description="Bandwidth; by default link_bandwidth of the network"
    )
    latency: NonNegativeSeconds | None = Field(
        default=None, description="Latency; by default base_latency of the network"
    )
    bidirectional: bool = Field(default=True, description="Whether there is a link in the other direction too")
    kind: Name = Field(default="custom", description="Kind of the link in the table of links")

    @model_validator(mode="after")
    def _two_ends(self) -> Self:
        if self.src == self.dst:
            raise invalid(f"an edge from {self.src} to itself; 'from' and 'to' are two vertices")
        return self


def _each_link_once(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Refuse a link that is given twice, and report it together with all other problems of the edges."""
    errors: list[InitErrorDetails] = []
    edges = None
    try:
        edges = handler(value)
    except ValidationError as error:
        errors += [_again(found) for found in error.errors()]
    for index, message in _doubles(value):
        errors.append(InitErrorDetails(type=invalid(message), loc=(index,), input=value[index]))
    if errors:
        raise ValidationError.from_exception_data("edges", errors)
    if not edges:
        raise invalid("a graph needs at least one edge, such as {from: gpu0, to: sw0}")
    return edges


def _again(error: Mapping[str, Any]) -> InitErrorDetails:
    """Return the details of a caught error, with which the same error can be raised again."""
    kind, context = error["type"], error.get("ctx", {})
    if kind not in _BUILT_IN:  # raised by a validator, with its own message
        kind, context = PydanticCustomError(kind, "{message}", {"message": error["msg"]}), {}
    return InitErrorDetails(type=kind, loc=error["loc"], input=error["input"], ctx=context)


def _doubles(edges: Any) -> Iterator[tuple[int, str]]:
    """Problems of edges that repeat a link of an earlier edge; `edges` are the values as written."""
    first: dict[tuple[str, str], int] = {}
    for index, edge in enumerate(edges if isinstance(edges, list | tuple) else ()):
        for src, dst in _links(edge):
            if (src, dst) in first:
                text = f"edge {first[src, dst]} (counted from 0) already joins {src} to {dst}"
                yield index, f"{text}; give one edge with the bandwidth of both"
                break
            first[src, dst] = index


def _links(edge: Any) -> list[tuple[str, str]]:
    """The directed links of an edge with two valid ends; empty for any other edge."""
    if isinstance(edge, EdgeConfig):
        edge = edge.model_dump(by_alias=True)
    if not isinstance(edge, Mapping):
        return []
    src, dst = edge.get("from"), edge.get("to")
    if not (isinstance(src, str) and isinstance(dst, str)) or src == dst:
        return []
    return [(src, dst), (dst, src)] if edge.get("bidirectional", True) else [(src, dst)]


Edges = Annotated[tuple[EdgeConfig, ...], Field(max_length=1_000_000), WrapValidator(_each_link_once)]


class EdgeFile(FrozenModel):
    """The content of a file of edges."""

    edges: Edges


def read_edges(path: Path) -> tuple[tuple[EdgeConfig, ...], Document | CsvTable]:
    """Read a file of edges: YAML with a list ``edges``, or CSV with a line of headings (from, to, bandwidth …).

    Returns:
        The edges, and the source that knows the place of each.

    Raises:
        ConfigError: With every problem of the file.
    """
    is_table = path.suffix.lower() == ".csv"
    source = read_csv_table(path, "edges", HEADINGS, _cell) if is_table else read_document(path)
    return validate(source, EdgeFile).edges, source


def _cell(name: str, text: str) -> Any:
    return plain_value(text) if name == "bidirectional" else text
