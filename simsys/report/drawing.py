"""Common parts of all pictures: creating and writing a figure.

Pyplot is not used, since it keeps global state and needs the backend of a display. The same result gives
the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simsys.errors import UsageError
from simsys.metrics.result import RunResult
from simsys.report.files import write_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS: Mapping[str, Mapping[str, None]] = {".png": {"Software": None}, ".svg": {"Date": None}}
"""File endings, each with the metadata to leave out because it is not the result's."""
DPI = 150
DATA, CHECKPOINT, BUBBLE = "#228833", "#aa3377", "#bbbbbb"
COMPUTE, EXPOSED, HIDDEN, IDLE, LIMIT = "#4477aa", "#cc6677", "#ddaa33", "#e8e8e8", "#666666"


def expect_kind(result: RunResult, kind: str) -> None:
    """Refuse a result of another kind.

    Raises:
        UsageError: With both kinds.
    """
    if result.kind != kind:
        raise UsageError(f"this picture is of {kind}, but {result.name} is {result.kind}")


def time_unit(seconds: float) -> tuple[float, str]:
    """A factor and a unit in which times up to `seconds` are readable."""
    if seconds >= 1.0:
        return 1.0, "s"
    return (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")


def new_figure(width_in: float, height_in: float, rows: int = 1, columns: int = 1) -> tuple[Figure, Sequence[Any]]:
    """A figure and its panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    return figure, [axes for row in panels for axes in row]


def write_figure(figure: Figure, path: Path) -> Path:
    """Write a figure whole or not at all, by the file's ending; the salt makes an SVG's ids the same each time.

    Raises:
        UsageError: If the ending is unknown.
        OutputError: If the file could not be written.
    """
    import matplotlib

    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"{path.name}: a picture's file ends with {' or '.join(FORMATS)}, not {suffix or 'nothing'}")
    image = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "simsys"}):
        figure.savefig(image, format=suffix[1:], dpi=DPI, metadata=dict(FORMATS[suffix]))
    write_files(path.parent, {path.name: lambda file: file.buffer.write(image.getvalue())})
    return path
