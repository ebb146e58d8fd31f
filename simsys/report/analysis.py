"""The analysis of a run as text: losses by resource with their place, and remedies with their gains and costs."""

from __future__ import annotations

from collections.abc import Iterator

from simsys.analysis.analyze import Analysis
from simsys.analysis.findings import Finding
from simsys.analysis.gains import RemedyGain
from simsys.report.text import percent, wrap

NAMES = {"kv_capacity": "KV capacity"}
"""Names of resources for people, where they differ."""
SHOWN = 5
"""Remedies that are shown by default."""


def analysis_text(analysis: Analysis, *, everything: bool = False) -> str:
    """The analysis for people: the most severe bottleneck first.

    Args:
        analysis: The analysis.
        everything: List all remedies and resources without losses.
    """
    blocks = [
        [_headline(analysis), *(line for note in analysis.notes for line in wrap(note, "  note: ", "    "))],
        _losses(analysis),
        ["resources", *(line for each in _listed(analysis, everything=everything) for line in _finding(each))],
        _remedies(analysis, everything=everything),
        _own(analysis),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _headline(analysis: Analysis) -> str:
    first = analysis.findings[0] if analysis.findings else None
    if first is None or not first.severity:
        return f"{analysis.name}: no time is lost"
    whose = f"{first.job}: " if first.job else ""
    whole = "an iteration" if first.losses[0].whole == "iteration" else "the mean request latency"
    place = f": {first.place}" if first.place else ""
    return f"{analysis.name}: {whose}{_name(first.kind)} takes {percent(first.severity)} of {whole}{place}"


def _losses(analysis: Analysis) -> list[str]:
    lines = [line for loss in analysis.losses for line in wrap(loss.text(), "  - ", "    ")]
    return ["largest losses", *lines] if lines else []


def _listed(analysis: Analysis, *, everything: bool) -> list[Finding]:
    return [each for each in analysis.findings if everything or percent(each.severity) != percent(0.0) or each.text]


def _finding(found: Finding) -> Iterator[str]:
    whose = f"{found.job}: " if found.job else ""
    yield from wrap(f"{whose}{_name(found.kind)}: {percent(found.severity)} ({found.level})", "  - ", "    ")
    if found.place:
        yield from wrap(found.place, "    ", "    ")
    if found.text:
        yield from wrap(found.text, "    ", "    ")


def _remedies(analysis: Analysis, *, everything: bool) -> list[str]:
    if not analysis.remedies:
        return ["remedies", f"  none of {analysis.simulated} simulated settings helps"] if analysis.simulated else []
    lines = [f"remedies (best of {analysis.simulated} simulated settings)"]
    shown = analysis.remedies if everything else analysis.remedies[:SHOWN]
    for number, remedy in enumerate(shown, 1):
        lines += wrap(remedy.text, f"  {number}. ", "     ")
        lines += wrap(_effect(remedy, analysis.result.kind), "     ", "     ")
    rest = len(analysis.remedies) - len(shown)
    return [*lines, f"  {rest} more with --all"] if rest else lines


def _own(analysis: Analysis) -> list[str]:
    """What analyses of the user's own have found."""
    lines: list[str] = []
    for name, seen in analysis.result.observations.items():
        for each in seen:
            lines += wrap(f"{name}: {percent(each.severity)}: {each.evidence}", "  - ", "    ")
            lines += [line for text in each.recommendations for line in wrap(text, "    > ", "      ")]
    return ["your own analyses", *lines] if lines else []


def _effect(remedy: RemedyGain, kind: str) -> str:
    """The gain, what is left of the bottleneck, and the costs."""
    times = f"{1.0 + remedy.gain:.3g}x"
    resource = _name(remedy.kind.partition(" and ")[0])
    parts = [
        f"{times} the throughput" if kind == "training" else f"mean latency {times} shorter",
        f"{resource} {percent(remedy.lost_before)} -> {percent(remedy.lost_after)} of the time before",
    ]
    if remedy.usd_ratio is not None:
        parts.append(f"{remedy.usd_ratio:.3g}x the price of a token")
    if remedy.gpus:
        parts.append(f"{remedy.gpus:,} more GPU{'s' if remedy.gpus > 1 else ''}")
    notes = [note for note in remedy.note.split(", ") if note and note != "more GPUs"]
    return "; ".join([*parts, *notes])


def _name(kind: str) -> str:
    return NAMES.get(kind, kind)
