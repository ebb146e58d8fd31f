"""Opens a trace, recognises its format, and creates a table of requests."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from simsys.errors import TraceError, UsageError, did_you_mean
from simsys.input_files import not_text, open_text, unreadable
from simsys.serving.requests import RequestTable
from simsys.serving.traces.csv_formats import Line, read_column, read_csv
from simsys.serving.traces.json_documents import parse_document, read_document
from simsys.serving.traces.json_lines import SessionsFoundError, keys_like, read_lines, recognise
from simsys.serving.traces.rows import Rows, Skipped
from simsys.serving.traces.session_lines import is_sessions, read_sessions
from simsys.units import LONGEST_S

_MAX_LINE = 65_536  # characters; keeps a file without line ends from being read into memory whole
_JSON = ("{", "[")  # how it begins
_MOST_REASONS = 10


@dataclass(frozen=True)
class Trace:
    """A trace that was read.

    Args:
        format: Name of the recognised format.
        table: The requests, with times in seconds from the first one.
        timed: True if the format has arrival times.
        continues: True if later turns of sessions begin with the prompt and the answer before them.
        answered: True if all lengths of outputs are known; if not, some are 1 and to be replaced.
        unsorted: Rows that were earlier than the previous row; all were sorted by time.
        skipped: Rows that hold no request, by reason.
        remarks: Notes on the format or the order of rows, for readers of results.
    """

    format: str
    table: RequestTable
    timed: bool
    continues: bool
    answered: bool
    unsorted: int
    skipped: tuple[Skipped, ...]
    remarks: tuple[str, ...]


def read_trace(
    path: Path,
    *,
    max_requests: int | None = None,
    rate_scale: float = 1.0,
    start_s: float = 0.0,
    duration_s: float = math.inf,
    multi_turn: bool = False,
    block_tokens: int | None = None,
) -> Trace:
    """Read a request trace.

    Rows without a request (broken, cut off, no tokens, a time below 0) are skipped and counted; rows out of order
    are sorted by time.

    Args:
        path: A file of a known format.
        max_requests: Keep only that many, the first ones; None keeps all.
        rate_scale: Replay the trace this many times as fast, by dividing its times.
        start_s: Leave out requests before this time, counted from the first one, in seconds of the trace.
        duration_s: Leave out requests this long after `start_s` and later.
        multi_turn: Whether to read whole conversations, where the format has texts, and not only their beginnings.
        block_tokens: Tokens of a block of `hash_ids` of JSON lines; None for 512.

    Returns:
        The requests, with times in seconds from the first one that is kept, and how they were found.

    Raises:
        TraceError: If the file cannot be read, is of no known format, holds no request, or lasts too long.
        UsageError: If a number is out of its range.
    """
    _check_numbers(max_requests, rate_scale, start_s, duration_s, block_tokens)
    limit = max_requests if start_s == 0 and duration_s == math.inf else None
    name, rows = _read(path, limit, multi_turn=multi_turn, block_tokens=block_tokens)
    if not rows.times:
        why = f"; {_skips(rows)}" if rows.skipped else ""
        raise TraceError(f"{path}: a trace of format {name} without requests{why}")
    unsorted = sum(after < before for before, after in zip(rows.times, islice(rows.times, 1, None), strict=False))
    kept = _kept(rows, start_s, duration_s, max_requests)
    if not kept:
        raise _nothing_kept(path, rows, start_s, duration_s)
    remarks = list(rows.notes)
    if unsorted:
        remarks.append(f"{unsorted} of {len(rows.times)} rows were earlier than the row before; sorted by time")
    _check_length(path, rows, kept, rate_scale)
    notes = [f"format {name}", *remarks, *([_skips(rows)] if rows.skipped else [])]
    table = _table(rows, kept, rate_scale, tuple(f"trace {path.name}: {note}" for note in notes))
    facts = name, table, rows.timed, rows.continues, rows.answered, unsorted
    return Trace(*facts, tuple(rows.skipped.values()), tuple(remarks))


def _nothing_kept(path: Path, rows: Rows, start_s: float, duration_s: float) -> TraceError:
    span_s = (max(rows.times) - min(rows.times)) / rows.ticks_per_s
    when = f"from {start_s:g} s on" if duration_s == math.inf else f"from {start_s:g} s for {duration_s:g} s"
    return TraceError(f"{path}: no request {when}; the trace lasts {span_s:g} s")


def _check_numbers(
    max_requests: int | None, rate_scale: float, start_s: float, duration_s: float, block_tokens: int | None
) -> None:
    if block_tokens is not None and block_tokens < 1:
        raise UsageError(f"tokens of a block must be at least 1, not {block_tokens}")
    if max_requests is not None and max_requests < 1:
        raise UsageError(f"max_requests must be at least 1, not {max_requests}")
    if not (math.isfinite(rate_scale) and rate_scale > 0):
        raise UsageError(f"rate_scale must be a finite number above 0, not {rate_scale}")
    if not (math.isfinite(start_s) and start_s >= 0 and duration_s > 0):
        raise UsageError(f"start must be 0 s or more and duration above, not {start_s} s and {duration_s} s")


def _check_length(path: Path, rows: Rows, kept: Sequence[int], rate_scale: float) -> None:
    lasts_s = (rows.times[kept[-1]] - rows.times[kept[0]]) / (rows.ticks_per_s * rate_scale)
    if lasts_s > LONGEST_S:
        raise TraceError(
            f"{path}: requests arrive for {lasts_s:.3g} s, at most {LONGEST_S:g} s (300 years) are simulated; "
            "leave some out with duration, or replay them faster with rate_scale"
        )


def read_lengths(path: Path, column: str) -> list[int]:
    """Read one column of any CSV file with a header as lengths; rows without one are skipped.

    Raises:
        TraceError: If the file cannot be read, or the column is missing or holds no length at all.
    """
    with _open(path) as file:
        try:
            lines = _lines(path, file)
            values, skipped = read_column(str(path), chain((_first(path, lines),), lines), column)
        except UnicodeDecodeError:
            raise _not_text(path) from None
    if not values:
        raise TraceError(f"{path}: column {column!r} holds no lengths; skipped {_listed(skipped) or 'no row'}")
    return values


def _read(path: Path, limit: int | None, *, multi_turn: bool, block_tokens: int | None) -> tuple[str, Rows]:
    """Distinguish a CSV file, JSON lines and a JSON document by the first line."""
    with _open(path) as file:
        try:
            lines = _lines(path, file)
            first = _first(path, lines)
            if not first[1].lstrip().startswith(_JSON):
                return read_csv(str(path), chain((first,), lines), limit)
            found = _parsed(first[1])
            name = is_sessions(found) if isinstance(found, dict) else ""
            known = None if name else recognise(found)
            if known is not None:
                try:
                    return known.name, read_lines(known, first, lines, limit)
                except SessionsFoundError:
                    name = known.name
                    file.seek(0)
                    lines = _lines(path, file)
                    first = _first(path, lines)
            if name:
                return name, read_sessions(str(path), name, first, lines, limit, block_tokens)
            rest = file.read()
            if isinstance(found, dict) and rest.strip():
                raise TraceError(
                    f"{path}:{first[0]}: unknown keys of JSON lines: {', '.join(found)[:80]}{keys_like(found)}"
                )
            if found is None or rest.strip():
                found = parse_document(str(path), first[1] + rest)
            return read_document(str(path), found, limit, multi_turn=multi_turn)
        except UnicodeDecodeError:
            raise _not_text(path) from None


def _parsed(line: str) -> object:
    """The JSON value of a line; None if the line is not a complete value."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _open(path: Path) -> TextIO:
    try:
        return open_text(path)
    except FileNotFoundError:
        near = [each.name for each in path.parent.glob("*") if each.suffix in (".csv", ".json", ".jsonl")]
        raise TraceError(f"{path}: no such file{did_you_mean(path.name, near)}") from None
    except IsADirectoryError:
        raise TraceError(f"{path}: is a folder; name a trace file in it") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise TraceError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}") from None


def _lines(path: Path, file: TextIO) -> Iterator[Line]:
    """Yield the lines that are not blank, with their number as an editor counts."""
    for number, line in enumerate(iter(partial(file.readline, _MAX_LINE), ""), start=1):
        if len(line) >= _MAX_LINE:
            if not line.lstrip().startswith(_JSON):  # which may well be one line
                raise TraceError(
                    f"{path}:{number}: a line of {_MAX_LINE} characters or more; this is no request trace"
                )
            line += file.readline()
        if "\0" in line:
            raise TraceError(f"{path}:{number}: holds binary data; a trace is text")
        if not line.isspace():
            yield number, line


def _first(path: Path, lines: Iterator[Line]) -> Line:
    first = next(lines, None)
    if first is None:
        raise TraceError(f"{path}:1: the file is empty")
    return first


def _not_text(path: Path) -> TraceError:
    return TraceError(f"{unreadable(path, not_text(path))}; a compressed trace must be unpacked first")


def _kept(rows: Rows, start_s: float, duration_s: float, most: int | None) -> list[int]:
    """The rows of a window of time, in order of time."""
    first = min(rows.times)
    since = [time - first for time in rows.times]
    order = sorted(range(len(since)), key=since.__getitem__)
    ends = (start_s * rows.ticks_per_s, (start_s + duration_s) * rows.ticks_per_s)
    begin, end = (bisect_left(order, ticks, key=since.__getitem__) for ticks in ends)
    return order[begin:end][:most]


def _table(rows: Rows, kept: list[int], rate_scale: float, notes: tuple[str, ...]) -> RequestTable:
    """The requests at some rows, in this order; those with an omitted predecessor wait for none."""
    first, ticks_per_s = rows.times[kept[0]], rows.ticks_per_s * rate_scale
    prompts = [rows.prompt_tokens[row] for row in kept]
    extra: dict[str, Any] = {name: [column[row] for row in kept] for name, column in rows.extra.items()}
    if "after" in extra:
        index = {rows.places[row]: place for place, row in enumerate(kept)}
        found = [index.get(before, -1) for before in extra["after"]]
        extra["after"] = [before if before < place else -1 for place, before in enumerate(found)]
        if "joins" in extra:
            extra["joins"] = [
                tuple(index[each] for each in others if index.get(each, place) < place) if before >= 0 else ()
                for place, (others, before) in enumerate(zip(extra["joins"], extra["after"], strict=True))
            ]
    if "hash_ids" in extra:
        pairs = zip(extra["hash_ids"], prompts, strict=True)
        extra["hash_ids"] = [ids[: prompt // rows.block_tokens] for ids, prompt in pairs]
    return RequestTable(
        [(rows.times[row] - first) / ticks_per_s for row in kept],
        prompts,
        [rows.output_tokens[row] for row in kept],
        hash_block_tokens=rows.block_tokens,
        notes=notes,
        **extra,
    )


def _skips(rows: Rows) -> str:
    number = sum(each.rows for each in rows.skipped.values())
    return f"skipped {number} of {number + len(rows.times)} rows: {_listed(list(rows.skipped.values()))}"


def _listed(skipped: list[Skipped]) -> str:
    more = len(skipped) - _MOST_REASONS
    return "; ".join([*map(str, skipped[:_MOST_REASONS]), *([f"and {more} more reasons"] if more > 0 else [])])
