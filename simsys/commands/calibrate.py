"""`simsys calibrate`: fit profiles to measured runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simsys.commands.options import JSON, answer_json, common
from simsys.report.console import answer, say

if TYPE_CHECKING:
    from simsys.fidelity.calibrate import Calibration
    from simsys.fidelity.case import Case
    from simsys.fidelity.kernel_fit import KernelFit
    from simsys.fidelity.memo import Memo


@click.command()
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of hardware profiles to write to.")
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Runs used of a group of 100; grows with the root.",
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Number of simulating processes.")
@click.option("--only", metavar="PROFILE", multiple=True, help="Fit this GPU, node or engine alone. Repeatable.")
@click.option("--page", type=click.Path(path_type=Path), help="Write a page about the errors, as Markdown.")
@click.option(
    "--notes", type=click.Path(path_type=Path), help="YAML with the known causes of errors, by group, for the page."
)
@JSON
@common
def calibrate(
    files: Sequence[Path],
    out: Path,
    rows: int,
    jobs: int,
    only: Sequence[str],
    page: Path | None,
    notes: Path | None,
    as_json: bool,
) -> None:
    """Calibrate profile parameters that data sheets do not specify against the measured runs in FILES.

    These are efficiencies, overheads and bandwidths. FILES are tables that 'simsys validate' reads, and tables of
    kernel times (matrix products and decode attention). One profile per GPU, engine or machine is fitted to all its
    rows. The fits are written to fits/ in the folder, with their rows, their errors, and the cross-validated errors on
    groups of rows held out of the fit. All commands find profiles in the folder 'hardware_profiles' of a folder in
    $SIMSYS_PATH. The same command continues a calibration that was interrupted.
    """
    from simsys.fidelity.calibrate import write_kernel_fits
    from simsys.report.calibration import calibration_dict, calibration_text, kernel_dicts, kernel_text
    from simsys.report.fidelity_page import Notes, write_page

    names, as_of = [file.name for file in files], datetime.now(UTC).date()
    cases, kernels = _read(files)
    chosen = [word for name in only for word in ("--only", name)]
    command = shlex.join(["simsys", "calibrate", *names, *(["--rows", str(rows)] if cases else []), *chosen])
    if cases:
        memo = _memo(out)
        made = {"tables": names, "command": command, "as_of": as_of}
        found = _fitted(cases, kernels, rows_of_a_group=rows, jobs=jobs, only=only, memo=memo, **made)
        written = found.write(out)
        if page is not None:
            known = Notes.read(notes) if notes is not None else Notes()
            written += write_page(page, found.unseen, command=command, notes=known)
        memo.remove()
        text, facts = calibration_text(found), calibration_dict(found)
    else:
        written = write_kernel_fits(out, kernels, tables=names, command=command, as_of=as_of)
        text, facts = kernel_text(kernels), {"kernels": kernel_dicts(kernels)}
    _answer(text, facts, written, as_json=as_json)


def _fitted(cases: Sequence[Case], kernels: Sequence[KernelFit], **given: Any) -> Calibration:
    """The calibration, with its progress."""
    from simsys.fidelity.calibrate import calibrate as fit_profiles
    from simsys.report.counted_progress import CountedProgress

    with CountedProgress("calibrate, this round", "runs") as progress:
        return fit_profiles(cases, kernels, progress=progress, **given)


def _memo(out: Path) -> Memo:
    """The simulations of a calibration with the same output that was interrupted, if there was one."""
    from simsys.fidelity.memo import Memo

    memo = Memo.of(out)
    if known := len(memo):
        say(f"continues an interrupted calibration, {known:,} of whose simulations are in {memo.path}")
    return memo


def _answer(text: str, facts: Mapping[str, Any], written: Sequence[Path], *, as_json: bool) -> None:
    if as_json:
        answer_json({"calibration": facts, "files": [str(path) for path in written]})
        return
    answer(text)
    for path in written:
        say(f"wrote {path}")


def _read(files: Sequence[Path]) -> tuple[list[Case], list[KernelFit]]:
    """The measured runs of tables, and the fits of their kernels."""
    from simsys.fidelity.kernel_fit import fit_kernels
    from simsys.fidelity.tables.kernel_rows import is_kernel_table
    from simsys.fidelity.tables.readers import measurements_of
    from simsys.fidelity.tables.reading import check
    from simsys.fidelity.tables.table import read_table

    tables = [read_table(file) for file in files]
    readings = [measurements_of(table) for table in tables if not is_kernel_table(table)]
    check(readings)
    cases = [case for each in readings for case in each.cases]
    return cases, [fit for table in tables if is_kernel_table(table) for fit in fit_kernels(table)]
