"""What validation found, as text, JSON and a table of predictions."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from simsys.fidelity.case import Prediction
from simsys.fidelity.errors import Errors, by_tag, errors_of, split, unsupported
from simsys.fidelity.ranking import Ranking, ranking_of
from simsys.report.files import write_files
from simsys.report.text import WIDTH, number, percent

TAGS = {
    "training": ("arch", "quality", "group", "strategy", "gpu"),
    "serving": ("metric", "group", "engine", "gpu"),
    "collectives": ("group", "collective", "size"),
}
"""What the errors of each kind of measurement are told apart by."""
COLUMNS = ("id", "group", "status", "predicted", "measured", "error_pct", "reason")
REASONS = 10
NAME = 30


@dataclass(frozen=True)
class Validation:
    """Predictions and what they amount to."""

    predictions: Sequence[Prediction]

    @cached_property
    def families(self) -> dict[str, list[Prediction]]:
        """Predictions of training, of serving, of collectives."""
        return split(self.predictions, lambda each: each.case.family)

    def text(self) -> str:
        """Tables of at most 80 columns."""
        return "\n\n".join(self._family_text(name, found) for name, found in self.families.items())

    def as_dict(self) -> dict[str, Any]:
        """The same for programs; errors are shares of one."""
        return {name: _family_dict(name, found) for name, found in self.families.items()}

    def write(self, path: Path) -> list[Path]:
        """Write a row for each measured value.

        Raises:
            OutputError: If that fails.
        """
        return write_files(path.parent, {path.name: self._write_rows})

    def _write_rows(self, file: TextIO) -> None:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for each in self.predictions:
            case, ok = each.case, each.predicted is not None
            figures = (each.predicted, case.measured, 100.0 * each.error) if ok else ("", case.measured, "")
            shown = [f"{figure:.6g}" if isinstance(figure, float) else figure for figure in figures]
            writer.writerow([case.id, case.group, each.status, *shown, each.reason])

    def _family_text(self, name: str, found: Sequence[Prediction]) -> str:
        whole = errors_of(found)
        lines = [f"{name}: {whole.rows:,} measured values, {percent(whole.coverage)} predicted"]
        lines += _error_table("", {"all": whole})
        for tag in TAGS.get(name, ()):
            parts = by_tag(found, tag)
            if len(parts) > 1:
                lines += ["", *_error_table(f"by {tag}", parts)]
        ranking = ranking_of(found)
        if ranking is not None:
            lines += ["", _ranking_text(ranking)]
        reasons = unsupported(found)
        if reasons:
            lines += ["", "not predicted"]
            lines += [_cut(f"  {rows:>6,}  {reason}") for reason, rows in list(reasons.items())[:REASONS]]
            rest = sum(list(reasons.values())[REASONS:])
            lines += [f"  {rest:>6,}  for other reasons"] if rest else []
        return "\n".join(lines)


def _family_dict(name: str, found: Sequence[Prediction]) -> dict[str, Any]:
    ranking = ranking_of(found)
    return {
        **_errors_dict(errors_of(found)),
        **{f"by_{tag}": {key: _errors_dict(e) for key, e in by_tag(found, tag).items()} for tag in TAGS.get(name, ())},
        "layouts": None if ranking is None else asdict(ranking),
        "unsupported": unsupported(found),
    }


def _errors_dict(errors: Errors) -> dict[str, Any]:
    return {**asdict(errors), "coverage": errors.coverage}


def _error_table(title: str, parts: dict[str, Errors]) -> list[str]:
    head = f"{title:<{NAME}}{'rows':>7}{'done':>7}{'balanced':>11}{'median':>8}{'p90':>8}{'bias':>8}"
    return [head, *(_error_line(name, errors) for name, errors in parts.items())]


def _error_line(name: str, errors: Errors) -> str:
    start = f"{'  ' + name[: NAME - 3]:<{NAME}}{errors.rows:>7,}{errors.coverage:>7.0%}"
    if errors.balanced_mape is None or errors.bias is None:
        return f"{start}{'-':>11}{'-':>8}{'-':>8}{'-':>8}"
    shares = (errors.median_error, errors.p90_error)
    middle = "".join(f"{percent(share or 0.0):>8}" for share in shares)
    return f"{start}{percent(errors.balanced_mape):>11}{middle}{errors.bias:>+8.0%}"


def _ranking_text(ranking: Ranking) -> str:
    return (
        f"choice of layout: {ranking.sets:,} sets of {ranking.rows:,} rows; rank correlation "
        f"{number(ranking.spearman)};\n  the predicted best is {percent(ranking.regret)} worse than the best"
    )


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
