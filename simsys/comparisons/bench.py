"""A result of ``vllm bench serve``, as a side of a comparison."""

from __future__ import annotations

from pathlib import Path

from simsys.comparisons.side import Side
from simsys.errors import UsageError
from simsys.fidelity.tables.vllm_content import RATES, TIMES, read_content

COUNTS = ("duration", "completed", "failed", "total_input_tokens", "total_output_tokens")
_WRITTEN_BY_SIMSYS = "simsys"


def read_bench(path: Path) -> Side:
    """Read a result.

    Raises:
        UsageError: The file cannot be read, is not such a result, or was written by simsys.
    """
    found = read_content(path)
    if found.get("backend") == _WRITTEN_BY_SIMSYS:
        raise UsageError(f"{path}: a result of simsys run; give its folder, {path.parent}, which has the settings too")
    numbers = {name: found.get(name) for name in (*COUNTS, *RATES, *TIMES, *_percentiles(found))}
    metrics = {name: value for name, value in numbers.items() if type(value) in (int, float)}
    if not any(name in metrics for name in (*RATES, *TIMES)):
        raise UsageError(f"{path}: a result of vllm bench serve without rates and latencies: nothing to compare")
    return Side(path.name, "serving", "measurement", str(path), runs=[metrics])


def _percentiles(found: object) -> list[str]:
    """Return the names of further percentiles, as with ``--metric-percentiles``."""
    assert isinstance(found, dict)
    return [name for name in found if name.startswith("p") and name.endswith(("_ttft_ms", "_tpot_ms", "_e2el_ms"))]
