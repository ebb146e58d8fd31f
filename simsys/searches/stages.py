"""The stages of a search.

All candidates by closed forms, the most promising simulated at medium, and the finalists as the scenario says.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import Any, cast

from simsys.config.expected_losses import measured_loss
from simsys.searches.candidates import Candidate, SizedCandidate, Space
from simsys.searches.goal import Goal
from simsys.searches.promising import Promising
from simsys.searches.result import Answer, SearchResult, first_of, grouped, pareto
from simsys.searches.simulated import Outcome, Simulations, Task
from simsys.searches.sizes import LARGER, Sizes, settled

SIMULATIONS = 300
"""Default limit of the number of simulated candidates."""
Found = tuple[Candidate, Answer]


class Search:
    """A search for the best candidates.

    Args:
        name: Name of the scenario.
        space: The candidates.
        goal: What is best.
        goals: Two goals of which the answer has every best compromise; empty for one goal.
        lod: Level of detail of the finalists.
        top: Number of answers.
        jobs: Number of processes.
        simulations: Largest number of simulated candidates.
        say: Called with a line about each stage.
    """

    def __init__(
        self,
        name: str,
        space: Space,
        goal: Goal,
        goals: Sequence[Goal],
        *,
        lod: str,
        top: int,
        jobs: int,
        simulations: int,
        say: Callable[[str], None],
    ) -> None:
        self.name, self.space, self.goal, self.goals = name, space, goal, goals
        self.lod, self.top, self.jobs, self.simulations, self._say = lod, top, jobs, simulations, say
        self.reasons: Counter[str] = Counter()
        self.stages: list[str] = []
        self.notes: list[str] = []
        self.tried = 0

    def run(self) -> SearchResult:
        """Carry it out."""
        with Simulations(self.jobs) as simulations:
            candidates = self.closed_forms(simulations)
            if self.space.sized:
                answers = self._smallest(cast("list[SizedCandidate]", candidates), simulations)
            else:
                answers = self._finalists(self._simulated(candidates, simulations), simulations)
        growing = sum(answer.metrics.get("steady") == 0 for _, answer in answers)
        if growing:
            runs = "the run of one finalist" if growing == 1 else f"the runs of {growing} finalists"
            self.notes.append(f"{runs} ended before a steady state, which may flatter the answer")
        loss = measured_loss(self.space.kind)
        width = loss.loss if loss is not None and self.space.comparable else 0.0
        best = grouped([each for _, each in answers], self.goal, width)
        best = best if self.goals else first_of(best, self.top)
        self.notes += self.space.doubts([each.settings for each in best])
        return SearchResult(
            self.name,
            self.goal,
            best,
            self.space.considered,
            self.space.considered - self.tried,
            self.tried,
            dict(self.reasons.most_common()),
            self.stages,
            loss,
            self.notes,
            self.space.written,
            self.space.noun,
            self.space.kv_headroom,
        )

    def closed_forms(self, processes: Simulations) -> list[Candidate]:
        """Stage 1: the candidates that fit."""
        started_s = time.process_time()
        found = [each for each in self.space.candidates(processes) if self._may_hold(each)]
        self.reasons += self.space.reasons
        cpu_s = time.process_time() - started_s + processes.cpu_s
        count, noun = self.space.considered, self.space.noun
        rate = count / cpu_s if cpu_s else 0.0
        self._note(
            f"stage 1: {count:,} {noun} by closed forms, {len(found):,} fit "
            f"({cpu_s:.1f} s, {rate:,.0f} per CPU-second)"
        )
        return found

    def _may_hold(self, candidate: Candidate) -> bool:
        """Whether the conditions that are known before a simulation hold."""
        for each in self.goal.conditions:
            if each.metric in candidate.known and not each.holds(candidate.known[each.metric]):
                self.reasons[f"{each.text} does not hold"] += 1
                return False
        return True

    def _simulated(self, candidates: Sequence[Candidate], simulations: Simulations) -> list[Found]:
        """Stage 2: simulate the most promising, until the bound of the next one is worse than the best one found."""
        started_s, stops = time.perf_counter(), self.space.bounded and not self.goals
        queue = Promising(candidates, self.space.tightened, simple_first=stops)
        tried, answers, keys = list[Candidate](), list[Found](), list[float]()

        def tasks() -> Iterator[Task]:
            for each in islice(queue, self.simulations):
                if stops and len(answers) >= self.top and each.least_key > min(keys):
                    return
                tried.append(each)
                yield each.task(short=True)._replace(goal=self.goal, most_key=self._most_key(keys, stops=stops))

        for place, outcome in simulations.run(tasks(), min(self.simulations, len(candidates))):
            answer = self.answer(tried[place], outcome, "medium")
            if answer is not None:
                answers.append((tried[place], answer))
                keys.append(self.goal.key(answer.value))
        self.tried, best_key = len(tried), min(keys, default=inf)
        left = queue.left(best_key if stops else inf)
        self._say_how_it_ended(len(candidates), left, stops=stops, seconds=time.perf_counter() - started_s)
        if self.goals:
            kept = {id(each) for each in pareto([answer for _, answer in answers], self.goals)}
            answers = [pair for pair in answers if id(pair[1]) in kept]
        return answers

    def _most_key(self, keys: Sequence[float], *, stops: bool) -> float:
        """From which key of the goal a candidate is no answer: the one of the last of the best."""
        return sorted(keys)[self.top - 1] if stops and len(keys) >= self.top else inf

    def _say_how_it_ended(self, candidates: int, left: int, *, stops: bool, seconds: float) -> None:
        """Say how stage 2 ended.

        Args:
            candidates: Number of candidates.
            left: Number of those that may be better, but were not simulated.
            stops: Whether bounds end it.
            seconds: Its time.
        """
        rest, noun = candidates - self.tried, self.space.noun
        text = f"stage 2: {self.tried:,} {noun} simulated at medium detail, {self.space.shortened} ({seconds:.1f} s)"
        if not rest:
            self._note(text)
            return
        self.reasons[f"the bound is worse than the best of the {noun}"] += rest - left
        self.reasons = +self.reasons
        if left:
            self.reasons["not simulated (--simulations)"] += left
            unknown = "may be better in one of the metrics" if self.goals else f"have no bound of {self.goal.metric}"
            reason = "may be better by their bound" if stops else unknown
            self.notes.append(f"{left:,} {noun} that {reason} were not simulated; --simulations sets the limit")
        else:
            text += f"; the bounds of the other {rest:,} are worse than the best"
        self._note(text)

    def _smallest(self, candidates: Sequence[SizedCandidate], simulations: Simulations) -> Sequence[Found]:
        """Stages 2 and 3 of a search for the smallest size of each candidate."""
        started_s, noun = time.perf_counter(), self.space.noun
        ordered = sorted(candidates, key=lambda each: (each.least_key, each.simplicity(each.known)))
        sizes = Sizes(
            ordered, lambda answer: self.goal.key(answer.value), self.simulations if self.goals else self.top
        )
        answers = sizes.simulate(simulations, partial(self.answer, lod="medium"), self.simulations)
        self.tried, seconds = sizes.tried, time.perf_counter() - started_s
        left = sizes.left_out(self.reasons)
        self.reasons = +self.reasons
        text = f"stage 2: {sizes.tried:,} {noun} simulated at medium detail, {self.space.shortened}"
        self._note(f"{text}, bisecting the number of replicas ({seconds:.1f} s)")
        if left:
            reason = (
                "may be better with few replicas" if self.space.bounded else f"have no bound of {self.goal.metric}"
            )
            self.notes.append(
                f"{left:,} kinds of {noun} that {reason} were not simulated; --simulations sets the limit"
            )
        if self.goals:
            kept = {id(each) for each in pareto([answer for _, answer in answers], self.goals)}
            answers = [pair for pair in answers if id(pair[1]) in kept]
        started_s = time.perf_counter()
        count = len(answers) if self.goals else self.top
        found, tried, grown = settled(
            answers,
            lambda answer: self.goal.key(answer.value),
            count,
            simulations,
            partial(self.answer, lod=self.lod),
        )
        self.reasons[LARGER] -= grown
        self._say_finalists(tried, time.perf_counter() - started_s)
        return found

    def _finalists(self, answers: Sequence[Found], simulations: Simulations) -> list[Found]:
        """Stage 3: simulate the best as the scenario says, unless stage 2 has done so."""
        ordered = sorted(answers, key=lambda pair: self.goal.key(pair[1].value))
        if not ordered:
            return []
        started_s, chosen = time.perf_counter(), ordered if self.goals else ordered[: self.top]
        found = [pair for pair in chosen if pair[0].final]
        left = [candidate for candidate, _ in chosen if not candidate.final]
        for place, outcome in simulations.run([each.task(short=False) for each in left], len(left)):
            answer = self.answer(left[place], outcome, self.lod)
            found += [] if answer is None else [(left[place], answer)]
        self._say_finalists(len(chosen), time.perf_counter() - started_s if left else None)
        return found

    def _say_finalists(self, count: int, seconds: float | None) -> None:
        """Say what stage 3 has simulated, and in how many seconds; None if stage 2 had done so already."""
        finalists = "1 finalist" if count == 1 else f"{count} finalists"
        how = ", which stage 2 has done" if seconds is None else f" ({seconds:.1f} s)"
        self._note(f"stage 3: {finalists} {self.space.whole}, {self.lod} detail{how}")

    def answer(self, candidate: Candidate, outcome: Outcome, lod: str) -> Answer | None:
        """An answer; None if the candidate was not simulated, or does not meet the conditions."""
        reason, metrics = outcome.reason, dict[str, Any]()
        if not reason:
            metrics = candidate.metrics(outcome.metrics)
            reason = candidate.problem(metrics) or self._unmet(metrics)
        if reason:
            self.reasons[reason] += 1
            return None
        value = float(metrics[self.goal.metric])
        family = candidate.family if isinstance(candidate, SizedCandidate) and self.space.sized else ""
        return Answer(candidate.settings, metrics, value, lod, 0, candidate.simplicity(metrics), family)

    def _unmet(self, metrics: Mapping[str, Any]) -> str:
        """Why metrics are no answer; empty if they are one."""
        for each in self.goal.conditions:
            if not each.holds(metrics.get(each.metric)):
                return f"{each.text} does not hold"
        lacking = next((each for each in (self.goal, *self.goals) if metrics.get(each.metric) is None), None)
        return "" if lacking is None else f"the run has no {lacking.metric}"

    def _note(self, text: str) -> None:
        self.stages.append(text)
        self._say(text)
