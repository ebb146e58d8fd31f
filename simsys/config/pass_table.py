"""Tables of measured forward passes: new tokens, cached tokens and sequences of a batch, and the time of its pass."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.config.csv_table import CsvTable, Headings, read_csv_table
from simsys.config.validation import validate

UNITS = {"time_s": 1.0, "time_ms": 1e-3, "time_us": 1e-6}
"""The headings of the time, with their units in seconds."""
KEY = "passes"
Time = Annotated[float, Field(gt=0.0, le=3600e6, allow_inf_nan=False)]


def _unit(name: str) -> str:
    if not name.startswith(("time", "latency", "duration")):
        return ""
    return f"heading {name!r} has no unit or another name; the time is {', '.join(UNITS)}"


HEADINGS = Headings(
    known=("sequences", "new_tokens", "context_tokens", *UNITS),
    needed=("sequences", "new_tokens", "context_tokens"),
    example="sequences,new_tokens,context_tokens,time_ms",
    renamed=_unit,
)


class PassRow(FrozenModel):
    """A measured forward pass; all tokens are sums over the sequences of the batch."""

    sequences: PositiveInt = Field(description="Sequences of the batch")
    new_tokens: PositiveInt = Field(description="Tokens that go through the weights, of all sequences")
    context_tokens: NonNegativeInt = Field(description="Cached tokens before these, of all sequences")
    time_s: Time | None = Field(default=None, description="Time of the pass in seconds")
    time_ms: Time | None = Field(default=None, description="Time of the pass in milliseconds")
    time_us: Time | None = Field(default=None, description="Time of the pass in microseconds")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if sum(getattr(self, name) is not None for name in UNITS) != 1:
            raise invalid(f"one time is needed, as {', '.join(UNITS)}")
        if self.new_tokens < self.sequences:
            raise invalid("fewer new tokens than sequences; they are a sum over the batch, one or more for each")
        return self

    @property
    def seconds(self) -> float:
        """The time of the pass."""
        given = {name: getattr(self, name) for name in UNITS}
        return float(next(time * UNITS[name] for name, time in given.items() if time is not None))


class PassTable(FrozenModel):
    """The content of a file of measured passes."""

    passes: Annotated[tuple[PassRow, ...], Field(min_length=4, max_length=100_000)]


def read_passes(path: Path) -> tuple[tuple[PassRow, ...], CsvTable]:
    """Read a table of measured passes.

    Returns:
        The rows, and the table that knows the line of each.

    Raises:
        ConfigError: With every problem of the file.
    """
    table = read_csv_table(path, KEY, HEADINGS, _cell)
    return validate(table, PassTable).passes, table


def _cell(name: str, text: str) -> Any:
    return text
