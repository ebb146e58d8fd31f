"""Calibration: fit the coefficients of profiles to measured runs, and write them down with how good they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from math import ceil, sqrt
from pathlib import Path
from typing import Any, TextIO

from simsys.config.expected_errors import BY_REGIME, FILENAME
from simsys.config.hardware import Named, without_fits_to
from simsys.errors import UsageError
from simsys.fidelity.case import Case, Prediction, Run
from simsys.fidelity.coefficients import SERVED
from simsys.fidelity.errors import Errors, errors_of
from simsys.fidelity.expected import errors_by_regime, errors_to_expect
from simsys.fidelity.fit import Fit, fit_in_turn, unseen
from simsys.fidelity.kernel_fit import KernelFit, overlay_of, provenance
from simsys.fidelity.predict import Overlay, Progress, Simulations
from simsys.fidelity.problem import Problem
from simsys.report.files import write_files
from simsys.report.yaml_text import yaml_text

MORE_BATCHES = 2
MORE = 3
"""How many times the rows of the joint fit the fit of what serving alone tells looks at."""


@dataclass(frozen=True)
class Calibration:
    """A fit and the errors before it, of it, and on rows that it has not seen.

    Args:
        problem: What was fitted, to a sample of the rows.
        fit: The coefficients.
        before: Predictions of the sample with the profiles as they were.
        after: Predictions of the sample with the fit.
        unseen: Predictions of every row by a fit without its fold.
        read: The profiles that each row reads; none of those that cannot be predicted.
        kernels: What was fitted to tables of kernels before.
        tables: The names of the tables.
        command: What the user called.
        as_of: The date.
    """

    problem: Problem
    fit: Fit
    before: Sequence[Prediction]
    after: Sequence[Prediction]
    unseen: Sequence[Prediction]
    read: Sequence[frozenset[Named]]
    kernels: Sequence[KernelFit]
    tables: Sequence[str]
    command: str
    as_of: date

    @cached_property
    def documents(self) -> dict[Named, dict[str, Any]]:
        """For each profile what was fitted, where it comes from, and how good it is.

        Coefficients that were fitted together make up for each other, so profiles are kept all together: if unseen
        rows are predicted better than before, or else those that kernels have told.
        """
        if not self.helps:
            return _kernel_documents(self.kernels, self.tables, self.command, self.as_of)
        return {named: {**values, **self._provenance(named)} for named, values in self.fit.overlay.items()}

    @cached_property
    def helps(self) -> bool:
        """Whether the fit makes the rows that it looked at better where it has not seen them."""
        unseen_ = {each.case.id: each for each in self.unseen}
        now = [unseen_[each.case.id] for each in self.before]
        return (errors_of(now).balanced_mape or 0.0) < (errors_of(self.before).balanced_mape or 0.0)

    def write(self, folder: Path) -> list[Path]:
        """Write the fits into ``fits/`` below a folder of hardware profiles.

        Raises:
            OutputError: If that fails.
        """
        files = write_fits(folder, self.documents, self.command, self.as_of)
        head = f"# Errors on rows held out of the fit, by `{self.command}`, {self.as_of}.\n"
        texts = {
            FILENAME: yaml_text(errors_to_expect(self.unseen, self.read)),
            BY_REGIME: yaml_text(errors_by_regime(self.unseen, self.read)),
        }
        return files + write_files(folder / "fits", {name: _writer(head + text) for name, text in texts.items()})

    def errors(self, named: Named) -> tuple[Errors, Errors, Errors]:
        """Errors of the sampled rows that read a profile: before, of the fit, and unseen."""
        unseen_ = {each.case.id: each for each in self.unseen}
        tested = [unseen_[each.case.id] for each in self.before]
        own = [named in read for read in self.problem.read]
        before, after, blind = (
            errors_of([each for each, mine in zip(found, own, strict=True) if mine])
            for found in (self.before, self.after, tested)
        )
        return before, after, blind

    def _provenance(self, named: Named) -> dict[str, Any]:
        _, after, unseen_ = self.errors(named)
        own = [
            (".".join(each.path), rows)
            for each, rows in zip(self.fit.coefficients, self.fit.rows, strict=True)
            if each.named == named
        ]
        names = ", ".join(self.tables)
        kernels = [fit for fit in self.kernels if ("gpu", fit.gpu) == named]
        told = provenance(kernels, self.tables, self.command, self.as_of) if kernels else {"sources": {}, "fits": {}}
        sources = {path: f"fitted to {rows} rows of {names} ({self.as_of}), {self.command}" for path, rows in own}
        fits = {
            path: {
                "fitted_on": f"{rows} rows of {names}",
                "error": _share(unseen_),
                "error_of_fit": _share(after),
                "command": self.command,
                "as_of": str(self.as_of),
            }
            for path, rows in own
        }
        return {"sources": told["sources"] | sources, "fits": told["fits"] | fits}


def write_kernel_fits(
    folder: Path, kernels: Sequence[KernelFit], *, tables: Sequence[str], command: str, as_of: date
) -> list[Path]:
    """Write what was fitted to kernels alone, as `Calibration.write` does.

    Raises:
        OutputError: If that fails.
    """
    return write_fits(folder, _kernel_documents(kernels, tables, command, as_of), command, as_of)


def _kernel_documents(
    kernels: Sequence[KernelFit], tables: Sequence[str], command: str, as_of: date
) -> dict[Named, dict[str, Any]]:
    """What kernels alone have told of each profile."""
    return {
        named: {**values, **provenance([fit for fit in kernels if ("gpu", fit.gpu) == named], tables, command, as_of)}
        for named, values in overlay_of(kernels).items()
    }


def write_fits(folder: Path, documents: Mapping[Named, Mapping[str, Any]], command: str, as_of: date) -> list[Path]:
    """Write settings of profiles into ``fits/`` below a folder of hardware profiles.

    Raises:
        OutputError: If that fails.
    """
    files: list[Path] = []
    for (kind, name), document in documents.items():
        text = f"# Fitted by `{command}`, {as_of}: not to be edited.\n{yaml_text(dict(document))}"
        files += write_files(folder / "fits" / f"{kind}s", {f"{name}.yaml": _writer(text)})
    return files


def calibrate(
    cases: Sequence[Case],
    kernels: Sequence[KernelFit] = (),
    *,
    tables: Sequence[str],
    command: str,
    as_of: date,
    rows_of_a_group: int = 10,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Calibration:
    """Fit all coefficients that the cases can tell.

    It begins with profiles as they were before any fit to these tables, which would have seen the rows that are kept
    from a fit to tell its error.

    Args:
        cases: Measured runs.
        kernels: What was fitted to tables of kernels; it holds for the runs.
        tables: The names of their tables.
        command: What the user called, to be written down.
        as_of: The date, likewise.
        rows_of_a_group: How many of a hundred runs of a group, GPU and engine the fit looks at (`sample`).
        jobs: Processes that simulate.
        progress: Told how far a round of simulations is.

    Raises:
        UsageError: If there are too few rows, or they do not vary.
    """
    chosen, more = sample(cases, rows_of_a_group), sample_of_serving(cases, rows_of_a_group)
    with without_fits_to(tables), Simulations(jobs, progress, tables) as simulations:
        problem = Problem(chosen, simulations, overlay_of(kernels))
        served = _served(more, simulations, overlay_of(kernels))
        fitted = fit_in_turn(problem, served)
        tested = unseen(problem, cases, simulations, then=served)
        before, after = simulations.predict(problem.cases), simulations.predict(problem.cases, fitted.overlay)
        read = [simulations.profiles(case.run) if case.run is not None else frozenset() for case in cases]
    return Calibration(problem, fitted, before, after, tested, read, kernels, tables, command, as_of)


def not_looked_at(cases: Sequence[Case], of_hundred: int) -> list[Case]:
    """The cases that `calibrate` does not fit to, if it looks at so many of a hundred runs of a group."""
    seen = {id(case) for case in (*sample(cases, of_hundred), *sample_of_serving(cases, of_hundred))}
    return [case for case in cases if id(case) not in seen]


def sample_of_serving(cases: Sequence[Case], of_hundred: int) -> list[Case]:
    """More cases of serving, for the fit of what serving alone tells."""
    return [case for case in sample(cases, MORE * of_hundred) if case.family == "serving"]


def _served(serving: Sequence[Case], simulations: Simulations, base: Overlay) -> Problem | None:
    """What serving alone tells, with more of its rows; none if there are too few.

    A row has few coefficients of that alone, so a set of derivatives costs half of what it does with all.
    """
    try:
        return Problem(serving, simulations, base, SERVED)
    except UsageError:
        return None


def sample(cases: Sequence[Case], of_hundred: int) -> list[Case]:
    """All cases of some runs of each group, GPU and engine, evenly spaced in the order of their table.

    Args:
        cases: What to choose from.
        of_hundred: How many of a hundred runs; of more or fewer, as the root of their number. Of those that serve a
            single batch, which cost little, it is `MORE_BATCHES` times as many.
    """
    groups: dict[tuple[str, ...], dict[Run, list[Case]]] = {}
    for case in cases:
        if case.run is not None:
            load = case.tags.get("load_kind", "")
            groups.setdefault((case.group, *case.setting, load), {}).setdefault(case.run, []).append(case)
    chosen: list[Case] = []
    for (*_, load), runs in groups.items():
        members, more = list(runs.values()), MORE_BATCHES if load == "static_batch" else 1
        count = min(len(members), ceil(more * of_hundred * sqrt(len(members) / 100.0)))
        chosen += [case for index in range(count) for case in members[index * len(members) // count]]
    return chosen


def _share(errors: Errors) -> float:
    return min(1.0, max(0.0001, round(errors.balanced_mape or 0.0, 4)))


def _writer(text: str) -> Any:
    def write(file: TextIO) -> None:
        file.write(text)

    return write
