"""Combinations of remedies: the mildest sufficient remedy of each kind, pairs of kinds, and larger combinations.

A kind yields the variants of one setting, the mildest first. In a combination, the variants of a kind are generated
for the job with the other remedies applied, so that dependent settings are consistent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic

from simsys.build.rules.findings import Remedy
from simsys.check.remedies import Job


class Combining(Generic[Job]):
    """Looks for remedies with which a job fits.

    Args:
        job: What needs memory.
        kinds: Kinds of remedies, ordered by their usual costs, the lowest first.
        checked: The job with a remedy's settings; None if they do not fit together.
        fits: Whether a job fits into memory.
        held_bytes: Memory that a job needs where it does not fit.
    """

    def __init__(
        self,
        job: Job,
        kinds: Sequence[Callable[[Job], Iterator[Remedy]]],
        checked: Callable[[Job, Remedy], Job | None],
        fits: Callable[[Job], bool],
        held_bytes: Callable[[Job], float],
    ) -> None:
        self._job: Job = job
        self._kinds: Sequence[Callable[[Job], Iterator[Remedy]]] = kinds
        self._checked: Callable[[Job, Remedy], Job | None] = checked
        self._fits: Callable[[Job], bool] = fits
        self._held_bytes: Callable[[Job], float] = held_bytes

    def singles(self) -> Iterator[tuple[Remedy, Job]]:
        """For each kind, the mildest variant with which the job fits, or else the variant that saves most."""
        for kind in self._kinds:
            variants = list(self._variants(self._job, kind))
            if variants:
                fitting = (variant for variant in variants if self._fits(variant[1]))
                yield next(fitting, None) or min(variants, key=lambda variant: self._held_bytes(variant[1]))

    def pairs(self) -> Iterator[tuple[Remedy, Job]]:
        """Pairs of kinds with which the job fits, each at its mildest sufficient variant."""
        for place, dear in enumerate(self._kinds):
            firsts = list(self._variants(self._job, dear))
            for mild in self._kinds[:place]:
                yield from self._pair(firsts, mild)

    def combinations(self) -> Iterator[tuple[Remedy, Job]]:
        """Minimal combinations of the strongest variants: first one of cheap kinds, then one of few kinds."""
        found: list[Remedy] = []
        for spared in (list(reversed(self._kinds)), list(self._kinds)):
            variant = self._fewest(spared)
            if variant is not None and variant[0] not in found:
                found.append(variant[0])
                yield variant

    def _fewest(self, spared: Sequence[Callable[[Job], Iterator[Remedy]]]) -> tuple[Remedy, Job] | None:
        """All kinds together, without unnecessary ones, which are removed in the order of `spared`."""
        kinds = list(self._kinds)
        best = self._together(kinds)
        if not self._fits(best[1]):
            return None
        for kind in spared:
            fewer = [each for each in kinds if each is not kind]
            variant = self._together(fewer)
            if self._fits(variant[1]):
                kinds, best = fewer, variant
        return best

    def _together(self, kinds: Sequence[Callable[[Job], Iterator[Remedy]]]) -> tuple[Remedy, Job]:
        remedy: Remedy = {}
        job = self._job
        for kind in kinds:
            strongest = self._strongest(job, kind)
            if strongest is not None:
                remedy, job = {**remedy, **strongest[0]}, strongest[1]
        return remedy, job

    def _variants(self, job: Job, kind: Callable[[Job], Iterator[Remedy]]) -> Iterator[tuple[Remedy, Job]]:
        for remedy in kind(job):
            if (changed := self._checked(job, remedy)) is not None:
                yield remedy, changed

    def _strongest(self, job: Job, kind: Callable[[Job], Iterator[Remedy]]) -> tuple[Remedy, Job] | None:
        """The last variant that is allowed."""
        for remedy in reversed(list(kind(job))):
            if (changed := self._checked(job, remedy)) is not None:
                return remedy, changed
        return None

    def _pair(
        self, firsts: Sequence[tuple[Remedy, Job]], kind: Callable[[Job], Iterator[Remedy]]
    ) -> Iterator[tuple[Remedy, Job]]:
        for remedy, job in firsts:
            strongest = self._strongest(job, kind)
            if strongest is not None and self._fits(strongest[1]):
                second, both = next(variant for variant in self._variants(job, kind) if self._fits(variant[1]))
                yield {**remedy, **second}, both
                return
