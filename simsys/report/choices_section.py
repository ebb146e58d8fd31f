"""The section "Choices" of the page on prediction errors: how good choices by simulation are, and the worst ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from simsys.errors import UsageError
from simsys.fidelity.case import Prediction
from simsys.fidelity.choices import ASKED, choices_of
from simsys.fidelity.ranking import LAYOUT, Choice, Ranking
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.input_files import read_text
from simsys.report.files import write_files
from simsys.report.markdown_table import markdown_table
from simsys.sums import ordered_sum

WORST = 10
TITLE = "## Choices"
INTRODUCTION = """
Measured runs that differ in one choice alone form a set. The simulator chooses from each set of three or more, and its
choice is compared with the best measured run of the set. *Rank* is the rank correlation of predicted and measured
order. *Loss* is a mean over the sets: of layouts, additional time; of serving, the share of the best throughput per
GPU (for types of GPU, per dollar) that is lost. A choice is *beyond* a limit if its measured latency is; its loss is
then at least the share of speed that it lacks.
"""
Choices = Mapping[str, Mapping[str, Sequence[Choice]]]
"""Choices by family and kind."""


def choices_section(choices: Choices, causes: Mapping[str, str], made: str = "") -> Iterator[str]:
    """Yield the lines of the section; none if there are no choices.

    Args:
        choices: Choices by family and kind.
        causes: Known causes of wrong choices, by group.
        made: How the section was made, if it was not made with the whole page.
    """
    if not choices:
        return
    yield from [TITLE, "", *([made, ""] if made else []), *INTRODUCTION.strip().splitlines(), ""]
    head = ("", "choice of", "sets", "values", "rank", "loss", "beyond")
    rows = (_kind(*each) for family, own in choices.items() for each in _rankings(family, own))
    yield from markdown_table(head, rows)
    for family, own in choices.items():
        asked = ASKED.get(family, "")
        if asked in own:
            yield from _groups(asked, own[asked], causes)
            yield from _dearest(asked, own[asked])


def replace_choices(
    page: Path, predictions: Sequence[Prediction], *, made: str, causes: Mapping[str, str]
) -> list[Path]:
    """Replace the section of a page, or add it at the end.

    Args:
        page: The page.
        predictions: Predictions of held-out rows.
        made: How the section was made.
        causes: Known causes of wrong choices, by group.

    Raises:
        UsageError: If there are no choices among the predictions.
        OutputError: If the page cannot be written.
    """
    lines = list(choices_section(choices_of(predictions), causes, made))
    if not lines:
        raise UsageError(f"{page}: no section of choices, as no three measured runs differ in one choice alone")
    before, _, rest = read_text(page).partition(f"\n{TITLE}\n")
    after = rest.partition("\n## ")[2]
    parts = [before.rstrip("\n"), "\n".join(lines).rstrip("\n"), *([f"## {after}".rstrip("\n")] if after else [])]
    text = "\n\n".join(parts) + "\n"
    return write_files(page.parent, {page.name: lambda file: file.write(text)})


def _rankings(family: str, kinds: Mapping[str, Sequence[Choice]]) -> Iterator[tuple[str, str, Ranking]]:
    for kind, own in kinds.items():
        yield family, kind, Ranking.of(own, kind)


def _kind(family: str, kind: str, own: Ranking) -> list[str]:
    """A row of the table of kinds."""
    beyond = f"{own.beyond:.0%}" if "within" in kind else ""
    return [family, kind, f"{own.sets:,}", f"{own.rows:,}", f"{own.spearman:.2f}", f"{own.loss:.1%}", beyond]


def _groups(kind: str, choices: Sequence[Choice], causes: Mapping[str, str]) -> Iterator[str]:
    """Quality of choices by source, the source with the largest part of the loss first."""
    yield from [f"By source, choice of {kind}:", ""]
    groups: dict[str, list[Choice]] = {}
    for each in choices:
        groups.setdefault(each.picked.row.case.group, []).append(each)
    lost = {name: ordered_sum(each.loss_of(kind) for each in own) for name, own in groups.items()}
    rows = []
    for name in sorted(groups, key=lambda name: (-lost[name], name)):
        own = Ranking.of(groups[name], kind)
        cause = causes.get(name, "not known") if lost[name] else ""
        part = f"{lost[name] / len(choices):.1%}"
        rows.append([name, f"{own.sets}", f"{own.spearman:.2f}", f"{own.loss:.1%}", part, cause])
    yield from markdown_table(("source", "sets", "rank", "loss", "of the whole", "known cause"), rows)


def _dearest(kind: str, choices: Sequence[Choice]) -> Iterator[str]:
    """The most costly choices."""
    found = sorted((each for each in choices if each.regret > 0.0), key=lambda each: -each.regret)[:WORST]
    if found:
        yield from [f"The most costly choices of {kind}:", ""]
        head = ("source", "chosen instead of the best", "predicted", "measured", "loss")
        yield from markdown_table(head, (_choice_row(kind, each) for each in found))


def _choice_row(kind: str, choice: Choice) -> list[str]:
    picked, best = choice.picked, choice.best
    unit = picked.row.case.unit if kind == LAYOUT else "GPU s per token"
    beyond = picked.measured.beyond
    measured = f"{picked.measured.cost:.4g} for {best.measured.cost:.4g} {unit}"
    return [
        picked.row.case.group,
        _differences(picked.row, best.row),
        f"{picked.predicted.cost:.4g} for {best.predicted.cost:.4g} {unit}",
        f"{measured}, {beyond:.0%} beyond the limit" if beyond else measured,
        f"{choice.loss_of(kind):.0%}",
    ]


def _differences(picked: Prediction, best: Prediction) -> str:
    """Differences between two runs, as ``tp_degree 2 for 4``."""
    here, there = picked.case.run, best.case.run
    if not isinstance(here, ScenarioRun) or not isinstance(there, ScenarioRun):
        return ""
    return ", ".join(f"{name} {_setting(a)} for {_setting(b)}" for name, (a, b) in here.differences(there).items())


def _setting(value: Any) -> str:
    return "none" if value is None else str(value)
