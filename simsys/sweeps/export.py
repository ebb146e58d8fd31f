"""The files of a sweep: its table as CSV or Parquet, and its picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from simsys.contents.sweep import content_of_store
from simsys.errors import UsageError
from simsys.plots.drawing import write_figure
from simsys.plots.picture import draw, possible
from simsys.report.csv_table import write_columns
from simsys.report.files import write_files
from simsys.sweeps.store import Store
from simsys.sweeps.table import Columns, table_of

FORMATS = (".csv", ".parquet")
OF_SWEEPS = ("throughput_latency", "by_setting")
"""Kinds of pictures of a sweep; the first one that is possible is drawn."""


def write_table(table: Columns, path: Path) -> Path:
    """Write a table by the file's ending, whole or not at all.

    Args:
        table: The table.
        path: The file, ``.csv`` or ``.parquet``.

    Raises:
        UsageError: If the ending is unknown, or pyarrow is needed and not installed.
        OutputError: If the file cannot be written.
    """
    if path.suffix == ".csv":
        writer: Any = partial(write_columns, table=table)
    elif path.suffix == ".parquet":
        content = _parquet(table)
        writer = lambda file: file.buffer.write(content)  # noqa: E731
    else:
        raise UsageError(f"{path.name}: a table's file ends with {' or '.join(FORMATS)}")
    return write_files(path.parent, {path.name: writer})[0]


def _parquet(table: Columns) -> bytes:
    """A table in the format of Apache Parquet."""
    try:
        from pyarrow import Table
        from pyarrow.parquet import write_table as write
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'simsys[parquet]', or write a .csv file") from None
    file = io.BytesIO()
    write(Table.from_pydict({name: _of_one_type(column) for name, column in table.items()}), file)
    return file.getvalue()


def _of_one_type(column: Sequence[Any]) -> list[Any]:
    """A column of one type, as Parquet needs it: numbers if all values are numbers, else text."""
    kinds = {type(value) for value in column if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in column]
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in column]
    return list(column)


def write_all(store: Store, name: str) -> list[Path]:
    """Write ``<name>_sweep.csv``, and ``<name>_sweep.png`` if its points can be drawn, into the store's folder.

    Args:
        store: The store.
        name: The scenario's name.

    Returns:
        The files.

    Raises:
        OutputError: If one cannot be written.
    """
    files = [write_table(table_of(store), store.folder / f"{name}_sweep.csv")]
    content = content_of_store(store)
    kinds = [each.name for each in possible(content)]
    chosen = next((kind for kind in OF_SWEEPS if kind in kinds), None)
    if chosen is None:
        return files
    return [*files, write_figure(draw(content, chosen), store.folder / f"{name}_sweep.png")]
