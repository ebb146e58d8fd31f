"""Measures the derivatives of errors by coefficients, with as few simulations as the dependences of rows allow.

A run is simulated with each coefficient that it depends on moved by one step, and with all others moved together,
which shows that it does not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simsys.config.hardware import Named
from simsys.fidelity.case import LOST, Case, Figures, Run
from simsys.fidelity.coefficients import Coefficient, from_unit, overlay_with, parents_of
from simsys.fidelity.predict import Overlay, Simulations, Surroundings, outcome_of
from simsys.fidelity.slopes import Vector

STEP = 0.02
"""Step of the difference quotients, as a share of the range between the bounds of a coefficient."""

FIRST = 16
"""Runs whose dependences are found first, then of about twice as many others with guesses from these, and so on."""
ALIKE = 3
"""Runs from which a guess comes: a coefficient that it lacks costs more simulations than some that it has in vain."""

Moved: TypeAlias = tuple[Figures, Mapping[int, Figures]]
"""The figures of a run, and those with one coefficient moved, by its place; without those that change nothing."""


@dataclass(frozen=True)
class Moves:
    """A run, and the coefficients that are moved.

    Args:
        run: The run.
        base: Settings of its profiles that stay fixed.
        coefficients: The coefficients of its profiles, by place.
        values: Their values.
        moved: The values after a step, by place, of those that may be moved.
        likely: Places of coefficients on which it probably depends.
        wanted: The names of its figures.
    """

    run: Run
    base: Overlay
    coefficients: Mapping[int, Coefficient]
    values: Mapping[int, float]
    moved: Mapping[int, float]
    likely: frozenset[int]
    wanted: frozenset[str]


@dataclass(frozen=True)
class Derivatives:
    """Measures derivatives.

    Args:
        cases: The rows.
        read: The profiles that each reads.
        simulations: Simulates them.
        base: Settings of profiles that stay fixed.
        likely: On which coefficients each row depends elsewhere; by default guessed from earlier rows like it.
    """

    cases: Sequence[Case]
    read: Sequence[frozenset[Named]]
    simulations: Simulations
    base: Overlay
    likely: NDArray[np.bool_] | None = None

    def at(self, coefficients: Sequence[Coefficient], places: Vector, rows: NDArray[np.bool_]) -> Vector:
        """Return the derivatives of the logarithmic errors of some rows; 0 for other rows, and without dependence.

        Args:
            coefficients: The coefficients.
            places: The point.
            rows: Which rows.
        """
        steps = np.where(places + STEP <= 1.0, STEP, -STEP)
        found = np.zeros((len(self.cases), len(coefficients)))
        values = [from_unit(each, float(place)) for each, place in zip(coefficients, places, strict=True)]
        moved = [from_unit(each, float(place)) for each, place in zip(coefficients, places + steps, strict=True)]
        names = [(each.named[0], each.path, each.column) for each in coefficients]
        parents = parents_of(coefficients)
        known: list[tuple[frozenset[object], frozenset[object]]] = []
        for batch in self._batches(rows):
            guesses = [self._guess(own, names, known) for own in batch]
            tasks = [
                self._moves(own, coefficients, values, moved, likely - self._hidden(own[0], coefficients, parents))
                for own, likely in zip(batch, guesses, strict=True)
            ]
            for own, (usual, changed) in zip(batch, self.simulations.each(moved_figures, tasks, 1), strict=True):
                known.append((self._traits(own[0]), frozenset(names[place] for place in changed)))
                for row in own:
                    for place, figures in changed.items():
                        found[row, place] = _change(self.cases[row].figure, usual, figures) / steps[place]
        return found

    def _batches(self, rows: NDArray[np.bool_]) -> Iterator[list[list[int]]]:
        """Yield the rows of each run, of few runs first, since guesses for others come from these."""
        runs: dict[Run, list[int]] = {}
        for row, case in enumerate(self.cases):
            if rows[row] and case.run is not None:
                runs.setdefault(case.run, []).append(row)
        left, size = list(runs.values()), FIRST
        while left:
            batch = left if len(left) < 2 * size or self.likely is not None else left[:: len(left) // size]
            yield batch
            chosen, size = {id(own) for own in batch}, 2 * size
            left = [own for own in left if id(own) not in chosen]

    def _traits(self, row: int) -> frozenset[object]:
        """Return properties that rows have in common if they depend on the same coefficients."""
        case = self.cases[row]
        return frozenset([*self.read[row], *case.tags.items(), ("family", case.family), ("group", case.group)])

    def _guess(
        self,
        own: Sequence[int],
        names: Sequence[object],
        known: Sequence[tuple[frozenset[object], frozenset[object]]],
    ) -> frozenset[int]:
        """Return the coefficients on which a run probably depends: those of the runs that are most like it."""
        if self.likely is not None:
            return frozenset(int(place) for place in np.flatnonzero(self.likely[list(own)].any(axis=0)))
        if not known:
            return frozenset()
        traits = self._traits(own[0])
        alike = nlargest(ALIKE, known, key=lambda each: len(each[0] & traits))
        expected = frozenset[object]().union(*(own for _, own in alike))
        return frozenset(place for place, name in enumerate(names) if name in expected)

    def _hidden(self, row: int, coefficients: Sequence[Coefficient], parents: Sequence[int | None]) -> frozenset[int]:
        """Return the coefficients of parents whose children replace them in a row."""
        own = [place for place, each in enumerate(coefficients) if each.named in self.read[row]]
        return frozenset(parent for place in own if (parent := parents[place]) is not None)

    def _moves(
        self,
        own: Sequence[int],
        coefficients: Sequence[Coefficient],
        values: Sequence[float],
        moved: Sequence[float],
        likely: frozenset[int],
    ) -> Moves:
        row, run = own[0], self.cases[own[0]].run
        assert run is not None
        read = [place for place, each in enumerate(coefficients) if each.named in self.read[row]]
        may_move = [place for place in read if self.cases[row].family in coefficients[place].families]
        return Moves(
            run,
            {named: own for named, own in self.base.items() if named in self.read[row]},
            {place: coefficients[place] for place in read},
            {place: values[place] for place in read},
            {place: moved[place] for place in may_move},
            likely & frozenset(may_move),
            frozenset(self.cases[place].figure for place in own),
        )


def moved_figures(task: tuple[Moves, Surroundings]) -> Moved:
    """Simulate a run with its coefficients moved.

    Args:
        task: The run with its coefficients, and what all runs have in common.
    """
    moves, around = task

    def simulated(places: Sequence[int]) -> Figures:
        values = [moves.moved[place] if place in places else value for place, value in moves.values.items()]
        overlay = overlay_with(moves.base, list(moves.coefficients.values()), values)
        figures = outcome_of(((moves.run, overlay), around)).figures
        return {name: figures[name] for name in sorted(moves.wanted) if name in figures}

    usual = simulated(())
    found = {place: simulated((place,)) for place in sorted(moves.likely)}
    for place in _changing(moves, usual, simulated):
        found[place] = simulated((place,))
    return usual, {place: figures for place, figures in sorted(found.items()) if figures != usual}


def _changing(moves: Moves, usual: Figures, simulated: Callable[[Sequence[int]], Figures]) -> Iterator[int]:
    """Yield the unlikely places that may change the figures: all are moved together, then those of each dtype."""
    others = [place for place in moves.moved if place not in moves.likely]
    if not others or simulated(others) == usual:
        return
    groups: dict[str, list[int]] = {}
    for place in others:
        groups.setdefault(moves.coefficients[place].path[-1], []).append(place)
    for group in groups.values():
        if len(group) == 1 or simulated(group) != usual:
            yield from group


def _change(figure: str, usual: Figures, moved: Figures) -> float:
    """Return the change of the logarithm of a figure."""
    if usual.get(figure, 0.0) <= 0.0:
        return 0.0
    return math.log(moved[figure] / usual[figure]) if moved.get(figure, 0.0) > 0.0 else LOST
