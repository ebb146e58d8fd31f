"""The page of a comparison: ratios with what to expect of them, and what explains the differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simsys.html.blocks import Block, Page, Picture, Section, Table
from simsys.html.charts import stacked_bars
from simsys.version import __version__


def compare_page(found: Mapping[str, Any]) -> Page:
    """Lay out a comparison, as ``simsys compare --json`` prints it."""
    pairs = found["pairs"]
    title = f"{pairs[0]['base']} against {', '.join(pair['other'] for pair in pairs)}"
    sections = [Section(f"{pair['other']} over {pair['base']}", list(_pair(pair))) for pair in pairs]
    return Page("Comparison", title, [str(text) for text in found["warnings"]], sections, [f"simsys {__version__}"])


def _pair(pair: Mapping[str, Any]) -> Iterator[Block]:
    rows = []
    for ratio in pair["ratios"]:
        if ratio["ratio"] is None:
            continue
        interval = f"{ratio['low']:.4g} to {ratio['high']:.4g}" if ratio.get("low") is not None else None
        rows.append(
            [ratio["metric"], ratio["unit"], ratio["base"], ratio["value"], ratio["ratio"], interval,
             ratio["exceeds_expected_error"]]
        )  # fmt: skip
    columns = ["metric", "unit", pair["base"], pair["other"], "ratio", "95 % interval", "beyond the expected error"]
    yield Table("Ratios", columns, rows)
    if pair["causes"]:
        caption = f"Time by cause: {pair['whole']}"
        bars = {
            side: {cause["cause"]: 1e3 * cause[key] for cause in pair["causes"]}
            for side, key in ((pair["base"], "base_s"), (pair["other"], "value_s"))
        }
        yield Picture(caption, stacked_bars(caption, bars, "ms"))
    if pair["settings"]:
        rows = [[name, *map(str, values)] for name, values in pair["settings"].items()]
        yield Table("Settings that differ", ["setting", pair["base"], pair["other"]], rows)
