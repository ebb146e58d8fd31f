"""The expected error of a ratio of two predictions: the error on pairs of measured runs that differ as they do.

``simsys validate --expected-ratios`` writes `FILENAME`; its first lines name its rows. A kind of comparison is the
set of aspects (`simsys.build.aspects`) in which two runs differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simsys.config.document import unchanged_document
from simsys.data import data_folders

FILENAME = "expected_ratios.yaml"
KINDS, ASPECTS = "kinds", "aspects"
"""Keys of a metric: errors by kind of pairs, and all aspects in which any pairs differ."""
GPU, ENGINE = "GPU", "engine"
SAME, OTHER_GPU, OTHER_ENGINE = "same GPU and engine", "another GPU", "another engine"
"""Classes of kinds, for comparisons whose own kind was not measured."""
FEWEST_PAIRS = 8
"""Pairs below which the error of a kind is not used."""


@dataclass(frozen=True)
class RatioError:
    """The expected error of a ratio.

    Args:
        median: Median relative error of measured pairs, the larger over the smaller ratio minus 1.
        nine_of_ten: 90th percentile.
        pairs: Number of pairs.
        rows: Number of their measured values.
        sources: Number of the sources of these values.
        kind: The kind of the pairs.
    """

    median: float
    nine_of_ten: float
    pairs: int
    rows: int
    sources: int
    kind: str

    def text(self) -> str:
        """The error for people.

        Example:
            >>> RatioError(0.041, 0.118, 1200, 80, 4, "layout").text()
            'median 4 %, p90 12 % (n = 1,200 measured pairs of 80 values, 4 sources, differing in: layout)'
        """
        what = self.kind if self.kind in (SAME, OTHER_GPU, OTHER_ENGINE) else f"differing in: {self.kind}"
        sources = f"{self.sources} source{'s' if self.sources > 1 else ''}"
        return (
            f"median {100 * self.median:.0f} %, p90 {100 * self.nine_of_ten:.0f} % "
            f"(n = {self.pairs:,} measured pairs of {self.rows:,} values, {sources}, {what})"
        )


def kind_name(aspects: Iterable[str]) -> str:
    """The name of the kind of comparison that differs in these aspects.

    Example:
        >>> kind_name(["load", "GPU"])
        'GPU, load'
    """
    return ", ".join(sorted(aspects))


def classes_of(aspects: Iterable[str]) -> Sequence[str]:
    """The class of a kind: `SAME`, `OTHER_GPU` or `OTHER_ENGINE`; none if GPU and engine differ."""
    changed = {GPU, ENGINE} & set(aspects)
    return [SAME] if not changed else [] if len(changed) > 1 else [OTHER_GPU if GPU in changed else OTHER_ENGINE]


def ratio_error(family: str, metric: str, aspects: Sequence[str]) -> RatioError | str:
    """The expected error of a ratio, or a note on the missing measurements.

    It is the error of measured pairs that differ in the same aspects. If there are too few, it is the error of all
    pairs of the same class, provided that some of them differ in each of the aspects.

    Args:
        family: ``training`` or ``serving``.
        metric: A metric of a table, such as ``iteration_s``.
        aspects: The aspects in which the two runs differ.
    """
    known = _known().get(family, {}).get(metric, {})
    measured = known.get(ASPECTS, [])
    kinds = {kind: each for kind, each in known.get(KINDS, {}).items() if each["pairs"] >= FEWEST_PAIRS}
    own = kind_name(aspects)
    if own in kinds:
        return _error(own, kinds[own])
    missing = sorted(set(aspects) - set(measured))
    if missing:
        return f"no measurements of pairs that differ in: {', '.join(missing)}"
    for wider in classes_of(aspects):
        if wider in kinds:
            return _error(wider, kinds[wider])
    return f"no measurements of pairs that differ in: {own}"


def _error(kind: str, found: Mapping[str, Any]) -> RatioError:
    names = ("median", "nine_of_ten", "pairs", "rows", "sources")
    return RatioError(**{name: found[name] for name in names}, kind=kind)


def _known() -> Mapping[str, Any]:
    """The content of the file in the first folder that has it."""
    for folder in data_folders("hardware_profiles"):
        path = folder / "fits" / FILENAME
        if path.is_file():
            return unchanged_document(path).data
    return {}
