"""Comparisons of real runs with predictions: as a table, as data, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from simsys.lab.compare import CAUSES, Comparison, pairs_in_order
from simsys.plots.drawing import new_figure, write_figure

COLOURS = {
    "forward": "#4477aa",
    "backward": "#66ccee",
    "optimizer": "#228833",
    "exposed communication": "#cc6677",
    "data": "#ddaa33",
    "idle": "#e8e8e8",
}
RULE = (
    "measured: median of all iterations after the first two; disturbed: other programs took the processor, so that "
    "only processor time can be compared"
)


def comparison_text(comparison: Comparison) -> str:
    """One comparison as a table: measured, predicted, error."""
    run, predicted = comparison.run, comparison.predicted
    tokens = run.ranks * comparison.rows[0]["tokens"]
    lines = [
        f"{comparison.name}: {run.ranks} rank{'s' * (run.ranks > 1)} of {run.threads} threads, "
        f"{len(comparison.rows)} iterations" + (", disturbed" if comparison.disturbed else ""),
        f"{'':30} {'measured':>14} {'predicted':>14} {'error':>8}",
        _row("iteration, ms", 1e3 * comparison.measured_s, 1e3 * predicted.iteration_s, comparison.error),
        _row("iteration, CPU ms", 1e3 * comparison.cpu_s, 1e3 * predicted.iteration_s, comparison.cpu_error),
        _row(
            "tokens/s",
            tokens / comparison.measured_s,
            tokens / predicted.iteration_s,
            None if comparison.disturbed else comparison.measured_s / predicted.iteration_s - 1.0,
        ),
    ]
    for name in CAUSES:
        ours, theirs = comparison.causes_s[name], predicted.causes_s.get(name, 0.0)
        lines.append(_row(f"  {name}, ms", 1e3 * ours, 1e3 * theirs, None))
    for name, (ours, theirs) in comparison.memory.items():
        lines.append(_row(f"memory, {name}, MB", ours / 1e6, theirs / 1e6, theirs / ours - 1.0 if ours else None))
    measured, simulated = comparison.collectives
    for kind, (ours, theirs) in comparison.bytes_by_kind.items():
        counts = [sum(each == kind for each, _ in side) for side in (measured, simulated)]
        error = theirs / ours - 1.0 if ours else None
        lines.append(_row(f"{counts[0]} and {counts[1]} {kind}, MB", ours / 1e6, theirs / 1e6, error))
    walls = " ".join(f"{1e3 * row['wall_s']:.0f}" for row in comparison.rows)
    lines.append(f"all iterations, ms: {walls}; {sum(row['preempted'] for row in comparison.rows)} switches")
    return "\n".join(lines)


def _row(name: str, measured: float, predicted: float, error: float | None) -> str:
    shown = "" if error is None else f"{error:+.1%}"
    return f"{name:30} {measured:>14,.2f} {predicted:>14,.2f} {shown:>8}"


def summary_text(comparisons: Sequence[Comparison]) -> str:
    """Errors of all comparisons together, and the rule of choice."""
    quiet = [abs(each.error) for each in comparisons if each.error is not None]
    on_cpu = [abs(each.cpu_error) for each in comparisons]
    lines = [f"error on processor time: median {median(on_cpu):.1%}, worst {max(on_cpu):.1%}"]
    if quiet:
        text = f"median {median(quiet):.1%}, worst {max(quiet):.1%}"
        lines.insert(0, f"error on time, of {len(quiet)} of {len(comparisons)} runs: {text}")
    pairs, right = pairs_in_order(comparisons)
    if pairs:
        lines.append(f"order: {right} of {pairs} pairs that differ by more than 10 % are predicted in order")
    return "\n".join([*lines, RULE])


def comparison_dict(comparison: Comparison) -> dict[str, Any]:
    """A comparison as data for JSON."""
    measured, simulated = comparison.collectives
    return {
        "name": comparison.name,
        "ranks": comparison.run.ranks,
        "disturbed": comparison.disturbed,
        "iteration_s": {"measured": comparison.measured_s, "predicted": comparison.predicted.iteration_s},
        "cpu_s": comparison.cpu_s,
        "causes_s": {
            name: {"measured": comparison.causes_s[name], "predicted": comparison.predicted.causes_s.get(name, 0.0)}
            for name in CAUSES
        },
        "memory_bytes": {
            name: {"measured": ours, "predicted": theirs} for name, (ours, theirs) in comparison.memory.items()
        },
        "collectives": {"measured": measured, "predicted": simulated},
        "figures": comparison.figures(),
        "iterations": list(comparison.rows),
        "folder": str(comparison.run.folder),
    }


def write_picture(comparisons: Sequence[Comparison], path: Path) -> Path:
    """Draw measured beside predicted iterations as stacked bars, by cause.

    Raises:
        OutputError: It cannot be written.
    """
    figure, (axes,) = new_figure(2.0 + 1.4 * len(comparisons), 4.0)
    for place, each in enumerate(comparisons):
        for side, causes in ((-0.2, each.causes_s), (0.2, each.predicted.causes_s)):
            below = 0.0
            for name in CAUSES:
                height = 1e3 * causes.get(name, 0.0)
                label = name if place == 0 and side < 0 else None
                axes.bar(place + side, height, 0.36, bottom=below, color=COLOURS[name], label=label)
                below += height
    names = [f"{each.name}{' (disturbed)' if each.disturbed else ''}\nmeasured | predicted" for each in comparisons]
    axes.set_xticks(range(len(comparisons)), names)
    axes.set_ylabel("time of an iteration, ms")
    axes.legend(fontsize="small")
    return write_figure(figure, path)
