"""Names and values of metrics for people."""

from __future__ import annotations

from typing import Any

from simsys.metrics.definitions import metrics_by_name
from simsys.report.text import milliseconds, number, percent, share, time
from simsys.units import Dimension, pretty

CAPITALS = {"ttft", "tpot", "itl", "mfu", "hfu", "kv", "gpu", "slo", "usd", "co2"}


def name_of(metric: str) -> str:
    """The name of a metric without its unit, for people."""
    for unit in ("_ms", "_s", "_bytes", "_j", "_kg", "_watt"):
        metric = metric.removesuffix(unit) if not metric.endswith("_per_s") else metric
    words = metric.replace("_per_s", " per s").replace("_", " ").split(" ")
    return " ".join(word.upper() if word in CAPITALS else word for word in words)


def value_of(metric: str, value: Any) -> str:
    """The value of a metric with its unit."""
    if value is None or not isinstance(value, int | float):
        return "–" if value is None else str(value)
    known = metrics_by_name().get(metric)
    unit = known.unit if known is not None else ""
    if unit == "ms":
        return milliseconds(value)
    if unit == "s":
        return time(value)
    if unit == "bytes":
        return pretty(value, Dimension.BYTES)
    if unit == "share":
        return share(value) if 0.0 <= value <= 1.0 else percent(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{number(value)} {unit}".strip()
