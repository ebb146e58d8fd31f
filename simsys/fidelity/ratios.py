"""Expected errors of ratios: predicted over measured ratio of pairs of measured runs.

Errors of predictions of similar runs are correlated, so that the ratio of two predictions is more exact than each of
them. The pairs are of one source, statistic and metric; the aspects in which they differ (`simsys.build.aspects`)
name the kind of the comparison.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simsys.build.aspects import COMES_WITH, Aspects, aspects_of
from simsys.build.job import build_job
from simsys.config.expected_ratios import ASPECTS, KINDS, classes_of, kind_name
from simsys.config.experiment import SimulationConfig
from simsys.fidelity.case import Prediction
from simsys.fidelity.expected import FEWEST
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.report.files import write_files
from simsys.report.yaml_text import yaml_text

MOST_ASPECTS = 3
"""Aspects above which a set of them is no kind of its own."""

_Errors: TypeAlias = NDArray[np.float64]
_Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """The pairs of one source and kind.

    Args:
        first: Places of the first rows of the pairs, among the rows of the source.
        second: Places of the second rows.
        errors: Logarithms of predicted over measured values of all rows of the source.
    """

    first: _Rows
    second: _Rows
    errors: _Errors


def errors_of_ratios(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return the errors of ratios by family, metric and kind of pairs.

    A kind is a set of at most `MOST_ASPECTS` aspects in which the pairs differ, or a class of all sets (`classes_of`).
    The pairs of a source have the weight of its rows. Errors are stated of at least `FEWEST` rows.

    Args:
        predictions: Predictions of held-out rows.
    """
    sources: dict[tuple[str, ...], list[Prediction]] = {}
    for each in predictions:
        if each.predicted is not None and isinstance(each.case.run, ScenarioRun):
            case = each.case
            sources.setdefault((case.family, case.metric, case.figure, case.group), []).append(each)
    found: dict[tuple[str, str], dict[str, dict[str, list[Pairs]]]] = {}
    aspects: dict[tuple[str, str], set[str]] = {}
    for (family, metric, _, source), rows in sources.items():
        for differing, pairs in _pairs(rows):
            kinds = found.setdefault((family, metric), {})
            aspects.setdefault((family, metric), set()).update(differing)
            own = [kind_name(differing)] if len(differing) <= MOST_ASPECTS else []
            for kind in (*own, *classes_of(differing)):
                kinds.setdefault(kind, {}).setdefault(source, []).append(pairs)
    document: dict[str, Any] = {}
    for (family, metric), kinds in sorted(found.items()):
        stated = {kind: _statistics(kinds[kind]) for kind in sorted(kinds)}
        document.setdefault(family, {})[metric] = {
            KINDS: {kind: each for kind, each in stated.items() if each is not None},
            ASPECTS: sorted(aspects[family, metric]),
        }
    return document


def write_errors_of_ratios(path: Path, predictions: Sequence[Prediction], *, heading: str) -> list[Path]:
    """Write `errors_of_ratios` as YAML.

    Args:
        path: The file.
        predictions: Predictions of held-out rows.
        heading: The comment at the top of the file.

    Raises:
        OutputError: If that fails.
    """
    comments = "".join(f"# {line}\n" for line in heading.splitlines())
    text = comments + yaml_text(errors_of_ratios(predictions))
    return write_files(path.parent, {path.name: lambda file: file.write(text)})


def _pairs(rows: Sequence[Prediction]) -> Iterator[tuple[tuple[str, ...], Pairs]]:
    """Yield the pairs of the rows of a source by the aspects in which they differ; repeated runs are left out."""
    each = [_aspects(row.case.run.scenario) for row in rows if isinstance(row.case.run, ScenarioRun)]
    names = sorted({name for aspects in each for name in aspects})
    codes = np.array([_codes(name, each) for name in names])
    errors = np.array([math.log((row.predicted or math.nan) / row.case.measured) for row in rows])
    first, second = np.triu_indices(len(rows), 1)
    differs = codes[:, first] != codes[:, second]
    for owner, with_it in COMES_WITH.items():  # as `different_aspects`
        if owner in names and with_it in names:
            differs[names.index(with_it)] &= ~differs[names.index(owner)]
    bits = np.left_shift(np.int64(1), np.arange(len(names), dtype=np.int64))
    sets = (differs * bits[:, None]).sum(axis=0)
    for chosen in np.unique(sets[sets > 0]):
        own = sets == chosen
        differing = tuple(name for name, bit in zip(names, bits, strict=True) if chosen & bit)
        yield differing, Pairs(first[own], second[own], errors)


def _codes(name: str, each: Sequence[Aspects]) -> list[int]:
    """Return the value of an aspect of each row as a number."""
    values: dict[str | None, int] = {}
    return [values.setdefault(aspects.get(name), len(values)) for aspects in each]


@cache
def _aspects(scenario: str) -> Aspects:
    return aspects_of(build_job(SimulationConfig.model_validate(json.loads(scenario))))


def _statistics(sources: Mapping[str, Sequence[Pairs]]) -> dict[str, Any] | None:
    """Return the errors of the pairs of one kind; None if there are too few."""
    ratios, values, weights, rows, counted = [], [], [], 0, 0
    for parts in sources.values():
        own_ratios = np.concatenate([each.errors[each.first] - each.errors[each.second] for each in parts])
        own_values = np.concatenate([each.errors[[each.first, each.second]] for each in parts], axis=1)
        places = np.unique(np.concatenate([np.concatenate([each.first, each.second]) for each in parts]))
        ratios.append(own_ratios)
        values.append(own_values)
        weights.append(np.full(own_ratios.size, places.size / own_ratios.size))
        rows, counted = rows + int(places.size), counted + own_ratios.size
    if rows < FEWEST:
        return None
    ratio, value, weight = np.concatenate(ratios), np.concatenate(values, axis=1), np.concatenate(weights)
    return {
        "pairs": counted,
        "rows": rows,
        "sources": len(sources),
        "median": _quantile(np.abs(ratio), weight, 0.5),
        "nine_of_ten": _quantile(np.abs(ratio), weight, 0.9),
        "median_of_a_value": _quantile(np.abs(value).ravel(), np.tile(weight, 2), 0.5),
        "correlation": _correlation(ratio, value, weight),
    }


def _correlation(ratio: _Errors, value: _Errors, weight: _Errors) -> float:
    """Return the correlation of the errors of the two values of a pair, about an error of zero; 1 without errors."""
    squares = _mean((value**2).sum(axis=0), weight)
    return round(1.0 - _mean(ratio**2, weight) / squares, 3) if squares else 1.0


def _mean(values: _Errors, weights: _Errors) -> float:
    return float(np.average(values, weights=weights))


def _quantile(logs: _Errors, weights: _Errors, share: float) -> float:
    """Return the weighted quantile of sizes of logarithms, as a relative error."""
    order = np.argsort(logs, kind="stable")
    reached = np.cumsum(weights[order])
    place = int(np.searchsorted(reached, share * reached[-1]))
    return round(math.expm1(float(logs[order][min(place, len(order) - 1)])), 3)
