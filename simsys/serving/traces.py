"""Request traces: recorded arrivals and lengths, read from CSV files that are recognised by their header."""

from __future__ import annotations

import contextlib
import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

from simsys.errors import TraceError, UsageError, did_you_mean
from simsys.serving.requests import RequestTable

_MAX_LINE = 65_536  # characters; keeps a file without line ends from being read into memory whole
_MAX_REPORTED = 10
_MAX_DIGITS = 9  # of a token count
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})?"
)


@dataclass(frozen=True, slots=True)
class TraceReport:
    """What a trace holds, as read (so after `rate_scale`).

    Args:
        format: Name of the recognised format.
        rows: How many requests.
        span_s: Seconds from the first to the last arrival.
        mean_rate_per_s: Requests per second over the span; None if all arrive at once.
        mean_prompt_tokens: Average prompt length.
        mean_output_tokens: Average output length.
        gap_cv: Coefficient of variation of the gaps between arrivals: 1 for Poisson, more is burstier; None if
            all arrive at once. Gamma arrivals with burstiness 1 / gap_cv² have the same.
    """

    format: str
    rows: int
    span_s: float
    mean_rate_per_s: float | None
    mean_prompt_tokens: float
    mean_output_tokens: float
    gap_cv: float | None


@dataclass(frozen=True, slots=True)
class _Format:
    """How to read one format: its columns in the order of time, prompt and output, and the clock of the first."""

    name: str
    columns: tuple[str, str, str]
    read_time_ns: Callable[[str], int | None]


def _read_timestamp_ns(text: str) -> int | None:
    """Read ``2023-11-16 18:17:03.9799600`` as nanoseconds of the Unix epoch; None if it is no timestamp.

    Integers, because a float of seconds since 1970 keeps only about 0.2 us. Without an offset it is UTC.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(match[1] + (match[3] or "Z"))
    except ValueError:  # such as month 13
        return None
    return (moment - _EPOCH) // _SECOND * 1_000_000_000 + int((match[2] or "").ljust(9, "0"))


# Azure: the LLM inference traces of AzurePublicDataset, 2023 (7 decimals, no offset) and 2024 (with offset).
_FORMATS = (_Format("azure", ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _read_timestamp_ns),)


def read_trace(
    path: Path, *, max_requests: int | None = None, rate_scale: float = 1.0
) -> tuple[RequestTable, TraceReport]:
    """Read a request trace.

    Args:
        path: A CSV file with a header that names a known format; times in order.
        max_requests: Read only that many requests from the start; None reads all.
        rate_scale: Replay the trace this many times as fast, by dividing its times.

    Returns:
        The requests, with times in seconds from the first one, and what the trace holds.

    Raises:
        TraceError: If the file cannot be read, its header is unknown, or rows are broken or out of order; rows
            are counted from 1, the header included, as editors do.
        UsageError: If `max_requests` or `rate_scale` is not positive.
    """
    if max_requests is not None and max_requests < 1:
        raise UsageError(f"max_requests must be at least 1, not {max_requests}")
    if not (math.isfinite(rate_scale) and rate_scale > 0):
        raise UsageError(f"rate_scale must be a finite number above 0, not {rate_scale}")
    with _open(path) as file:
        try:
            lines = _lines(path, file)
            trace_format, header = _recognise(path, lines)
            times_ns, prompts, outputs = _read_columns(path, lines, trace_format, header, max_requests)
        except UnicodeDecodeError:
            raise TraceError(f"{path}: not UTF-8 text; a compressed trace must be unpacked first") from None
    start_ns, ns_per_s = times_ns[0], 1e9 * rate_scale
    table = RequestTable([(time_ns - start_ns) / ns_per_s for time_ns in times_ns], prompts, outputs)
    return table, _report(trace_format.name, table)


def _open(path: Path) -> TextIO:
    try:
        return path.open(encoding="utf-8-sig", newline="")
    except FileNotFoundError:
        hint = did_you_mean(path.name, [near.name for near in path.parent.glob("*.csv")])
        raise TraceError(f"{path}: no such file{hint}") from None
    except IsADirectoryError:
        raise TraceError(f"{path}: is a folder; name a trace file in it") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise TraceError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}") from None


def _lines(path: Path, file: TextIO) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their number as an editor counts."""
    for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE), ""), start=1):
        if len(line) >= _MAX_LINE:
            raise TraceError(f"{path}:{number}: a line of {_MAX_LINE} characters or more; this is no request trace")
        if "\0" in line:
            raise TraceError(f"{path}:{number}: holds binary data; a trace is a CSV file")
        if not line.isspace():
            yield number, line


def _cells(line: str) -> list[str]:
    """Split one line alone, so that an unclosed quote breaks its own row and not the rest of the file.

    Raises:
        csv.Error: If a quote is not closed.
    """
    return [cell.strip() for cell in next(csv.reader((line,), skipinitialspace=True, strict=True))]


def _recognise(path: Path, lines: Iterator[tuple[int, str]]) -> tuple[_Format, list[str]]:
    """Find the format whose columns are the header's, in any order."""
    number, line = next(lines, (0, ""))
    if not number:
        raise TraceError(f"{path}: the file is empty")
    with contextlib.suppress(csv.Error):
        header = _cells(line)
        for trace_format in _FORMATS:
            if sorted(trace_format.columns) == sorted(header):
                return trace_format, header
    found = line.strip()
    hint = did_you_mean(found, [",".join(known.columns) for known in _FORMATS])
    raise TraceError(f"{path}:{number}: unknown header {_shown(found)}{hint}")


def _read_columns(
    path: Path, lines: Iterator[tuple[int, str]], trace_format: _Format, header: list[str], limit: int | None
) -> tuple[list[int], list[int], list[int]]:
    """Read the rows into times in ns, prompt and output tokens; refuse the file if any row is broken."""
    times_ns: list[int] = []
    prompts: list[int] = []
    outputs: list[int] = []
    problems: list[str] = []
    read_row = _row_reader(trace_format, header)
    for rows, (number, line) in enumerate(lines, start=1):
        try:
            time_ns, prompt, output = read_row(line)
            times_ns.append(time_ns)
            prompts.append(prompt)
            outputs.append(output)
            if len(times_ns) > 1 and time_ns < times_ns[-2]:
                raise ValueError(
                    f"{trace_format.columns[0]} is earlier than in the row before; sort the trace by time"
                )
        except (ValueError, csv.Error) as error:
            problems.append(f"{path}:{number}: {error}")
        if rows == limit:
            break
    if problems:
        raise TraceError(_listed(problems))
    if not times_ns:
        raise TraceError(f"{path}: a header but no requests")
    return times_ns, prompts, outputs


def _row_reader(trace_format: _Format, header: list[str]) -> Callable[[str], tuple[int, int, int]]:
    """Make the function that reads one line; it raises ValueError or csv.Error saying what is wrong with it."""
    time_name, prompt_name, output_name = trace_format.columns
    time_at, prompt_at, output_at = (header.index(name) for name in trace_format.columns)
    read_time_ns = trace_format.read_time_ns

    def read_row(line: str) -> tuple[int, int, int]:
        cells = _cells(line)
        if len(cells) != len(header):
            raise ValueError(f"{len(header)} columns are needed, not {len(cells)}: {_shown(line.strip())}")
        time_ns = read_time_ns(cells[time_at])
        if time_ns is None:
            example = "2023-11-16 18:17:03.9799600"
            raise ValueError(f"{time_name} is {_shown(cells[time_at])}, not a time such as {example}")
        return time_ns, _tokens(prompt_name, cells[prompt_at]), _tokens(output_name, cells[output_at])

    return read_row


def _tokens(name: str, text: str) -> int:
    if len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit() and (tokens := int(text)):
        return tokens
    raise ValueError(f"{name} is {_shown(text)}, not a whole number from 1 to {10**_MAX_DIGITS - 1}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")


def _listed(problems: Sequence[str]) -> str:
    more = len(problems) - _MAX_REPORTED
    return "\n".join([*problems[:_MAX_REPORTED], *([f"and {more} more"] if more > 0 else [])])


def _report(name: str, table: RequestTable) -> TraceReport:
    return TraceReport(
        format=name,
        rows=len(table),
        span_s=table.span_s,
        mean_rate_per_s=table.mean_rate_per_s,
        mean_prompt_tokens=table.mean_prompt_tokens,
        mean_output_tokens=table.mean_output_tokens,
        gap_cv=table.gap_cv,
    )
