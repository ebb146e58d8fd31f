"""A trace as one file for each rank, as PyTorch's profiler writes it and HolisticTraceAnalysis reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from simsys.errors import TraceError
from simsys.traces.kineto_file import read_kineto
from simsys.traces.packed import read_whole


def rank_files(path: Path) -> dict[str, Callable[[TextIO], object]]:
    """Writers of a file for each rank of a trace with several ranks.

    Args:
        path: A trace of training, written by ``simsys run --trace``.

    Returns:
        Writers by name of the file, such as ``rank0.json.gz``.

    Raises:
        TraceError: If it cannot be read, or is no such trace.
    """
    gpus = {gpu.rank for gpu in read_kineto(path).gpus}
    document = json.loads(read_whole(path))
    if not isinstance(document, dict) or "simsys" not in document:
        raise TraceError(f"{path}: not a trace that 'simsys run --trace' has written")
    found: dict[int, list[Any]] = {}
    for event in document["traceEvents"]:
        found.setdefault(event["pid"], []).append(event)
    return {f"rank{rank}.json.gz": _writer(document, rank, found[rank]) for rank in sorted(found) if rank in gpus}


def _writer(document: Mapping[str, Any], rank: int, events: list[Any]) -> Callable[[TextIO], object]:
    about = {**document["distributedInfo"], "rank": rank}
    content = {**document, "distributedInfo": about, "traceEvents": events}
    return lambda file: json.dump(content, file)
