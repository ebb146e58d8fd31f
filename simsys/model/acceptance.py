"""How many drafted tokens are accepted: measured lengths, and the probabilities that follow from them.

The table ``acceptance_lengths.csv`` of the model DB has the mean tokens of a verification, by the number of drafted
tokens, of models with their drafters. A file of the same name in the user's own model DB is read first.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import StringIO
from math import isfinite
from pathlib import Path

from simsys.data import data_folders
from simsys.errors import UnknownNameError, UsageError
from simsys.input_files import read_text, unreadable
from simsys.model.model_db import KIND
from simsys.sums import ordered_sum

FILENAME = "acceptance_lengths.csv"
LENGTH = "length_"
BISECTIONS = 200


def measured_lengths(name: str, paths: Sequence[str | Path] = ()) -> tuple[float, ...]:
    """Mean tokens of a verification that drafts 1, 2, … tokens, the token of the model itself included.

    Args:
        name: Model, drafter, variant and thinking, as ``qwen3.5-397b-a17b-nvfp4 MTP thinking``.
        paths: Folders of model DBs to look in first.

    Raises:
        UnknownNameError: No table has it.
        UsageError: A table is wrong.
    """
    known: dict[str, tuple[float, ...]] = {}
    for folder in reversed(data_folders(KIND, paths)):
        if (folder / FILENAME).is_file():
            known |= _table(folder / FILENAME)
    found = {each.casefold(): each for each in known}.get(" ".join(name.split()).casefold())
    if found is None:
        raise UnknownNameError("measured acceptance", name, known)
    return known[found]


def accepted_shares(lengths: Sequence[float], drafted: int) -> tuple[float, ...]:
    """Probabilities that at least 1, 2, … of the drafted tokens are accepted.

    The length at a depth exceeds the length at the depth before by the probability that all of its tokens are
    accepted. Since the lengths are separate measurements, the differences are made to fall, and scaled so that the
    mean at the drafted number of tokens is the measured one.

    Example:
        >>> accepted_shares([1.5, 1.75], 2)
        (0.5, 0.25)

    Raises:
        UsageError: If fewer tokens were measured.
    """
    if drafted > len(lengths):
        raise UsageError(f"{drafted} drafted tokens, but acceptance was measured with up to {len(lengths)}")
    shares = _falling([after - before for before, after in zip((1.0, *lengths), lengths[:drafted], strict=False)])
    scale = (lengths[drafted - 1] - 1.0) / total if (total := ordered_sum(shares)) else 0.0
    return tuple(min(1.0, share * scale) for share in shares)


def rate_of_length(length: float, drafted: int) -> float:
    """The probability of acceptance, equal at all places, that yields a mean number of tokens per verification.

    Solves (1 − a^(k+1)) / (1 − a) = length (Leviathan et al. 2023, eq. 1) by bisection.

    Example:
        >>> round(rate_of_length(1.875, 3), 9)
        0.5
    """
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        if ordered_sum(middle**place for place in range(drafted + 1)) < length:
            low = middle
        else:
            high = middle
    return high


def _falling(values: Sequence[float]) -> list[float]:
    """The nearest values that do not rise: means over neighbours that are out of order, and at least 0."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        total, count = max(0.0, value), 1
        while blocks and total / count > blocks[-1][0] / blocks[-1][1]:
            before, more = blocks.pop()
            total, count = total + before, count + more
        blocks.append((total, count))
    return [total / count for total, count in blocks for _ in range(count)]


def _table(path: Path) -> Mapping[str, tuple[float, ...]]:
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: Path, stamp: int) -> Mapping[str, tuple[float, ...]]:
    """The lengths of a table as of a time, by name."""
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None
    reader = csv.DictReader(StringIO(text))
    found: dict[str, tuple[float, ...]] = {}
    for row in reader:
        cells = [cell for name, cell in row.items() if name and name.startswith(LENGTH) and cell]
        try:
            lengths = tuple(float(cell) for cell in cells)
        except ValueError:
            lengths = ()
        whole = all(isfinite(each) and 1.0 <= each <= place + 2.0 for place, each in enumerate(lengths))
        if not lengths or not whole:
            message = f"{LENGTH}1 … are mean tokens of a verification, from 1 to the drafted tokens + 1"
            raise UsageError(f"{path}:{reader.line_num}: {message}")
        found[_name(row)] = lengths
    return found


def _name(row: Mapping[str, str | None]) -> str:
    thinking = {"on": "thinking", "off": "no thinking"}.get(row.get("thinking") or "", "")
    words = [row.get("model"), row.get("method"), row.get("variant"), thinking]
    return " ".join(word for word in words if word)
