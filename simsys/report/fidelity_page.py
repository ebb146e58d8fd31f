"""The documentation page on prediction errors: tables, pictures, the worst groups with causes, expected errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simsys.config.document import read_document
from simsys.errors import UsageError
from simsys.fidelity.bands import coverage_by_metric
from simsys.fidelity.case import Prediction
from simsys.fidelity.choices import choices_of
from simsys.fidelity.errors import Errors, by_tag, errors_of, split, tag_of, unsupported
from simsys.plots.drawing import new_figure, write_figure
from simsys.report.choices_section import choices_section
from simsys.report.files import write_files
from simsys.report.markdown_table import markdown_table
from simsys.report.prose import wrapped
from simsys.report.validation import TAGS

WORST = 10
WORST_ROWS = 3
"""Minimum rows of a group in the list of worst groups."""
COLOURS = ("#4477aa", "#cc6677", "#228833", "#ddaa33", "#aa3377", "#66ccee", "#bbbbbb")


@dataclass(frozen=True)
class Notes:
    """Notes written by people for the page.

    Args:
        causes: Known causes of bad predictions, by group.
        choices: Known causes of wrong choices, by group.
        not_modelled: Effects that simsys does not model.
    """

    causes: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    not_modelled: Sequence[str] = ()

    @classmethod
    def read(cls, path: Path) -> Notes:
        """Read notes from a YAML file.

        Raises:
            ConfigError: If it is no YAML.
            UsageError: If it holds something else.
        """
        data = read_document(path).data
        by_group = [data.get(name, {}) for name in ("causes", "choices")]
        not_modelled = data.get("not_modelled", [])
        if not all(isinstance(each, dict) for each in by_group) or not isinstance(not_modelled, list):
            raise UsageError(f"{path}: notes are mappings 'causes' and 'choices', and a list 'not_modelled'")
        causes, choices = ({str(key): str(text) for key, text in each.items()} for each in by_group)
        return cls(causes, choices, [str(text) for text in not_modelled])


def write_page(path: Path, predictions: Sequence[Prediction], *, command: str, notes: Notes) -> list[Path]:
    """Write the page, and its pictures into ``images/`` beside it.

    Args:
        path: The page.
        predictions: Predictions of held-out rows.
        command: The command that wrote it.
        notes: Notes by people.

    Raises:
        OutputError: If something could not be written.
    """
    families = split(predictions, lambda each: each.case.family)
    pictures = [_scatter(name, found, path.parent / "images") for name, found in families.items()]
    text = wrapped("\n".join(_page(families, command, notes))).rstrip("\n") + "\n"
    return [*write_files(path.parent, {path.name: lambda file: file.write(text)}), *pictures]


def _page(families: Mapping[str, Sequence[Prediction]], command: str, notes: Notes) -> Iterator[str]:
    yield from [
        "# How wrong it is",
        "",
        f"Made by `{command}`; do not edit.",
        "",
        "All figures are cross-validated: the rows are divided into five parts by source (training), curve (serving)",
        "or system (collectives), and each part is predicted with coefficients fitted to the other parts.",
        "",
        "A *balanced* error is a mean over sources of their mean errors. Bias is predicted over measured, minus one.",
        "",
        *markdown_table(
            ("", "measured values", "predicted", "balanced", "median", "p90", "bias"),
            ([name, f"{e.rows:,}", f"{e.coverage:.0%}", *_shares(e)] for name, e in _each(families)),
        ),
    ]
    for name, found in families.items():
        yield from _family(name, found, notes)
    yield from choices_section(choices_of([each for own in families.values() for each in own]), notes.choices)
    if notes.not_modelled:
        yield from ["## What is not modelled", "", *(f"- {text}" for text in notes.not_modelled), ""]


def _family(name: str, found: Sequence[Prediction], notes: Notes) -> Iterator[str]:
    yield from [f"## {name.capitalize()}", "", f"![predicted over measured](images/fidelity_{name}.png)", ""]
    for tag in TAGS.get(name, ()):
        parts = by_tag(found, tag)
        if len(parts) > 1:
            head = (tag, "values", "predicted", "balanced", "median", "p90", "bias")
            yield from markdown_table(
                head, ([key, f"{e.rows:,}", f"{e.coverage:.0%}", *_shares(e)] for key, e in parts.items())
            )
    bands = coverage_by_metric(found)
    if bands:
        yield from ["Bands of 80 % from other sources:", ""]
        cells = ([key, f"{own.rows:,}", f"{own.inside:.0%}", f"{own.width:.0%}"] for key, own in bands.items())
        yield from markdown_table(("metric", "values", "inside", "median width"), cells)
    worst = _worst(found)
    if worst:
        yield from ["The worst groups:", ""]
        rows = (
            [key, f"{e.balanced_mape:.0%}", f"{e.bias:+.0%}", notes.causes.get(key, "not known")] for key, e in worst
        )
        yield from markdown_table(("group", "error", "bias", "known cause"), rows)
    reasons = Counter[str]()
    for reason, count in unsupported(found).items():
        reasons[reason.split(" does not fit: ")[0]] += count  # without the missing amount
    if reasons:
        yield from ["Not predicted:", ""]
        counted = ([f"{rows:,}", reason] for reason, rows in reasons.most_common())
        yield from markdown_table(("values", "reason"), counted)


def _worst(found: Sequence[Prediction]) -> list[tuple[str, Errors]]:
    groups = [(key, errors) for key, errors in by_tag(found, "group").items() if errors.predicted >= WORST_ROWS]
    return sorted(groups, key=lambda item: -(item[1].balanced_mape or 0.0))[:WORST]


def _each(families: Mapping[str, Sequence[Prediction]]) -> Iterator[tuple[str, Errors]]:
    for name, found in families.items():
        yield name, errors_of(found)


def _shares(errors: Errors) -> list[str]:
    if errors.balanced_mape is None or errors.bias is None:
        return ["-"] * 4
    sizes = (errors.balanced_mape, errors.median_error or 0.0, errors.p90_error or 0.0)
    return [*(f"{share:.1%}" for share in sizes), f"{errors.bias:+.1%}"]


def _scatter(name: str, found: Sequence[Prediction], folder: Path) -> Path:
    """Scatter plot of predicted against measured values."""
    shown = [each for each in found if each.predicted is not None]
    figure, panels = new_figure(7.0, 5.0)
    axes: Any = panels[0]
    tag = "metric" if name == "serving" else "gpu" if name == "training" else "group"
    parts = list(split(shown, lambda each: tag_of(each, tag) or "not stated").items())
    rest = [each for _, members in parts[len(COLOURS) - 1 :] for each in members]
    for (label, members), colour in zip([*parts[: len(COLOURS) - 1], ("others", rest)], COLOURS, strict=False):
        if members:
            ratios = [(each.predicted or 0.0) / each.case.measured for each in members]
            axes.scatter(
                [each.case.measured for each in members], ratios, s=5, color=colour, label=label, linewidths=0
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.axhline(1.0, color="#666666", linewidth=0.8)
    axes.set_xlabel("measured")
    axes.set_ylabel("predicted / measured")
    axes.set_title(f"{name}: {len(shown):,} values")
    axes.legend(fontsize=7)
    return write_figure(figure, folder / f"fidelity_{name}.png")
