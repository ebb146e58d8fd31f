"""Results of a validation as text, JSON and a table of predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from simsys.errors import Problem
from simsys.fidelity.bands import Coverage, coverage_by_metric
from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.choices import family_choices
from simsys.fidelity.errors import Errors, by_tag, errors_of, split, unsupported
from simsys.fidelity.ranking import Ranking, rankings
from simsys.report.csv_table import write_csv
from simsys.report.files import write_files
from simsys.report.text import WIDTH, number, percent, wrap

TAGS = {
    "training": ("arch", "quality", "group", "strategy", "gpu"),
    "serving": ("metric", "load_kind", "group", "engine", "gpu"),
    "collectives": ("group", "collective", "size"),
}
"""Tags by which errors of each kind of measurement are grouped."""
COLUMNS = ("id", "group", "status", "predicted", "measured", "error_pct", "reason")
REASONS = 10
NAME = 30
LISTED = 30
"""Limits of values listed one by one, and of problems listed."""


@dataclass(frozen=True)
class Validation:
    """Predictions with their errors.

    Args:
        predictions: Predictions of all readable values.
        problems: Unreadable rows with reasons.
        warnings: Warnings about the comparison.
    """

    predictions: Sequence[Prediction]
    problems: Sequence[Problem] = ()
    warnings: Sequence[str] = ()

    @cached_property
    def families(self) -> dict[str, list[Prediction]]:
        """Split predictions into training, serving and collectives."""
        return split(self.predictions, lambda each: each.case.family)

    def text(self) -> str:
        """Warnings, then tables of at most 80 columns, then the rows left out."""
        warnings = [line for text in self.warnings for line in wrap(text, "warning: ", "  ")]
        tables = [self._family_text(name, found) for name, found in self.families.items()]
        return "\n\n".join(part for part in ("\n".join(warnings), *tables, "\n".join(self._left_out())) if part)

    def as_dict(self) -> dict[str, Any]:
        """The validation as data for JSON; errors are fractions."""
        families = {name: _family_dict(name, found) for name, found in self.families.items()}
        return {**families, "warnings": list(self.warnings), "left_out": [str(problem) for problem in self.problems]}

    def _left_out(self) -> list[str]:
        """The rows that cannot be read, each with its place."""
        if not self.problems:
            return []
        rest = len(self.problems) - LISTED
        lines = ["left out (unreadable)", *(f"  {problem}" for problem in self.problems[:LISTED])]
        return [*lines, f"  and {rest:,} more; --strict lists all"] if rest > 0 else lines

    def write(self, path: Path) -> list[Path]:
        """Write one row per measured value.

        Raises:
            OutputError: If that fails.
        """
        return write_files(path.parent, {path.name: self._write_rows})

    def _write_rows(self, file: TextIO) -> None:
        write_csv(file, COLUMNS, map(_row, self.predictions))

    def _family_text(self, name: str, found: Sequence[Prediction]) -> str:
        whole = errors_of(found)
        lines = [f"{name}: {whole.rows:,} measured values, {percent(whole.coverage)} predicted"]
        lines += _error_table("", {"all": whole})
        listed = listed_of(found)
        if listed:
            lines += ["", *_side_by_side(listed)]
        for tag in TAGS.get(name, ()):
            parts = by_tag(found, tag)
            if len(parts) > 1:
                lines += ["", *_error_table(f"by {tag}", parts)]
        lines += _coverage_lines(coverage_by_metric(found))
        choices = rankings(family_choices(name, found))
        if choices:
            lines += ["", *_choice_lines(choices)]
        reasons = unsupported(found)
        if reasons:
            lines += ["", "not predicted"]
            lines += [_cut(f"  {rows:>6,}  {reason}") for reason, rows in list(reasons.items())[:REASONS]]
            rest = sum(list(reasons.values())[REASONS:])
            lines += [f"  {rest:>6,}  for other reasons"] if rest else []
        return "\n".join(lines)


def _measured(case: Case) -> float | None:
    """The measured value; None if the table has none."""
    return None if math.isnan(case.measured) else case.measured


def _row(each: Prediction) -> Sequence[Any]:
    """A measured value in the table."""
    case, ok = each.case, each.predicted is not None
    figures = (each.predicted, case.measured, 100.0 * each.error) if ok else ("", _measured(case), "")
    shown = [f"{figure:.6g}" if isinstance(figure, float) else figure or "" for figure in figures]
    return [case.id, case.group, each.status, *shown, each.reason]


def listed_of(found: Sequence[Prediction]) -> Sequence[Prediction]:
    """The values listed one by one: metrics of whole runs, unless there are too many."""
    whole = [each for each in found if not each.case.one_of_many]
    return whole if len(whole) <= LISTED else []


def _side_by_side(found: Sequence[Prediction]) -> list[str]:
    """Measured and predicted values, one line each."""
    lines = [f"{'':<{NAME + 8}}{'measured':>12}{'predicted':>12}{'error':>9}"]
    for each in found:
        case = each.case
        name = _cut(case.metric if case.id.endswith(f":{case.metric}") else f"{case.id} {case.metric}", NAME + 1)
        start = f"  {name:<{NAME + 1}}{case.unit:>5}{number(_measured(case)):>12}"
        shown = f"{number(each.predicted):>12}"
        lines.append(f"{start}{shown}{each.error:>+9.1%}" if each.predicted is not None else f"{start}{shown}{'-':>9}")
    return lines


def _value_dict(each: Prediction) -> dict[str, Any]:
    case = each.case
    return {
        "id": case.id,
        "metric": case.metric,
        "unit": case.unit,
        "measured": _measured(case),
        "predicted": each.predicted,
        "error": None if each.predicted is None else each.error,
        "reason": each.reason,
    }


def _family_dict(name: str, found: Sequence[Prediction]) -> dict[str, Any]:
    choices = rankings(family_choices(name, found))
    return {
        **_errors_dict(errors_of(found)),
        **{f"by_{tag}": {key: _errors_dict(e) for key, e in by_tag(found, tag).items()} for tag in TAGS.get(name, ())},
        "bands": {metric: asdict(own) for metric, own in coverage_by_metric(found).items()},
        "choices": {kind: asdict(ranking) for kind, ranking in choices.items()},
        "values": [_value_dict(each) for each in listed_of(found)],
        "unsupported": unsupported(found),
    }


def _errors_dict(errors: Errors) -> dict[str, Any]:
    return {**asdict(errors), "coverage": errors.coverage}


def _error_table(title: str, parts: dict[str, Errors]) -> list[str]:
    head = f"{title:<{NAME}}{'rows':>7}{'done':>7}{'balanced':>11}{'median':>8}{'p90':>8}{'bias':>8}"
    return [head, *(_error_line(name, errors) for name, errors in parts.items())]


def _error_line(name: str, errors: Errors) -> str:
    above = "" if len(name) <= NAME - 3 else _cut(f"  {name}") + "\n"  # names of systems may differ at their end
    start = f"{above}{'' if above else '  ' + name:<{NAME}}{errors.rows:>7,}{errors.coverage:>7.0%}"
    if errors.balanced_mape is None or errors.bias is None:
        return f"{start}{'-':>11}{'-':>8}{'-':>8}{'-':>8}"
    shares = (errors.median_error, errors.p90_error)
    middle = "".join(f"{percent(share or 0.0):>8}" for share in shares)
    return f"{start}{percent(errors.balanced_mape):>11}{middle}{errors.bias:>+8.0%}"


def _coverage_lines(coverage: Mapping[str, Coverage]) -> list[str]:
    """A line for each metric: how many values are in the bands of 80 % from other sources."""
    if not coverage:
        return []
    head = ["", f"{'80 % bands from other sources':<{NAME}}{'rows':>7}{'inside':>9}{'width':>8}"]
    return head + [
        f"{'  ' + name:<{NAME}}{own.rows:>7,}{percent(own.inside):>9}{percent(own.width):>8}"
        for name, own in coverage.items()
    ]


def _choice_lines(choices: Mapping[str, Ranking]) -> list[str]:
    """A line for each kind of choice."""
    width = WIDTH - 29
    lines = [f"{'choice of':<{width}}{'sets':>7}{'rows':>7}{'rank':>7}{'loss':>8}"]
    lines += [
        f"{'  ' + kind:<{width}}{own.sets:>7,}{own.rows:>7,}{own.spearman:>7.2f}{percent(own.loss):>8}"
        for kind, own in choices.items()
    ]
    meaning = "rank: correlation of predicted and measured order; loss: predicted best against measured best"
    return [*lines, *wrap(meaning, "  ", "  ")]


def _cut(line: str, width: int = WIDTH) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
