"""Results of a calibration, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from simsys.config.hardware import Named
from simsys.fidelity.calibrate import Calibration
from simsys.fidelity.errors import Errors, errors_of
from simsys.fidelity.kernel_fit import KernelFit
from simsys.report.text import number, percent, wrap
from simsys.units import Dimension, pretty


def calibration_text(found: Calibration) -> str:
    """Each coefficient before and after the fit; errors before, after, and on held-out rows."""
    lines = [f"{len(found.problem.cases):,} rows of {', '.join(found.tables)}; balanced mean errors", ""]
    lines += [_errors_line("profile", ("before", "fit", "unseen")), *_error_lines(found), ""]
    lines += [f"{'coefficient':<52}{'rows':>6}{'before':>11}{'after':>11}", *_coefficient_lines(found)]
    if found.fit.left_alone:
        few = ", ".join(f"{name} ({rows})" for name, rows in found.fit.left_alone.items())
        lines += ["", *wrap(f"too few rows depend on: {few}", "", "  ")]
    return "\n".join(lines)


def calibration_dict(found: Calibration) -> dict[str, Any]:
    """The calibration as data for JSON; errors are fractions."""
    return {
        "rows": len(found.problem.cases),
        "errors": {name: _shares(errors) for name, errors in _profiles(found)},
        "coefficients": [
            {"profile": each.named[1], "path": ".".join(each.path), "column": each.column, "rows": rows}
            | {"before": each.start, "after": value}
            for each, rows, value in zip(found.fit.coefficients, found.fit.rows, found.fit.values, strict=True)
        ],
        "left_alone": dict(found.fit.left_alone),
    }


def kernel_text(kernels: Sequence[KernelFit]) -> str:
    """Fits to kernel times, one line each: fixed time per kernel, and the errors."""
    lines = [f"{'kernels':<44}{'number':>8}{'besides':>10}{'fit':>9}{'unseen':>9}"]
    for each in kernels:
        name = f"{each.gpu} {each.kind} {each.dtype}"
        errors = f"{percent(each.error):>9}{percent(each.error_unseen):>9}"
        lines.append(f"{name:<44}{each.kernels:>8,}{pretty(round(each.floor_s, 8), Dimension.SECONDS):>10}{errors}")
    return "\n".join(lines)


def kernel_dicts(kernels: Sequence[KernelFit]) -> list[dict[str, Any]]:
    """Fits to kernel times as data for JSON."""
    return [asdict(each) for each in kernels]


def _error_lines(found: Calibration) -> Iterator[str]:
    for name, errors in _profiles(found):
        yield _errors_line(f"  {name}", [percent(each.balanced_mape or 0.0) for each in errors])


def _errors_line(name: str, cells: Any) -> str:
    return f"{name:<52}" + "".join(f"{cell:>9}" for cell in cells)


def _coefficient_lines(found: Calibration) -> Iterator[str]:
    for each, rows, value in zip(found.fit.coefficients, found.fit.rows, found.fit.values, strict=True):
        before, after = (
            number(amount) if each.dimension is None else pretty(amount, each.dimension)
            for amount in (each.start, value)
        )
        yield f"{'  ' + str(each):<52}{rows:>6,}{before:>11}{after:>11}"


def _profiles(found: Calibration) -> Iterator[tuple[str, tuple[Errors, Errors, Errors]]]:
    yield "all", (errors_of(found.before), errors_of(found.after), errors_of(found.unseen))
    named: list[Named] = list(found.documents)
    for each in named:
        yield each[1], found.errors(each)


def _shares(errors: tuple[Errors, Errors, Errors]) -> dict[str, float | None]:
    return {name: each.balanced_mape for name, each in zip(("before", "fit", "unseen"), errors, strict=True)}
