"""Traces as CSV files with a header. A format is an entry of `CSV_FORMATS`."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from simsys.errors import TraceError, did_you_mean
from simsys.serving.traces.columns import columns, times_column, timestamps_column, tokens_column
from simsys.serving.traces.csv_cells import Reader, ids_cell, label_cell, timestamp_cell, whole_cell
from simsys.serving.traces.rows import BadRow, Rows, Skipped, shown, time_text, tokens_text

Line = tuple[int, str]

HASH_BLOCK = "hash_block_tokens"
_BLOCK = 4096  # rows that are read at once


@dataclass(frozen=True)
class CsvFormat:
    """A format: the names of its columns.

    Args:
        name: Name of the format. time: Column of the arrivals; empty if the format has none.
        prompt: Column of the prompt tokens.
        output: Column of the output tokens.
        read_time: Creates the function that reads a time in ticks, from the name of the column.
        read_times: Reads many plain times at once.
        ticks_per_s: Unit of the times.
        extra: Optional columns of a `RequestTable`, by column of the file, with the factory of their reader.
        others: Further columns of the format, which are not used.
    """

    name: str
    time: str
    prompt: str
    output: str
    read_time: Callable[[str], Reader] = time_text
    read_times: Callable[[Sequence[str]], Sequence[float]] = times_column
    ticks_per_s: float = 1.0
    extra: Mapping[str, tuple[str, Callable[[str], Reader]]] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that it must have."""
        return (self.time, self.prompt, self.output) if self.time else (self.prompt, self.output)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it may have."""
        return (*self.needed, *self.extra, *self.others)


_VIDUR_OTHERS = ("num_total_tokens", "pd_ratio")

CSV_FORMATS = (
    # The format of `import-trace --out`; names as in `RequestTable`.
    CsvFormat(
        "simsys",
        "arrival_s",
        "prompt_tokens",
        "output_tokens",
        extra={
            "priority": ("priority", whole_cell(-(10**9))),
            "tenant": ("tenant", whole_cell(0)),
            "session": ("session", whole_cell(0)),
            "turn": ("turn", whole_cell(0)),
            "after": ("after", whole_cell(-1)),
            "think_s": ("think_s", time_text),
            "joins": ("joins", ids_cell),
            "hash_ids": ("hash_ids", ids_cell),
        },
        others=(HASH_BLOCK,),
    ),
    # AzurePublicDataset's LLM inference traces, 2023 (7 decimals, no offset) and 2024 (with offset).
    CsvFormat("azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens", timestamp_cell, timestamps_column, 1e9),
    # BurstGPT (Wang et al. 2024), with sessions since version 1.2; seconds from the first day.
    CsvFormat(
        "burstgpt",
        "Timestamp",
        "Request tokens",
        "Response tokens",
        extra={"Session ID": ("session", label_cell)},
        others=("Elapsed time", "Model", "Total tokens", "Log Type"),
    ),
    # The simulator Vidur (Agrawal et al. 2024); its traces of lengths have no arrivals.
    CsvFormat("vidur", "arrived_at", "num_prefill_tokens", "num_decode_tokens", others=_VIDUR_OTHERS),
    CsvFormat("vidur-lengths", "", "num_prefill_tokens", "num_decode_tokens", others=_VIDUR_OTHERS),
    # The simulator splitwise-sim (Patel et al. 2024).
    CsvFormat(
        "splitwise",
        "arrival_timestamp",
        "prompt_size",
        "token_size",
        extra={"application_id": ("tenant", label_cell)},
        others=("request_id", "request_type", "batch_size"),
    ),
)


def read_csv(path: str, lines: Iterator[Line], limit: int | None) -> tuple[str, Rows]:
    """Read a trace with a header.

    Args:
        path: Path for messages.
        lines: The nonblank lines, with their numbers; at least one.
        limit: Largest number of requests; None reads all.

    Returns:
        The name of the format, and the requests.

    Raises:
        TraceError: If no format has this header, or requests join others without being after one.
    """
    number, line = next(lines)
    known, header = _recognise(f"{path}:{number}", line.strip())
    if "joins" in header and "after" not in header:
        raise TraceError(f"{path}:{number}: joins are other requests to wait for beside after, which is no column")
    rows = Rows(known.ticks_per_s, timed=bool(known.time))
    read_row = _row_reader(known, header, rows)
    extra = [rows.extra.setdefault(to, []) for name, (to, _) in known.extra.items() if name in header]
    plain = not extra and HASH_BLOCK not in header
    place = 0
    while len(rows.times) != limit:
        block = list(islice(lines, _BLOCK if limit is None else min(_BLOCK, limit - len(rows.times))))
        if not block:
            break
        line = block[-1][1]
        if not (plain and _add_columns(known, header, rows, place, [line for _, line in block])):
            _add_each(read_row, rows, extra, place, block)
        place += len(block)
    if not line.endswith(("\n", "\r")) and rows.places and rows.places[-1] == place - 1:
        rows.notes.append("the last row has no line end; if the file was cut off, its last number is too")
    return known.name, rows


def _add_columns(known: CsvFormat, header: list[str], rows: Rows, place: int, lines: list[str]) -> bool:
    """Keep the requests of some rows, of which the first has a place in the file, if all are plain."""
    try:
        cells = columns(lines)
        if len(cells) != len(header):
            return False
        prompts, outputs = (tokens_column(cells[header.index(name)]) for name in (known.prompt, known.output))
        times = known.read_times(cells[header.index(known.time)]) if known.time else [0.0] * len(lines)
    except ValueError:
        return False
    rows.add_all(place, times, prompts, outputs)
    return True


def _add_each(
    read_row: Callable[[str], tuple[Any, ...]], rows: Rows, extra: list[list[Any]], place: int, block: list[Line]
) -> None:
    """Keep the requests of some rows, of which the first has a place in the file; skip the rows without one."""
    for at, (number, line) in enumerate(block, place):
        try:
            time, prompt, output, *values = read_row(line)
        except BadRow as why:
            rows.skip(number, why)
            continue
        rows.add(at, time, prompt, output)
        for column, value in zip(extra, values, strict=True):
            column.append(value)


def read_column(path: str, lines: Iterator[Line], column: str) -> tuple[list[int], list[Skipped]]:
    """Read one column of any CSV file with a header as numbers of tokens.

    Returns:
        The numbers, and the rows without one.

    Raises:
        TraceError: If there is no such column.
    """
    number, line = next(lines)
    header = _cells(line)
    if column not in header:
        raise TraceError(f"{path}:{number}: no column {shown(column)}{did_you_mean(column, header)}")
    at, read, rows, values = header.index(column), tokens_text(column), Rows(), []
    for number, line in lines:
        try:
            cells = _cells(line)
            if len(cells) != len(header):
                raise _wrong_width(header, line)
            values.append(read(cells[at]))
        except BadRow as why:
            rows.skip(number, why)
    return values, list(rows.skipped.values())


def _recognise(place: str, found: str) -> tuple[CsvFormat, list[str]]:
    """Find the format that has all columns of the header, in any order."""
    with contextlib.suppress(BadRow):
        header = _cells(found)
        for known in CSV_FORMATS:
            if set(known.needed) <= set(header):
                strange = [name for name in header if name not in known.columns]
                if strange:
                    hint = did_you_mean(strange[0], known.columns)
                    raise TraceError(f"{place}: unknown column {shown(strange[0])} of format {known.name}{hint}")
                if "hash_ids" in header and HASH_BLOCK not in header:
                    raise TraceError(f"{place}: hash_ids need a column {HASH_BLOCK}, the tokens of a block")
                if len(set(header)) < len(header):
                    raise TraceError(f"{place}: a column occurs twice in {shown(found)}")
                return known, header
    headers = [",".join(known.needed) for known in CSV_FORMATS]
    hint = did_you_mean(found, headers)
    raise TraceError(f"{place}: unknown header {shown(found)}{hint}")


def _row_reader(known: CsvFormat, header: list[str], rows: Rows) -> Callable[[str], tuple[Any, ...]]:
    """Make the function that reads one line as time, prompt, output and the optional columns, in this order."""
    width = len(header)
    readers: list[tuple[int, Reader]] = [(0, lambda _: 0.0)]
    if known.time:
        readers = [(header.index(known.time), known.read_time(known.time))]
    readers += [(header.index(name), tokens_text(name)) for name in (known.prompt, known.output)]
    readers += [(header.index(name), make(name)) for name, (_, make) in known.extra.items() if name in header]
    block_at = header.index(HASH_BLOCK) if HASH_BLOCK in header else None

    def read_row(line: str) -> tuple[Any, ...]:
        cells = _cells(line)
        if len(cells) != width:
            raise _wrong_width(header, line)
        if block_at is not None:
            _same_block(rows, cells[block_at])
        return tuple([read(cells[at]) for at, read in readers])

    return read_row


def _same_block(rows: Rows, text: str) -> None:
    tokens: int = whole_cell(1)(HASH_BLOCK)(text)
    if rows.block_tokens not in (0, tokens):
        raise BadRow(f"{HASH_BLOCK} other than that of the rows before", text)
    rows.block_tokens = tokens


def _wrong_width(header: list[str], line: str) -> BadRow:
    return BadRow(f"other than {len(header)} columns", line.strip())


def _cells(line: str) -> list[str]:
    """Split one line alone, so that an unclosed quote breaks its own row and not the rest of the file."""
    if '"' not in line:
        return [cell.strip() for cell in line.split(",")]
    try:
        return [cell.strip() for cell in next(csv.reader((line,), skipinitialspace=True, strict=True))]
    except csv.Error:
        raise BadRow("a quote that is not closed", line.strip()) from None
