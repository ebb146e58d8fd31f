"""Results of a calibration, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from simsys.config.hardware import Named
from simsys.fidelity.calibrate import Calibration
from simsys.fidelity.coefficients import Coefficient
from simsys.fidelity.errors import Errors, errors_of
from simsys.fidelity.kernel_fit import KernelFit
from simsys.report.text import number, percent, wrap
from simsys.units import Dimension, pretty


def calibration_text(found: Calibration) -> str:
    """Each coefficient before and after the fit; errors before, after, and on held-out rows."""
    lines = [f"{len(found.problem.cases):,} rows of {', '.join(found.tables)}; balanced mean errors", ""]
    lines += [_errors_line("profile", ("before", "fit", "unseen")), *_error_lines(found), ""]
    lines += [f"{'coefficient':<52}{'rows':>6}{'before':>11}{'after':>11}  80 % interval", *_coefficient_lines(found)]
    if found.fit.at_bounds:
        lines += ["", *wrap(f"at a bound, so not fitted: {', '.join(found.fit.at_bounds)}", "", "  ")]
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
            | {"before": each.start, "after": value, "interval": list(ends)}
            for each, rows, value, ends in _coefficients(found)
        ],
        "at_bounds": list(found.fit.at_bounds),
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


def _coefficients(found: Calibration) -> Iterator[tuple[Coefficient, int, float, tuple[float, float]]]:
    """Each coefficient with its rows, its value, and its interval."""
    fit = found.fit
    return zip(fit.coefficients, fit.rows, fit.values, fit.intervals, strict=True)


def _coefficient_lines(found: Calibration) -> Iterator[str]:
    for each, rows, value, ends in _coefficients(found):
        before, after, low, high = (
            number(amount) if each.dimension is None else pretty(amount, each.dimension)
            for amount in (each.start, value, *ends)
        )
        yield f"{'  ' + str(each):<52}{rows:>6,}{before:>11}{after:>11}  {low} to {high}"


def _profiles(found: Calibration) -> Iterator[tuple[str, tuple[Errors, Errors, Errors]]]:
    yield "all", (errors_of(found.before), errors_of(found.after), errors_of(found.unseen))
    named: list[Named] = list(found.documents)
    for each in named:
        yield each[1], found.errors(each)


def _shares(errors: tuple[Errors, Errors, Errors]) -> dict[str, float | None]:
    return {name: each.balanced_mape for name, each in zip(("before", "fit", "unseen"), errors, strict=True)}
