"""The error to expect of a run, as `simsys calibrate` found it on rows that its fits had not seen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from simsys.config.document import read_document
from simsys.data import data_folders

FILENAME = "expected_errors.yaml"
METRICS = {
    "ttft_ms": "TTFT",
    "tpot_ms": "TPOT",
    "e2e_s": "end to end",
    "output_tokens_per_s": "throughput",
}
"""Of serving, those that a run names."""


def expected_errors(kind: str, gpu: str) -> list[str]:
    """What to expect of a run, in a line or none if nothing was measured.

    Args:
        kind: ``training`` or ``serving``.
        gpu: Name of the GPU's profile.
    """
    known: Mapping[str, Any] = _known().get(kind, {})
    if "all" not in known:
        return []
    own = known.get(gpu)
    found: Mapping[str, Any] = own if own is not None else known["all"]
    where = f"on {gpu}" if own is not None else f"on other GPUs, none on {gpu}"
    if kind == "training":
        return [f"error to expect: {_errors(found['iteration_s'])} measured iterations {where}"]
    said = "; ".join(f"{name} {_errors(found[metric])}" for metric, name in METRICS.items() if metric in found)
    return [f"error to expect, of measured values {where}: {said}"] if said else []


def _errors(found: Mapping[str, Any]) -> str:
    return f"half within {found['median']:.0%}, nine of ten within {found['nine_of_ten']:.0%} of {found['rows']:,}"


def _known() -> Mapping[str, Any]:
    """What the first folder says that says something."""
    for folder in data_folders("hardware_profiles"):
        path = folder / "fits" / FILENAME
        if path.is_file():
            return _read(path, path.stat().st_mtime_ns)
    return {}


@lru_cache(maxsize=4)
def _read(path: Path, changed_ns: int) -> Mapping[str, Any]:
    """What a file says that was changed last at that time."""
    data: Mapping[str, Any] = read_document(path).data
    return data
