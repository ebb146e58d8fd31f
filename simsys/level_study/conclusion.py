"""For which studies medium is safe, and for which it is not: concluded from the numbers of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simsys.level_study.reasons import EXACT
from simsys.report.text import number, percent

CLOSE, SAFE = 0.01, 0.03
"""Differences up to which figures are called close, and up to which rankings of designs still hold."""
MOST = 4
"""Packages that are named of those that take most of the time."""

Row = Mapping[str, Any]


def conclude(data: Mapping[str, Any]) -> list[str]:
    """Sentences on where medium can be trusted, what it saves, and what high is for.

    Args:
        data: A comparison as data; see `simsys.level_study.study`.
    """
    rows = data["scenarios"]
    if not rows:
        return []
    return [
        *_safety(rows),
        *_speed(rows),
        *_abstractions(data.get("attribution", ())),
        *_shift(data.get("breakdown", ())),
        *_advice(rows),
    ]


def _safety(rows: Sequence[Row]) -> Iterator[str]:
    bands = (
        (0.0, EXACT, "Medium differs by no more than rounding in {}: no transfers meet there, or links carry them."),
        (EXACT, CLOSE, "It is within {} in {}: safe for sizing, and for all but the last percent."),
        (CLOSE, SAFE, "It is within {} in {}: safe for ranking designs, not for their last percents."),
        (SAFE, float("inf"), "It is up to {} off in {}: not safe; use high."),
    )
    for above, up_to, text in bands:
        found = [row for row in rows if above < max(row["largest_difference"], 1e-300) <= up_to]
        if found:
            worst = max(row["largest_difference"] for row in found)
            names = ", ".join(row["name"] for row in found)
            yield text.format(names) if up_to == EXACT else text.format(_share(worst), names)


def _speed(rows: Sequence[Row]) -> Iterator[str]:
    ratios = sorted((row["cpu_speedup"], row["name"]) for row in rows)
    (least, slow), (most, fast) = ratios[0], ratios[-1]
    if len(rows) == 1:
        yield f"Medium takes {number(least)} times less CPU time, with {_events(rows)} times fewer events."
        return
    yield (
        f"Medium takes between {number(least)} ({slow}) and {number(most)} ({fast}) times less CPU time, with "
        f"{_events(rows)} times fewer events."
    )


def _events(rows: Sequence[Row]) -> str:
    return _range([row["event_reduction"] for row in rows])


def _abstractions(attributions: Sequence[Row]) -> Iterator[str]:
    """Which of the abstractions gives most of the speed, and which of the error."""
    gains: dict[str, list[float]] = {}
    errors: dict[str, float] = {}
    for each in attributions:
        for row in each["variants"][1:]:
            gains.setdefault(row["variant"], []).append(row["cpu_speedup"])
            errors[row["variant"]] = max(errors.get(row["variant"], 0.0), row["largest_difference"])
    if not gains:
        return
    parts = (f"{name} {_range(found)}" for name, found in gains.items())
    yield f"Of the speed-up in CPU time, by abstraction: {'; '.join(parts)}."
    wrong = max(errors, key=lambda name: errors[name])
    if errors[wrong] > EXACT:
        guilty = [f"{name} {_share(error)}" for name, error in errors.items() if error > EXACT]
        yield f"Errors come with: {'; '.join(guilty)}. Multi-step runs add none: they are sums of the same durations."


def _shift(breakdowns: Sequence[Row]) -> Iterator[str]:
    """What takes most of the time at each level, on average over the scenarios."""
    if not breakdowns:
        return
    texts = []
    for level in ("high", "medium"):
        total: dict[str, float] = {}
        for each in breakdowns:
            for name, share in each["levels"][level]["shares"].items():
                total[name] = total.get(name, 0.0) + share / len(breakdowns)
        most = sorted(total, key=lambda name: -total[name])[:MOST]
        texts.append(f"at {level} in {', '.join(f'{name} ({100 * total[name]:.0f} %)' for name in most)}")
    yield f"Most of the time is spent {'; '.join(texts)}."


def _advice(rows: Sequence[Row]) -> Iterator[str]:
    exact = [row for row in rows if row["largest_difference"] <= EXACT]
    if exact:
        yield (
            "Use medium for sweeps, capacity planning, SLO and autoscaling studies, and long traces. Where transfers "
            "of several groups meet, it carries them out or loads links evenly, and warns where that may not do."
        )
    yield (
        "Use high where a warning says that medium may be off, where queues on links are the question, for event "
        "traces, and to check one scenario of a study that medium carries out."
    )


def _range(ratios: Sequence[float]) -> str:
    """From the least to the greatest."""
    return " to ".join(dict.fromkeys(number(each) for each in (min(ratios), max(ratios))))


def _share(difference: float) -> str:
    return percent(difference) if difference >= 1e-3 else f"{100 * difference:.1g} %"
