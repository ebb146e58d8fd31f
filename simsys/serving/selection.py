"""Part of a request table, and a table that begins again at its end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from simsys.errors import UsageError
from simsys.serving.requests import OPTIONAL_COLUMNS, RequestTable


def select(table: RequestTable, rows: Sequence[int]) -> RequestTable:
    """Return the requests at some indices, in ascending order; one whose predecessor is left out waits for none."""
    columns: dict[str, list[Any]] = {}
    for name in ("arrival_s", "prompt_tokens", "output_tokens", *OPTIONAL_COLUMNS):
        column = getattr(table, name)
        columns[name] = [column[row] for row in rows] if column else []
    if columns["after"]:
        places = {row: place for place, row in enumerate(rows)}
        columns["after"] = [places.get(before, -1) for before in columns["after"]]
    return replace(table, **columns)


def repeated(table: RequestTable, *, count: int | None = None, until_s: float = math.inf) -> RequestTable:
    """Return a table that begins again when it has ended, one mean gap after its last arrival.

    Sessions and prefix blocks are others in each round, as users would be.

    Args:
        table: The requests of one round, at least one.
        count: How many requests there shall be; None for as many as arrive until then.
        until_s: No request arrives at this time or later.

    Raises:
        UsageError: If the number of requests has no limit.
    """
    size = len(table)
    period_s = table.span_s * size / max(size - 1, 1)
    first_s = table.arrival_s[0]
    if count is None and not (period_s > 0 and until_s < math.inf):
        raise UsageError("a table whose requests all arrive at once repeats for ever; say how many there shall be")
    rounds = math.inf if period_s == 0 else max(math.ceil((until_s - first_s) / period_s), 0) if until_s < math.inf else math.inf
    total = int(min(rounds * size, math.inf if count is None else count))
    where = [divmod(index, size) for index in range(total)]
    columns: dict[str, list[Any]] = {
        "arrival_s": [table.arrival_s[row] + turn * period_s for turn, row in where],
        "prompt_tokens": [table.prompt_tokens[row] for _, row in where],
        "output_tokens": [table.output_tokens[row] for _, row in where],
    }
    for name in OPTIONAL_COLUMNS:
        column = getattr(table, name)
        columns[name] = [column[row] for _, row in where] if column else []
    _tell_rounds_apart(table, columns, where)
    whole = replace(table, **columns)
    kept = [row for row, time_s in enumerate(whole.arrival_s) if time_s < until_s]
    return whole if len(kept) == total else select(whole, kept)


def _tell_rounds_apart(table: RequestTable, columns: dict[str, list[Any]], where: list[tuple[int, int]]) -> None:
    size = len(table)
    if table.after:
        columns["after"] = [before if before < 0 else before + turn * size for before, (turn, _) in zip(columns["after"], where)]
    if table.session:
        step = max(table.session) + 1
        columns["session"] = [session + turn * step for session, (turn, _) in zip(columns["session"], where)]
    if table.hash_ids:
        step = max((max(ids) for ids in table.hash_ids if ids), default=0) + 1
        columns["hash_ids"] = [
            tuple([each + turn * step for each in ids]) if turn else ids for ids, (turn, _) in zip(columns["hash_ids"], where)
        ]
