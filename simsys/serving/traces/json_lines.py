"""Traces as JSON lines: one object for each request. A format is an entry of `LINE_FORMATS`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from simsys.errors import did_you_mean
from simsys.serving.traces.rows import BadRow, Rows, brief, time_value, tokens_value

Line = tuple[int, str]

_value_at_start = json.JSONDecoder().raw_decode


@dataclass(frozen=True)
class LineFormat:
    """A format: the names of its keys. Other keys are ignored.

    Args:
        name: Name of the format. time: Key of the arrivals.
        prompt: Key of the prompt tokens.
        output: Key of the output tokens.
        ticks_per_s: Unit of the times.
        hash_ids: Key of the ids of prefix blocks; empty if there is none.
        block_tokens: Tokens of such a block.
    """

    name: str
    time: str
    prompt: str
    output: str
    ticks_per_s: float
    hash_ids: str = ""
    block_tokens: int = 0


LINE_FORMATS = (
    # Mooncake (Qin et al. 2025): milliseconds, and the ids of blocks of 512 tokens, the last of which may be partial.
    LineFormat("mooncake", "timestamp", "input_length", "output_length", 1e3, "hash_ids", 512),
    # The simulator LLMServingSim, version 2.
    LineFormat("llmservingsim", "arrival_time_ns", "input_toks", "output_toks", 1e9),
)


def recognise(found: object) -> LineFormat | None:
    """The format with the keys of an object, or None."""
    if not isinstance(found, dict):
        return None
    return next((known for known in LINE_FORMATS if {known.prompt, known.output} <= found.keys()), None)


def keys_like(found: Iterable[str]) -> str:
    """The keys of the format that is most like some keys, or of all formats; for messages."""
    return did_you_mean(", ".join(found), [f"{known.time}, {known.prompt}, {known.output}" for known in LINE_FORMATS])


class SessionsFoundError(Exception):
    """Lines of independent requests are followed by a second turn of a session."""


def read_lines(known: LineFormat, first: Line, lines: Iterator[Line], limit: int | None) -> Rows:
    """Read a trace.

    Args:
        known: Its format.
        first: The first nonblank line, with its number.
        lines: The other lines.
        limit: Largest number of requests; None reads all.

    Raises:
        SessionsFoundError: If lines belong together, which another reader reads.
    """
    rows = Rows(known.ticks_per_s)
    columns: list[tuple[int, ...]] = []
    sessions = set[object]()
    for place, (number, line) in enumerate(chain((first,), lines)):
        try:
            found = object_of(line)
            time = time_value(known.time, found.get(known.time))
            prompt = tokens_value(known.prompt, found.get(known.prompt))
            output = tokens_value(known.output, found.get(known.output))
            ids = _ids(known, found.get(known.hash_ids, []), prompt)
        except BadRow as why:
            rows.skip(number, why)
            continue
        session = found.get("session_id")
        if isinstance(session, str):
            if session in sessions:
                raise SessionsFoundError
            sessions.add(session)
        rows.add(place, time, prompt, output)
        columns.append(ids)
        if len(columns) == limit:
            break
    if any(columns):
        rows.extra["hash_ids"], rows.block_tokens = columns, known.block_tokens
    return rows


def object_of(line: str) -> dict[str, object]:
    """The JSON object that a line holds; raises `BadRow` if it holds none."""
    text = line.strip()
    try:
        found, end = _value_at_start(text)  # json.loads is 50 % slower
    except (ValueError, RecursionError):
        raise BadRow("text that is not JSON", text) from None
    if end != len(text):
        raise BadRow("text that is not JSON", text)
    if not isinstance(found, dict):
        raise BadRow("a value that is no object", brief(found))
    return found


def _ids(known: LineFormat, found: object, prompt_tokens: int) -> tuple[int, ...]:
    """The ids of the full blocks of a prompt; a partial one could not be shared."""
    if not isinstance(found, list) or not set(map(type, found)) <= {int}:
        raise BadRow(f"{known.hash_ids} that are no list of whole numbers", brief(found))
    return tuple(found[: prompt_tokens // known.block_tokens]) if known.block_tokens else ()
