"""The page of a search: the best candidates, how they were found, and why others are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simsys.html.blocks import Block, Figure, Figures, Items, Page, Section, Table
from simsys.report.metric_text import name_of, value_of
from simsys.version import __version__

MOST_METRICS = 12


def search_page(found: Mapping[str, Any]) -> Page:
    """Lay out the answer of a search, as ``simsys search --json`` prints it."""
    goal, best = found["goal"], found["best"]
    metric = str(goal["metric"])
    if not best:
        headline = "nothing is feasible"
    else:
        headline = f"{goal['direction']} {name_of(metric)}: {value_of(metric, best[0]['metrics'].get(metric))}"
    return Page(
        str(found["name"]),
        headline,
        [str(note) for note in found.get("notes", ())],
        [
            Section("Answer", list(_answer(found))),
            Section("How it was found", list(_course(found))),
            Section("Left out", list(_reasons(found))),
        ],
        [f"simsys {__version__}"],
    )


def _answer(found: Mapping[str, Any]) -> Iterator[Block]:
    best: Sequence[Mapping[str, Any]] = found["best"]
    if not best:
        return
    settings = list(dict.fromkeys(name for each in best for name in each["settings"]))
    varied = [name for name in settings if len({str(each["settings"].get(name)) for each in best}) > 1]
    equal = {name: best[0]["settings"].get(name) for name in settings if name not in varied}
    metrics = [name for name, value in best[0]["metrics"].items() if isinstance(value, int | float)]
    metric = str(found["goal"]["metric"])
    metrics = [metric, *(name for name in metrics if name != metric)][:MOST_METRICS]
    rows = [
        [place, each["group"], *map(each["settings"].get, varied), *map(each["metrics"].get, metrics)]
        for place, each in enumerate(best, 1)
    ]
    loss = found.get("expected_loss")
    text = f"{loss['loss']:.1%} against the best (n = {loss['sets']:,} measured choices)" if loss else "not measured"
    yield Figures([Figure("expected loss of the choice", text)])
    yield Table(
        "Best; those of a group differ by less than the error to expect", ["rank", "group", *varied, *metrics], rows
    )
    if equal:
        yield Table("Common settings", ["setting", "value"], [[name, _plain(value)] for name, value in equal.items()])
    fixed = found.get("fixed") or {}
    if fixed:
        yield Table(
            "Written in the file", ["setting", "value"], [[name, _plain(value)] for name, value in fixed.items()]
        )


def _course(found: Mapping[str, Any]) -> Iterator[Block]:
    counts = ("considered", "pruned", "simulated")
    yield Figures([Figure(name, f"{found[name]:,}") for name in counts if name in found])
    yield Items([str(stage) for stage in found.get("stages", ())])


def _reasons(found: Mapping[str, Any]) -> Iterator[Block]:
    reasons = found.get("reasons") or {}
    if reasons:
        rows = sorted(([reason, count] for reason, count in reasons.items()), key=lambda row: -row[1])
        yield Table("Candidates by reason", ["reason", "candidates"], rows)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str) else str(value)
