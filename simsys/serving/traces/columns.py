"""Fast reading of CSV rows column by column, many at once.

Only for plain rows; for other rows, these functions raise a `ValueError`, and rows are read one by one. Results are
the same either way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from simsys.serving.traces.rows import MOST_TICKS

TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
"""A time: up to the second, decimals, offset."""

_ZEROS = str.maketrans("123456789", "000000000")
_YEAR_1_S = -62_135_596_800  # the first that there is


def columns(lines: Sequence[str]) -> list[tuple[str, ...]]:
    """Split lines without quotes, all of which have as many cells."""
    if '"' in "".join(lines):
        raise ValueError("a quote")
    return list(zip(*[line.rstrip("\r\n").split(",") for line in lines], strict=True))


def tokens_column(texts: Sequence[str]) -> list[int]:
    """Read texts as numbers of tokens, as `rows.tokens_text` does."""
    digits = "".join(texts)
    if not (digits.isascii() and digits.isdigit()) or max(map(len, texts)) > 9:
        raise ValueError("no numbers of tokens")
    tokens = list(map(int, texts))
    if min(tokens) < 1:
        raise ValueError("a number of tokens of 0")
    return tokens


def times_column(texts: Sequence[str]) -> list[float]:
    """Read texts as times, as `rows.time_text` does."""
    times = list(map(float, texts))
    if not all(0 <= time <= MOST_TICKS for time in times):
        raise ValueError("no time")
    return times


def timestamps_column(texts: Sequence[str]) -> list[int]:
    """Read times like ``2023-11-16 18:17:03.9799600``, all with as many decimals and of UTC, as nanoseconds."""
    import numpy as np

    match = TIMESTAMP.fullmatch(texts[0])
    if match is None or match[3] not in (None, "Z", "+00:00"):
        raise ValueError("no time of UTC")
    size, end, decimals = len(texts[0]), len(texts[0]) - len(match[3] or ""), len(match[2] or "")
    shape = texts[0][:end].translate(_ZEROS) + (match[3] or "")
    same = "".join([text[:end].translate(_ZEROS) + text[end:] for text in texts]) == shape * len(texts)
    if not same or set(map(len, texts)) != {size}:
        raise ValueError("times that are written differently")
    seconds = np.array([text[:19] for text in texts], dtype="datetime64[s]").astype(np.int64).tolist()
    if min(seconds) < _YEAR_1_S:
        raise ValueError("the year 0")
    if not decimals:
        return [second * 1_000_000_000 for second in seconds]
    unit = 10 ** (9 - decimals)
    return [second * 1_000_000_000 + int(text[20:end]) * unit for second, text in zip(seconds, texts, strict=True)]
