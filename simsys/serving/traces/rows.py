"""Common parts of all readers: the rows of a trace, and skipped rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_TOKENS = 999_999_999
MOST_TICKS = 1e30  # in any unit far beyond the age of the universe


class BadRow(Exception):  # noqa: N818  # a row that is skipped is no error
    """A row without a request.

    Args:
        reason: The problem, in equal words for all rows of its kind.
        found: The offending text.
    """

    def __init__(self, reason: str, found: str = "") -> None:
        self.reason, self.found = reason, found
        super().__init__(reason)


@dataclass(slots=True)
class Skipped:
    """Rows skipped for the same reason.

    Args:
        reason: The problem.
        first_row: The first row: a line number or, in a JSON document, an entry counted from 1.
        example: The offending text, or empty.
        rows: Number of rows.
    """

    reason: str
    first_row: int
    example: str
    rows: int = 1

    def __str__(self) -> str:
        example = f": {shown(self.example)}" if self.example else ""
        return f"{self.rows} with {self.reason} (first in row {self.first_row}{example})"


@dataclass(slots=True)
class Rows:
    """The requests of a trace in the order of the file, column by column; columns that a format lacks stay empty.

    Args:
        ticks_per_s: Unit of the times.
        timed: Whether the format has times at all.
        continues: Whether each later turn of a session begins with the prompt and the answer before it.
        answered: Whether all lengths of outputs are known; if not, they are to be drawn.
        block_tokens: Tokens of a block of `hash_ids`.
        times: Arrival time of each request, in ticks from any start.
        prompt_tokens: Tokens of the prompts.
        output_tokens: Tokens of the outputs.
        extra: Optional columns of a `RequestTable`, by name. `after` holds places in the file, as in `places`.
        places: Place of each request among all rows of the file, skipped ones included, counted from 0.
        skipped: Rows that hold no request, by reason.
        notes: Notes on the format, for readers of results.
    """

    ticks_per_s: float = 1.0
    timed: bool = True
    answered: bool = True
    continues: bool = False
    block_tokens: int = 0
    times: list[float] = field(default_factory=list)
    prompt_tokens: list[int] = field(default_factory=list)
    output_tokens: list[int] = field(default_factory=list)
    extra: dict[str, list[Any]] = field(default_factory=dict)
    places: list[int] = field(default_factory=list)
    skipped: dict[str, Skipped] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, place: int, time: float, prompt_tokens: int, output_tokens: int) -> None:
        """Add a request."""
        self.places.append(place)
        self.times.append(time)
        self.prompt_tokens.append(prompt_tokens)
        self.output_tokens.append(output_tokens)

    def add_all(
        self, place: int, times: Sequence[float], prompt_tokens: Sequence[int], output_tokens: Sequence[int]
    ) -> None:
        """Keep requests that stand one after another in the file, from a place on."""
        self.places += range(place, place + len(times))
        self.times += times
        self.prompt_tokens += prompt_tokens
        self.output_tokens += output_tokens

    def skip(self, row: int, why: BadRow) -> None:
        """Count a row that holds no request."""
        known = self.skipped.get(why.reason)
        if known is None:
            self.skipped[why.reason] = Skipped(why.reason, row, why.found)
        else:
            known.rows += 1


def tokens_text(name: str) -> Callable[[str], int]:
    """Make the function that reads a text as a number of tokens, of a column called `name`."""
    reason, missing = f"{name} that is not a whole number from 1 to {MOST_TOKENS}", f"{name} of 0 or less"

    def read(text: str) -> int:
        if text.isdigit() and text.isascii() and len(text) <= 9 and (tokens := int(text)):
            return tokens
        negative = text[1:] if text.startswith("-") else ""
        none = text.isascii() and text.isdigit() and not text.strip("0")
        raise BadRow(missing if none or (negative.isascii() and negative.isdigit()) else reason, text)

    return read


def time_text(name: str) -> Callable[[str], float]:
    """Make the function that reads a text as a time in ticks, of a column called `name`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if 0 <= value <= MOST_TICKS:
            return value
        raise BadRow(f"{name} below 0" if value < 0 else f"{name} that is no time", text)

    return read


def tokens_value(name: str, value: object) -> int:
    """Check that a value of a JSON file is a number of tokens; `name` says which."""
    if type(value) is int and 1 <= value <= MOST_TOKENS:
        return value
    if type(value) is int and value < 1:
        raise BadRow(f"{name} of 0 or less", brief(value))
    raise BadRow(f"{name} that is not a whole number from 1 to {MOST_TOKENS}", brief(value))


def time_value(name: str, value: object) -> float:
    """Check that a value of a JSON file is a time; `name` says which."""
    if type(value) in (int, float) and 0 <= value <= MOST_TICKS:  # type: ignore[operator]  # a number by then
        return value  # type: ignore[return-value]
    negative = type(value) in (int, float) and value < 0  # type: ignore[operator]
    raise BadRow(f"{name} below 0" if negative else f"{name} that is no time", brief(value))


def brief(value: object) -> str:
    """A JSON value in a message: texts and numbers as they are, other values by their kind."""
    if isinstance(value, str | float) or value is None or (isinstance(value, int) and abs(value) < MOST_TICKS):
        return str(value)
    return f"a {type(value).__name__}"


def shown(text: str) -> str:
    """A text in quotes, at most 80 characters of it."""
    return repr(text if len(text) <= 80 else text[:79] + "…")
