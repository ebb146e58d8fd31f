"""Results of a calibration, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from simsys.fidelity.calibrate import Calibration, Part
from simsys.fidelity.coefficients import Coefficient
from simsys.fidelity.errors import Errors, errors_of
from simsys.fidelity.kernel_fit import KernelFit
from simsys.report.text import number, percent, wrap
from simsys.units import Dimension, pretty


def calibration_text(found: Calibration) -> str:
    """Each coefficient before and after the fit; errors before, after, and on held-out rows."""
    texts = [_part_text(found, part) for part in found.parts]
    texts += ["\n".join(wrap(f"{families}: not fitted: {why}", "", "  ")) for families, why in found.left_out.items()]
    return "\n\n".join(texts)


def calibration_dict(found: Calibration) -> dict[str, Any]:
    """The calibration as data for JSON; errors are fractions."""
    return {"parts": [_part_dict(part) for part in found.parts], "left_out": dict(found.left_out)}


def _part_text(found: Calibration, part: Part) -> str:
    families = " and ".join(dict.fromkeys(case.family for case in part.problem.cases))
    lines = [f"{families}: {len(part.problem.cases):,} rows of {', '.join(found.tables)}; balanced mean errors", ""]
    lines += [_errors_line("profile", ("before", "fit", "unseen")), *_error_lines(part), ""]
    if not part.helps:
        lines += [*wrap("Not kept: rows that a fit has not seen are not predicted better than before.", "", "  "), ""]
    lines += [f"{'coefficient':<52}{'rows':>6}{'before':>11}{'after':>11}  80 % interval", *_coefficient_lines(part)]
    if part.fit.at_bounds:
        lines += ["", *wrap(f"at a bound, so not fitted: {', '.join(part.fit.at_bounds)}", "", "  ")]
    if part.fit.left_alone:
        few = ", ".join(f"{name} ({rows})" for name, rows in part.fit.left_alone.items())
        lines += ["", *wrap(f"too few rows depend on: {few}", "", "  ")]
    return "\n".join(lines)


def _part_dict(part: Part) -> dict[str, Any]:
    return {
        "rows": len(part.problem.cases),
        "kept": part.helps,
        "errors": {name: _shares(errors) for name, errors in _profiles(part)},
        "coefficients": [
            {"profile": each.named[1], "path": ".".join(each.path), "column": each.column, "rows": rows}
            | {"before": each.start, "after": value, "interval": list(ends)}
            for each, rows, value, ends in _coefficients(part)
        ],
        "at_bounds": list(part.fit.at_bounds),
        "left_alone": dict(part.fit.left_alone),
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


def _error_lines(part: Part) -> Iterator[str]:
    for name, errors in _profiles(part):
        yield _errors_line(f"  {name}", [percent(each.balanced_mape or 0.0) for each in errors])


def _errors_line(name: str, cells: Any) -> str:
    return f"{name:<52}" + "".join(f"{cell:>9}" for cell in cells)


def _coefficients(part: Part) -> Iterator[tuple[Coefficient, int, float, tuple[float, float]]]:
    """Each coefficient with its rows, its value, and its interval."""
    fit = part.fit
    return zip(fit.coefficients, fit.rows, fit.values, fit.intervals, strict=True)


def _coefficient_lines(part: Part) -> Iterator[str]:
    for each, rows, value, ends in _coefficients(part):
        before, after, low, high = (
            number(amount) if each.dimension is None else pretty(amount, each.dimension)
            for amount in (each.start, value, *ends)
        )
        yield f"{'  ' + str(each):<52}{rows:>6,}{before:>11}{after:>11}  {low} to {high}"


def _profiles(part: Part) -> Iterator[tuple[str, tuple[Errors, Errors, Errors]]]:
    yield "all", (errors_of(part.before), errors_of(part.after), errors_of(part.unseen))
    for named in dict.fromkeys(each.named for each in part.fit.coefficients):
        yield named[1], part.errors(named)


def _shares(errors: tuple[Errors, Errors, Errors]) -> dict[str, float | None]:
    return {name: each.balanced_mape for name, each in zip(("before", "fit", "unseen"), errors, strict=True)}
