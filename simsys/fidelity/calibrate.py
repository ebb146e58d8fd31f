"""Calibration: fit coefficients of profiles to measured runs, and write them with their errors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO, get_args

from simsys.config.expected_errors import BY_REGIME, FILENAME
from simsys.config.expected_losses import FILENAME as LOSSES
from simsys.config.hardware import FitsLeftOut, Kind, Named, profile_names, without_fits
from simsys.config.loader import deep_merge
from simsys.errors import UnknownNameError, UsageError
from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.coefficients import Coefficient
from simsys.fidelity.errors import Errors, errors_of
from simsys.fidelity.expected import errors_by_regime, errors_to_expect, losses_to_expect, with_errors_of
from simsys.fidelity.fit import Fit, fit, unseen
from simsys.fidelity.kernel_fit import KernelFit, overlay_of, provenance
from simsys.fidelity.memo import Memo
from simsys.fidelity.predict import Overlay, Progress, Simulations
from simsys.fidelity.problem import Problem
from simsys.fidelity.sample import sample
from simsys.report.files import write_files
from simsys.report.yaml_text import yaml_text

FITTED_TOGETHER = (("collectives",), ("training", "serving"))
"""Families of rows whose coefficients are fitted together: no coefficient depends on both of these (`FREE`)."""
DRAWS = 200
"""Draws of sources for the intervals of coefficients."""


@dataclass(frozen=True)
class Part:
    """A fit to the rows of some families, with the errors before the fit, after it, and on held-out rows.

    Coefficients that were fitted together compensate each other, so either all are kept (if held-out rows are
    predicted better than before), or none.

    Args:
        problem: The problem, on a sample of the rows.
        fit: The fitted coefficients.
        before: Predictions of the sample with the profiles before the fit.
        after: Predictions of the sample with the fit.
        unseen: Predictions of every row by a fit without its fold; by the profiles before the fit if it is not kept.
        helps: Whether the cross-validated error of the sampled rows is smaller than before the fit.
    """

    problem: Problem
    fit: Fit
    before: Sequence[Prediction]
    after: Sequence[Prediction]
    unseen: Sequence[Prediction]
    helps: bool

    def errors(self, named: Named) -> tuple[Errors, Errors, Errors]:
        """Return the errors of the sampled rows that read a profile: before the fit, after it, and held out."""
        unseen_ = {each.case.id: each for each in self.unseen}
        tested = [unseen_[each.case.id] for each in self.before]
        own = [named in read for read in self.problem.read]
        before, after, blind = (
            errors_of([each for each, mine in zip(found, own, strict=True) if mine])
            for found in (self.before, self.after, tested)
        )
        return before, after, blind


@dataclass(frozen=True)
class Calibration:
    """A fit of links to collectives, and one of everything else to training and serving.

    Args:
        parts: The fits.
        left_out: Why families were not fitted, by their names.
        unseen: Predictions of every row, in the order of the tables (`Part.unseen`).
        read: The profiles that each row reads; empty for rows that cannot be predicted.
        kernels: Fits to tables of kernels, which are the base of these fits.
        tables: The names of the tables.
        command: The command line.
        as_of: The date.
        only: Names of the profiles that were fitted; empty if all were.
    """

    parts: Sequence[Part]
    left_out: Mapping[str, str]
    unseen: Sequence[Prediction]
    read: Sequence[frozenset[Named]]
    kernels: Sequence[KernelFit]
    tables: Sequence[str]
    command: str
    as_of: date
    only: Collection[str] = ()

    @cached_property
    def documents(self) -> dict[Named, dict[str, Any]]:
        """Return the fitted settings of each profile, with sources and errors: of kernels, and of parts that help."""
        found = _kernel_documents(self.kernels, self.tables, self.command, self.as_of)
        for part in self.parts:
            for named, values in part.fit.overlay.items() if part.helps else ():
                found[named] = deep_merge(found.get(named, {}), {**values, **self._provenance(part, named)})
        return found

    def write(self, folder: Path) -> list[Path]:
        """Write the fits into ``fits/`` below a folder of hardware profiles.

        If only some profiles were fitted, the errors of their GPUs replace those in the folder, and other errors stay.

        Raises:
            OutputError: If that fails.
        """
        files = write_fits(folder, self.documents, self.command, self.as_of)
        if self.only:
            return files + self._write_own_errors(folder / "fits")
        head = f"# Errors on rows held out of the fit, by `{self.command}`, {self.as_of}.\n"
        texts = {
            FILENAME: yaml_text(errors_to_expect(self.unseen, self.read)),
            BY_REGIME: yaml_text(errors_by_regime(self.unseen, self.read)),
            LOSSES: yaml_text(losses_to_expect(self.unseen)),
        }
        return files + write_files(folder / "fits", {name: _writer(head + text) for name, text in texts.items()})

    def _write_own_errors(self, folder: Path) -> list[Path]:
        """Write the errors on the GPUs that were fitted among those of a folder."""
        own = {
            family: {gpu: errors for gpu, errors in gpus.items() if gpu in self.only}
            for family, gpus in errors_to_expect(self.unseen, self.read).items()
        }
        known = {family: gpus for family, gpus in own.items() if gpus}
        found = with_errors_of(folder / FILENAME, known, f"`{self.command}`, {self.as_of}.")
        return [] if found is None else write_files(folder, {FILENAME: _writer(found)})

    def _provenance(self, part: Part, named: Named) -> dict[str, Any]:
        _, after, unseen_ = part.errors(named)
        names = ", ".join(self.tables)
        sources: dict[str, str] = {}
        fits: dict[str, Any] = {}
        for each, rows, ends in zip(part.fit.coefficients, part.fit.rows, part.fit.intervals, strict=True):
            if each.named != named:
                continue
            path = ".".join(each.path)
            sources[path] = f"fitted to {rows} rows of {names} ({self.as_of}), {self.command}"
            noted = {
                "fitted_on": f"{rows} rows of {names}",
                "error": _share(unseen_),
                "error_of_fit": _share(after),
                "command": self.command,
                "as_of": str(self.as_of),
            }
            columns = fits.get(path, {}).get("intervals", {})
            fits[path] = {**noted, "intervals": {**columns, each.column or "value": [_end(each, end) for end in ends]}}
        return {"sources": sources, "fits": fits}


def write_kernel_fits(
    folder: Path, kernels: Sequence[KernelFit], *, tables: Sequence[str], command: str, as_of: date
) -> list[Path]:
    """Write fits to kernels, as `Calibration.write` writes fits to runs.

    Raises:
        OutputError: If that fails.
    """
    return write_fits(folder, _kernel_documents(kernels, tables, command, as_of), command, as_of)


def _kernel_documents(
    kernels: Sequence[KernelFit], tables: Sequence[str], command: str, as_of: date
) -> dict[Named, dict[str, Any]]:
    """Return the settings of each profile that were fitted to kernels."""
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
    only: Collection[str] = (),
    memo: Memo | None = None,
) -> Calibration:
    """Fit all coefficients on which the cases depend.

    Links are fitted to collectives first, the rest to training and serving. Coefficients are held near the profiles
    without earlier fits to these tables, and fits without some rows begin there. Other fits begin with earlier ones.

    Args:
        cases: Measured runs.
        kernels: Fits to tables of kernels, which stay fixed; of these, those of `only`.
        tables: The names of the tables of the cases.
        command: The command line, written into the fits.
        as_of: The date, written into the fits.
        rows_of_a_group: Sampled runs of a hundred runs of one group, GPU and engine (`sample`).
        jobs: Number of processes.
        progress: Called after each run of a round of simulations.
        only: Names of the profiles that are fitted, to the cases that read them; all that the cases read if empty.
        memo: Where outcomes of simulations are kept on disk, if they are.

    Raises:
        UsageError: If there are too few rows, or they do not vary; or there is no profile of a name.
    """
    kernels = _chosen(kernels, only)
    parts, left_out, found = list[Part](), dict[str, str](), dict[str, Prediction]()
    base: Overlay = overlay_of(kernels)
    with without_fits(own := FitsLeftOut(tables, only)), Simulations(jobs, progress, own, memo) as simulations:
        cases = simulations.reading(cases, only) if only else cases
        for families, together in _together(cases):
            try:
                parts.append(_part(together, base, rows_of_a_group, simulations, only))
                base = parts[-1].fit.overlay if parts[-1].helps else base
            except UsageError as why:
                left_out[families] = str(why)
                found |= {each.case.id: each for each in simulations.predict(together, base)}
        read = [simulations.profiles(case.run) if case.run is not None else frozenset() for case in cases]
    if not parts:
        raise UsageError("; ".join(left_out.values()) or f"no row reads a profile of {', '.join(only)}")
    blind = _in_order(cases, found, parts)
    return Calibration(parts, left_out, blind, read, kernels, tables, command, as_of, only)


def _in_order(cases: Sequence[Case], found: Mapping[str, Prediction], parts: Sequence[Part]) -> list[Prediction]:
    """Return the prediction of every case: of a part that has it, or else the one that was found."""
    blind = {**found, **{each.case.id: each for part in parts for each in part.unseen}}
    return [blind[each.id] for each in cases]


def _together(cases: Sequence[Case]) -> Iterator[tuple[str, list[Case]]]:
    """Yield the cases that are fitted together, with the names of their families."""
    for families in FITTED_TOGETHER:
        if found := [case for case in cases if case.family in families]:
            yield " and ".join(families), found


def _chosen(kernels: Sequence[KernelFit], only: Collection[str]) -> Sequence[KernelFit]:
    """Return the fits to kernels of some profiles; names of profiles that there are not are refused."""
    known = [name for kind in get_args(Kind) for name in profile_names(kind)]
    for name in only:
        if name not in known:
            raise UnknownNameError("profile", name, known)
    return [fit for fit in kernels if not only or fit.gpu in only]


def _part(
    cases: Sequence[Case], base: Overlay, rows_of_a_group: int, simulations: Simulations, only: Collection[str]
) -> Part:
    """Fit the coefficients on which some cases depend, over settings that stay fixed."""
    problem = Problem(sample(cases, rows_of_a_group, simulations), simulations, base, warm=True, only=only)
    fitted = fit(problem, draws=DRAWS)
    tested = unseen(problem, cases, simulations)
    before, after = (simulations.predict(problem.cases, overlay) for overlay in (base, fitted.overlay))
    blind = {each.case.id: each for each in tested}
    helps = _balanced([blind[each.case.id] for each in before]) < _balanced(before)
    if not helps:
        again = simulations.predict([each.case for each in tested if each.predicted is not None], base)
        blind.update((each.case.id, each) for each in again)
    return Part(problem, fitted, before, after, [blind[case.id] for case in cases], helps)


def _balanced(predictions: Sequence[Prediction]) -> float:
    return errors_of(predictions).balanced_mape or 0.0


def _share(errors: Errors) -> float:
    return min(1.0, max(0.0001, round(errors.balanced_mape or 0.0, 4)))


def _end(coefficient: Coefficient, value: float) -> Any:
    """Return the end of an interval as written in a profile, a curve's as its largest point."""
    return round(value, 4) if coefficient.column else coefficient.written(value)


def _writer(text: str) -> Any:
    def write(file: TextIO) -> None:
        file.write(text)

    return write
