"""Part of a request table, and a table that begins again at its end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from simsys.errors import UsageError
from simsys.serving.requests import OPTIONAL_COLUMNS, RequestTable


def select(table: RequestTable, rows: Sequence[int], arrival_s: list[float] | None = None) -> RequestTable:
    """Return the requests at some indices; one with an omitted predecessor waits for none.

    Args:
        table: The requests.
        rows: The indices, ordered within a conversation.
        arrival_s: New times of arrival; None to keep them.
    """
    columns: dict[str, Any] = {}
    for name in ("arrival_s", "prompt_tokens", "output_tokens", *OPTIONAL_COLUMNS):
        column = getattr(table, name)
        columns[name] = [column[row] for row in rows] if column else []
    if columns["after"]:
        places = {row: place for place, row in enumerate(rows)}
        columns["after"] = [places.get(before, -1) for before in columns["after"]]
        if columns["joins"]:
            pairs = zip(columns["joins"], columns["after"], strict=True)
            columns["joins"] = [
                tuple(places[each] for each in others if each in places) if before >= 0 else ()
                for others, before in pairs
            ]
    if arrival_s is not None:
        columns["arrival_s"] = arrival_s
    return replace(table, **columns)


def delayed(table: RequestTable, delays_s: Sequence[float]) -> RequestTable:
    """Return the requests shifted in time, in their new order; none is before the one that it waits for."""
    times = [time_s + delay_s for time_s, delay_s in zip(table.arrival_s, delays_s, strict=True)]
    for row, before in enumerate(table.after):
        if before >= 0:
            times[row] = max(times[row], times[before])
    rows = sorted(range(len(times)), key=times.__getitem__)
    return select(table, rows, arrival_s=[times[row] for row in rows])


def with_attempts(table: RequestTable, retries: int, waits_s: Sequence[float]) -> RequestTable:
    """Return the requests, each followed by the rows of its retries, which are sent only if the attempt before fails.

    Args:
        table: The requests.
        retries: Most retries of each request.
        waits_s: Seconds between the failure of an attempt and the next one, for each retry of each request.
    """
    each = 1 + retries
    rows = [row for row in range(len(table)) for _ in range(each)]
    attempt = list(range(each)) * len(table)
    columns: dict[str, Any] = {
        name: [column[row] for row in rows] if (column := getattr(table, name)) else []
        for name in ("arrival_s", "prompt_tokens", "output_tokens", *OPTIONAL_COLUMNS)
    }
    after, think_s, waits = table.after or [-1] * len(table), table.think_s or [0.0] * len(table), iter(waits_s)
    columns["after"] = [
        place - 1 if number else each * after[row] if after[row] >= 0 else -1
        for place, (row, number) in enumerate(zip(rows, attempt, strict=True))
    ]
    if table.joins:
        columns["joins"] = [
            () if number else tuple(each * other for other in table.joins[row])
            for row, number in zip(rows, attempt, strict=True)
        ]
    columns["think_s"] = [next(waits) if number else think_s[row] for row, number in zip(rows, attempt, strict=True)]
    return replace(table, **columns | {"attempt": attempt})


def repeated(
    table: RequestTable, *, count: int | None = None, until_s: float = math.inf, most: int = 10_000_000
) -> RequestTable:
    """Return a repeated table; each round begins one mean gap after the last arrival.

    Sessions and prefix blocks differ between rounds.

    Args:
        table: The requests of one round, at least one.
        count: Number of requests; None for whole rounds until a time.
        until_s: That time, counted from the first arrival.
        most: The largest number of requests.

    Raises:
        UsageError: If the number of requests has no limit, or is above `most`.
    """
    size = len(table)
    period_s = table.span_s * size / max(size - 1, 1)
    if count is None:
        if not (period_s > 0 and until_s < math.inf):
            raise UsageError("requests that all arrive at once repeat for ever: say how many there shall be")
        count = size * math.ceil(until_s / period_s)
    if count > most:
        raise UsageError(f"{count} requests are more than there can be, {most}")
    where = [divmod(index, size) for index in range(count)]  # round, and request within it
    columns: dict[str, Any] = {
        name: [column[row] for _, row in where] if (column := getattr(table, name)) else []
        for name in ("prompt_tokens", "output_tokens", *OPTIONAL_COLUMNS)
    }
    columns["arrival_s"] = [table.arrival_s[row] + number * period_s for number, row in where]
    _tell_rounds_apart(table, columns, where)
    return replace(table, **columns)


def _tell_rounds_apart(table: RequestTable, columns: dict[str, list[Any]], where: list[tuple[int, int]]) -> None:
    size, rounds = len(table), [number for number, _ in where]
    if table.after:
        pairs = zip(columns["after"], rounds, strict=True)
        columns["after"] = [before if before < 0 else before + number * size for before, number in pairs]
    if table.joins:
        joined = zip(columns["joins"], rounds, strict=True)
        columns["joins"] = [tuple(each + number * size for each in others) for others, number in joined]
    if table.session:
        step = max(table.session) + 1
        columns["session"] = [each + number * step for each, number in zip(columns["session"], rounds, strict=True)]
    if table.hash_ids:
        step = max((max(ids) for ids in table.hash_ids if ids), default=0) + 1
        pairs = zip(columns["hash_ids"], rounds, strict=True)
        columns["hash_ids"] = [
            tuple([each + number * step for each in ids]) if number else ids for ids, number in pairs
        ]
