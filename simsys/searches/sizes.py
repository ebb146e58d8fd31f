"""Stages 2 and 3 of a search for the smallest size: of each candidate, larger sizes cost more and do better.

A size is looked for only where it is cheaper than the best answers so far, so most candidates need one simulation: of
their largest size that is still cheaper. Rounds have a fixed length, so the answer does not depend on the number of
processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from simsys.searches.candidates import SizedCandidate
from simsys.searches.result import Answer
from simsys.searches.simulated import Outcome, Simulations

ROUND = 16
"""Simulations of a round."""
LARGER = "more replicas than are needed"
SMALLER = "fewer replicas than a number that is too small"
WORSE = "no better than the best deployments, by the bound of the size"
OPEN = "not simulated (--simulations)"
Sized = tuple[SizedCandidate, Answer]
Judge = Callable[[SizedCandidate, Outcome], Answer | None]


@dataclass
class Course:
    """The search among the sizes of one candidate.

    Args:
        smallest: The candidate with the smallest size that may do.
    """

    smallest: SizedCandidate
    low: int = field(init=False)
    """The first place that may do: all before it are too small."""
    found: tuple[SizedCandidate, Answer] | None = None
    """The smallest size that is known to do."""
    tried: int = 0
    _met: int = 0
    _step: int = 1

    def __post_init__(self) -> None:
        self.low = self.smallest.place

    @property
    def end(self) -> int:
        """The place from which on nothing is looked for."""
        return self.smallest.last_place + 1 if self.found is None else self.found[0].place

    def cheaper_end(self, limit_key: float) -> int:
        """The first place that is not better than a limit by its bound; at most `end`."""
        low, high = self.low, self.end
        while low < high:
            middle = (low + high) // 2
            if self.smallest.resized(middle).least_key < limit_key:
                low = middle + 1
            else:
                high = middle
        return low

    def next_place(self, limit_key: float) -> int | None:
        """The place to simulate next; None if no size can be better than a limit.

        Without an answer to beat, sizes grow by steps that double. Else the largest better size comes first, and then
        the middle of what is left.
        """
        end = self.cheaper_end(limit_key)
        if end <= self.low:
            return None
        if self.found is not None:
            return (self.low + end - 1) // 2
        if limit_key < inf:
            return end - 1
        return min(self.low + self._step - 1, end - 1)

    def heard(self, place: int, answer: Answer | None) -> None:
        """Note whether a size does."""
        self.tried += 1
        if answer is not None:
            self.found = self.smallest.resized(place), answer
            self._met += 1
        else:
            self.low = place + 1
            self._step *= 2

    def left_out(self, limit_key: float, reasons: Counter[str]) -> bool:
        """Count the sizes without a simulation; whether one of them might be better than a limit."""
        last, first = self.smallest.last_place, self.smallest.place
        untried = last - first + 1 - self.tried
        open_places = max(0, self.cheaper_end(limit_key) - self.low)
        larger = 0 if self.found is None else last - self.found[0].place
        larger = min(larger, untried)
        rest = untried - larger
        reasons[LARGER] += larger + max(0, self._met - 1)
        opened = min(open_places, rest)
        reasons[OPEN] += opened
        reasons[WORSE if self.found is None else SMALLER] += rest - opened
        return opened > 0


@dataclass(frozen=True)
class Limits:
    """Keys that further answers have to beat.

    Args:
        overall: The key of the last of the best answers; infinite as long as there are too few.
        families: The best key of each family with an answer.
    """

    overall: float
    families: Mapping[str, float]

    @classmethod
    def of(cls, found: Sequence[Sized], key: Callable[[Answer], float], top: int) -> Limits:
        """The keys to beat after some answers."""
        keys = sorted(key(answer) for _, answer in found)
        families: dict[str, float] = {}
        for candidate, answer in found:
            families[candidate.family] = min(families.get(candidate.family, inf), key(answer))
        return cls(keys[top - 1] if len(keys) >= top else inf, families)

    def key(self, candidate: SizedCandidate) -> float:
        """The key that a candidate has to beat: to be among the best, or the best of its family."""
        return max(self.overall, self.families.get(candidate.family, inf))


class Sizes:
    """The search among the sizes of many candidates.

    Args:
        candidates: The candidates with the smallest sizes that may do, the best bound first.
        key: The key of an answer's value of the goal.
        top: Number of answers.
    """

    def __init__(self, candidates: Sequence[SizedCandidate], key: Callable[[Answer], float], top: int) -> None:
        self.courses = [Course(each) for each in candidates]
        self._key, self._top = key, top
        self.tried = 0

    @property
    def limits(self) -> Limits:
        """What further answers have to beat."""
        return Limits.of([each.found for each in self.courses if each.found is not None], self._key, self._top)

    def simulate(self, simulations: Simulations, judge: Judge, most: int) -> list[tuple[SizedCandidate, Answer]]:
        """Stage 2: the smallest size of each candidate that may be among the best.

        Args:
            simulations: Simulates.
            judge: Makes an answer of an outcome; None if the size is too small.
            most: Most simulations.
        """
        while self.tried < most:
            chosen = list(self._round(min(ROUND, most - self.tried)))
            if not chosen:
                break
            tried = [course.smallest.resized(place) for course, place in chosen]
            outcomes = dict(simulations.run([each.task(short=True) for each in tried], len(tried)))
            for index, (course, place) in enumerate(chosen):
                course.heard(place, judge(tried[index], outcomes[index]))
            self.tried += len(chosen)
        return [each.found for each in self.courses if each.found is not None]

    def _round(self, most: int) -> Iterator[tuple[Course, int]]:
        """The next sizes to simulate, of different candidates."""
        limits, count = self.limits, 0
        for course in self.courses:
            if count == most:
                return
            place = course.next_place(limits.key(course.smallest))
            if place is not None:
                count += 1
                yield course, place

    def left_out(self, reasons: Counter[str]) -> int:
        """Count the sizes without a simulation; the number of candidates that may still be better."""
        limits = self.limits
        return sum(course.left_out(limits.key(course.smallest), reasons) for course in self.courses)


def settled(
    answers: Sequence[tuple[SizedCandidate, Answer]],
    key: Callable[[Answer], float],
    top: int,
    simulations: Simulations,
    judge: Judge,
) -> tuple[list[tuple[SizedCandidate, Answer]], int, int]:
    """Stage 3: the best answers with the whole run; a size that is too small for it grows.

    Args:
        answers: The answers of stage 2.
        key: The key of an answer's value of the goal.
        top: Number of answers.
        simulations: Simulates.
        judge: Makes an answer of an outcome; None if the size is too small.

    Returns:
        The answers, the number of simulations, and the number of sizes that were too small.
    """
    queue = [each for each, _ in sorted(answers, key=lambda pair: (key(pair[1]), pair[1].simplicity))]
    found: list[Sized] = []
    count = grown = 0
    while chosen := _finalists(queue, found, Limits.of(found, key, top), top):
        queue = [each for each in queue if not any(each is other for other in chosen)]
        outcomes = dict(simulations.run([each.task(short=False) for each in chosen], len(chosen)))
        count += len(chosen)
        for index, each in enumerate(chosen):
            answer = judge(each, outcomes[index])
            if answer is not None:
                found.append((each, answer))
            elif each.place < each.last_place:
                queue.append(each.resized(each.place + 1))
                grown += 1
        queue.sort(key=lambda each: (each.least_key, each.simplicity(each.known)))
    return found, count, grown


def _finalists(
    queue: Sequence[SizedCandidate], found: Sequence[Sized], limits: Limits, top: int
) -> list[SizedCandidate]:
    """The next candidates of a queue to simulate: enough for the top and for each family, and all better ones.

    A family without an answer has two candidates in a round, since one after the other would leave processors idle.
    """
    chosen: list[SizedCandidate] = []
    without = {each.family for each in queue} - {each.family for each, _ in found}
    places = Counter(dict.fromkeys(without, 2))
    for each in queue:
        few = len(found) + len(chosen) < top or places[each.family] > 0
        better = each.least_key < limits.overall < inf or each.least_key < limits.families.get(each.family, -inf)
        if few or better:
            chosen.append(each)
            places[each.family] -= 1
        if len(chosen) == ROUND:
            break
    return chosen
