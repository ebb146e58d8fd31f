"""A comparison as text of at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from simsys.comparisons.causes import WHOLE
from simsys.comparisons.comparison import Comparison, Pair, Ratio
from simsys.comparisons.expected import other_settings
from simsys.report.text import number, time, wrap
from simsys.sums import ordered_sum
from simsys.units import pretty_memory

MOST_SETTINGS = 8
"""Settings that are listed."""
LONGEST_SETTING = 32
"""Characters of a value, such as a list of jobs, that are shown."""
NAME, VALUE, INTERVAL = 30, 11, 13
"""Widths of columns."""
SMALLEST_S = 0.5e-9
"""Smaller differences are errors of rounding."""
_VERDICTS = {True: "yes", False: "no", None: "-"}


def comparison_text(comparison: Comparison, *, everything: bool = False) -> str:
    """Describe a comparison: for each pair a headline, ratios, expected errors and causes.

    Args:
        comparison: The comparison.
        everything: Whether all metrics are listed, not only headline metrics.
    """
    blocks = [_warnings(comparison)] if any(_warnings(comparison)) else []
    for pair in comparison.pairs:
        blocks += [block for block in _pair(pair, everything=everything) if block]
    return "\n\n".join("\n".join(block) for block in blocks)


def _warnings(comparison: Comparison) -> list[str]:
    texts = [*comparison.warnings]
    texts += [f"{side.label}: {text}" for side in comparison.sides for text in side.warnings]
    return [line for text in texts for line in wrap(text, "warning: ", "  ")]


def _pair(pair: Pair, *, everything: bool) -> Iterator[list[str]]:
    shown = pair.ratios if everything else pair.headline
    yield [_headline(pair), *_settings(pair)]
    yield _table(pair, shown)
    yield _errors(shown)
    yield _causes(pair)


def _headline(pair: Pair) -> str:
    found = pair.leading
    start = f"{pair.other.label} against {pair.base.label}"
    if found is None or found.ratio is None:
        return f"{start}: no headline metric in common"
    beyond = {True: ", beyond the expected error", False: ", within the expected error", None: ""}[found.exceeds]
    return f"{start}: {found.metric} × {found.ratio:.3g}{beyond}"


def _settings(pair: Pair) -> list[str]:
    found = other_settings(pair.base, pair.other)
    listed = [f"{path}: {_setting(one)} → {_setting(other)}" for path, (one, other) in found.items()]
    rest = [f"and {len(listed) - MOST_SETTINGS} more settings"] if len(listed) > MOST_SETTINGS else []
    seeds = [f"{len(pair.base.runs)} seeds, common random numbers"] if len(pair.base.runs) > 1 else []
    return [line for text in [*listed[:MOST_SETTINGS], *rest, *seeds] for line in wrap(text, "  ", "    ")]


def _setting(value: Any) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= LONGEST_SETTING else f"{text[:LONGEST_SETTING]}…"


def _table(pair: Pair, shown: Sequence[Ratio]) -> list[str]:
    several = len(pair.base.runs) > 1
    spread = f"{'95 % CI':>{INTERVAL}}" if several else ""
    lines = [f"{'metric':<{NAME}}{_heads(pair)}{'ratio':>7}{spread}  beyond"]
    for each in shown:
        values = "".join(f"{_value(value, each.unit):>{VALUE}}" for value in (each.base, each.value))
        ratio = "-" if each.ratio is None else f"{each.ratio:.3f}"
        ends = "-" if each.low is None or each.high is None else f"{each.low:.3f}–{each.high:.3f}"
        spread = f"{ends:>{INTERVAL}}" if several else ""
        lines.append(f"{each.metric:<{NAME}}{values}{ratio:>7}{spread}  {_VERDICTS[each.exceeds]}")
    return lines


def _heads(pair: Pair) -> str:
    return "".join(f"{_short(side.label):>{VALUE}}" for side in (pair.base, pair.other))


def _value(value: float | None, unit: str) -> str:
    """Write a figure; its unit is in the name of the metric unless it is one of size or time."""
    if value is None:
        return "-"
    return pretty_memory(value) if unit == "bytes" else time(value) if unit == "s" else number(value)


def _short(label: str) -> str:
    """Write a label with a space before it; of a long path its end."""
    if len(label) < VALUE:
        return label
    return f"…{label[2 - VALUE :]}" if "/" in label else f"{label[: VALUE - 2]}…"


def _errors(shown: Sequence[Ratio]) -> list[str]:
    """The expected errors, each with the metrics that it is of."""
    metrics: dict[str, list[str]] = {}
    for each in shown:
        metrics.setdefault(each.expected.text, []).append(each.metric)
    lines = ["expected error of the ratio (beyond: larger than 9 of 10 errors, not by chance)"]
    unknown = [text.removeprefix("no measurements of ") for text in metrics if text in map(_missing, metrics[text])]
    for text, names in metrics.items():
        if text not in map(_missing, names):
            lines += wrap(f"{', '.join(names)}: {text}", "  - ", "    ")
    if unknown:
        lines += wrap(f"no measurements of {', '.join(unknown)}", "  - ", "    ")
    return lines


def _missing(metric: str) -> str:
    return f"no measurements of {metric}"


def _causes(pair: Pair) -> list[str]:
    """The time by cause, with the differences as shares of the whole time of the first side."""
    if not pair.causes:
        return []
    base_s, value_s = (
        ordered_sum(each.base_s for each in pair.causes),
        ordered_sum(each.value_s for each in pair.causes),
    )
    lines = [f"{f'time of {WHOLE[pair.base.kind]}':<{NAME}}{_heads(pair)}  difference"]
    for each in pair.causes:
        change = _change(each.difference_s, base_s)
        lines.append(f"{each.name:<{NAME}}{_times(each.base_s, each.value_s)}  {change}")
    return [*lines, f"{'all':<{NAME}}{_times(base_s, value_s)}  {_change(value_s - base_s, base_s)}"]


def _times(base_s: float, value_s: float) -> str:
    return f"{time(base_s):>{VALUE}}{time(value_s):>{VALUE}}"


def _change(seconds: float, whole_s: float) -> str:
    """Write a difference, with its share of the whole time of the first side."""
    if abs(seconds) < SMALLEST_S:
        return "0 s"
    share = f" ({100 * seconds / whole_s:+.1f} %)" if whole_s else ""
    return f"{'-' if seconds < 0 else '+'}{time(abs(seconds))}{share}"
