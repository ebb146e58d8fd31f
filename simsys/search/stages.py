"""The stages of a search.

All layouts by closed forms, the most promising simulated at medium, and the finalists as the scenario says.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simsys.build.rules import Parts, apply_rules
from simsys.build.rules.findings import Findings, unlocated
from simsys.config.expected_losses import measured_loss
from simsys.config.experiment import SimulationConfig
from simsys.config.search import SearchConfig
from simsys.errors import UsageError
from simsys.search.axes import KEYS, is_written, layout_axes
from simsys.search.base import Base
from simsys.search.closed_forms import Candidate, ClosedForms
from simsys.search.goal import COST, MEMORY_SHARE, Goal, check_metric, optimistic, with_derived
from simsys.search.result import Answer, SearchResult, grouped, pareto
from simsys.search.scenarios import count_of, outer_settings, scenarios
from simsys.search.simulated import Simulations, Task
from simsys.search.space import PLAIN, Axes, Division, Variant
from simsys.user_modules import current

MOST_LAYOUTS = 20_000_000
"""Most layouts of a search."""
SIMULATIONS = 300
"""Default limit of the number of simulated layouts."""
ONE_ITERATION = {"simulation.lod": "medium", "training.num_iterations": 1}
"""Settings of a simulation in stage 2."""
DEGREES = "the degrees do not divide the number of GPUs"
"""Reason of combinations of degrees that are no layout of the GPUs."""


@dataclass(frozen=True)
class Entry:
    """A layout that fits.

    Args:
        base: Its training.
        outer: Settings that are no part of the layout.
        candidate: The layout.
        least_key: A lower bound of the key of its value of the goal (`Goal.key`).
    """

    base: Base
    outer: Mapping[str, Any]
    candidate: Candidate
    least_key: float

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings by dotted path."""
        return {**self.outer, **self.base.settings(self.candidate.division, self.candidate.variant)}

    def metrics(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics of its run with those that only a search has."""
        return with_derived(found, self.candidate.memory_share, self.base.cluster.usd_per_gpu_hour)


class Search:
    """A search for the best layouts; the arguments are those of `simsys.search.search`."""

    def __init__(
        self,
        config: SimulationConfig,
        asked: SearchConfig,
        top: int,
        axes: Sequence[str],
        jobs: int,
        simulations: int,
        say: Callable[[str], None],
    ) -> None:
        if config.kind != "training":
            raise UsageError("simsys search finds layouts of one training job; this scenario is no training")
        assert config.training is not None
        if config.training.global_batch_size is None:
            raise UsageError("a search compares layouts at one batch: write training.global_batch_size")
        self.config, self.asked, self.top, self.jobs = config, asked, top, jobs
        self.simulations, self._say = simulations, say
        self.goal = Goal.of(asked)
        self.goals = [Goal(check_metric(name, "--pareto"), _more_is_better(name)) for name in axes]
        self.reasons: Counter[str] = Counter()
        self.stages: list[str] = []
        self.notes: list[str] = []
        self.considered = 0
        self.tried = 0

    def run(self) -> SearchResult:
        """Carry it out."""
        entries = self._closed_forms()
        answers = self._simulated(entries)
        answers = self._finalists(answers)
        loss = measured_loss("training")
        width = loss.loss if loss is not None and self.goal.bounded else 0.0
        best = grouped([each for _, each in answers], self.goal, width)
        fixed = {key: _value(self.config, key) for key in KEYS if is_written(self.config, key)}
        varied = self.asked.over if isinstance(self.asked.over, Mapping) else {}
        return SearchResult(
            self.config.name,
            self.goal,
            best[: self.top] if not self.goals else best,
            self.considered,
            self.considered - self.tried,
            self.tried,
            dict(self.reasons.most_common()),
            self.stages,
            loss,
            self.notes,
            {key: value for key, value in fixed.items() if key not in varied},
        )

    # ---- stage 1

    def _closed_forms(self) -> list[Entry]:
        started_s = time.process_time()
        outer = outer_settings(self.asked)
        spaces = self._spaces(outer)
        entries: list[Entry] = []
        for settings, base, axes in spaces:
            entries += self._fitting(settings, base, axes)
        cpu_s = time.process_time() - started_s
        rate = self.considered / cpu_s if cpu_s else 0.0
        self._note(
            f"stage 1: {self.considered:,} layouts by closed forms, {len(entries):,} fit "
            f"({cpu_s:.1f} s, {rate:,.0f} per CPU-second)"
        )
        return sorted(entries, key=lambda each: each.least_key)

    def _spaces(self, outer: Mapping[str, list[Any]]) -> list[tuple[dict[str, Any], Base, Axes]]:
        """The scenarios with their axes, if they are not too many."""
        count = count_of(outer)
        if count > MOST_LAYOUTS:
            raise UsageError(_too_large(count))
        found, layouts = list[tuple[dict[str, Any], Base, Axes]](), 0
        for settings, config in scenarios(self.config, outer):
            base = Base.of(config)
            if self.goal.metric == COST and not base.cluster.usd_per_gpu_hour:
                raise UsageError(f"search: {COST} needs prices, but the profile of the GPUs has no usd_per_hour")
            axes = layout_axes(base, self.asked.over)
            if axes.points * count > 1000 * MOST_LAYOUTS:
                raise UsageError(_too_large(axes.points * count))
            layouts += sum(map(axes.size, axes.divisions(base.cluster.num_gpus, base.tokens)))
            if layouts > MOST_LAYOUTS:
                raise UsageError(_too_large(layouts))
            found.append((settings, base, axes))
        return found

    def _fitting(self, settings: Mapping[str, Any], base: Base, axes: Axes) -> list[Entry]:
        """The layouts of a scenario that fit; the others are counted."""
        forms, entries = ClosedForms(base, axes), list[Entry]()
        divisions = list(axes.divisions(base.cluster.num_gpus, base.tokens))
        if not divisions:
            self.reasons[f"{DEGREES} ({base.cluster.num_gpus})"] += axes.points
            self.considered += axes.points
        for division in divisions:
            size = axes.size(division)
            self.considered += size
            if problem := division_problem(base, division, axes):
                self.reasons[problem] += size
                continue
            for candidate in forms.candidates(division):
                entries.append(Entry(base, settings, candidate, self._least_key(base, candidate)))
        self.reasons.update(forms.reasons)
        return [entry for entry in entries if self._may_hold(entry)]

    def _least_key(self, base: Base, candidate: Candidate) -> float:
        """A bound of the goal, or of the time where the goal has none."""
        gpus, price = base.cluster.num_gpus, base.cluster.usd_per_gpu_hour
        if self.goal.bounded:
            value = optimistic(self.goal, candidate.bound_s, base.samples, base.tokens, gpus, price)
            return self.goal.key(value)
        if self.goal.metric == MEMORY_SHARE:
            return self.goal.key(candidate.memory_share)
        if self.goal.metric == "num_gpus":
            return self.goal.key(float(gpus))
        return candidate.bound_s

    def _may_hold(self, entry: Entry) -> bool:
        """Whether the conditions that are known before a simulation hold."""
        known = {MEMORY_SHARE: entry.candidate.memory_share, "num_gpus": float(entry.base.cluster.num_gpus)}
        for each in self.goal.conditions:
            if each.metric in known and not each.holds(known[each.metric]):
                self.reasons[f"{each.text} does not hold"] += 1
                return False
        return True

    # ---- stages 2 and 3

    def _simulated(self, entries: Sequence[Entry]) -> list[tuple[Entry, Answer]]:
        """Simulate the most promising layouts, until the bound of the next one is worse than the best one found."""
        started_s, chosen = time.perf_counter(), list(entries[: self.simulations])
        answers: list[tuple[Entry, Answer]] = []
        best_key = float("inf")
        known = self.goal.bounded or self.goal.metric in (MEMORY_SHARE, "num_gpus")
        stops = known and not self.goals and self.config.hardware.jitter is None  # random speeds may be above the mean

        def wanted(place: int) -> bool:
            return not stops or len(answers) < self.top or chosen[place].least_key <= best_key

        tasks = [self._task(each, **ONE_ITERATION) for each in chosen]
        with Simulations(self.jobs) as simulations:
            for place, outcome in simulations.run(tasks, wanted):
                self.tried += 1
                answer = self._answer(chosen[place], outcome.metrics, outcome.reason, "medium")
                if answer is not None:
                    answers.append((chosen[place], answer))
                    best_key = min(best_key, self.goal.key(answer.value))
        self._say_how_it_ended(entries, best_key, stops=stops, seconds=time.perf_counter() - started_s)
        if self.goals:
            kept = {id(each) for each in pareto([answer for _, answer in answers], self.goals)}
            answers = [pair for pair in answers if id(pair[1]) in kept]
        return answers

    def _say_how_it_ended(self, entries: Sequence[Entry], best_key: float, *, stops: bool, seconds: float) -> None:
        rest = len(entries) - self.tried
        text = f"stage 2: {self.tried:,} layouts simulated at medium detail, one iteration ({seconds:.1f} s)"
        if not rest:
            self._note(text)
            return
        left = [each for each in entries[self.tried :] if not stops or each.least_key <= best_key]
        self.reasons["the bound is worse than the best layout"] += rest - len(left)
        self.reasons = +self.reasons
        if left:
            self.reasons["not simulated (--simulations)"] += len(left)
            reason = "may be better by their bound" if stops else f"have no bound of {self.goal.metric}"
            self.notes.append(f"{len(left):,} layouts that {reason} were not simulated; --simulations sets the limit")
        else:
            text += f"; the bounds of the other {rest:,} are worse than the best"
        self._note(text)

    def _finalists(self, answers: Sequence[tuple[Entry, Answer]]) -> list[tuple[Entry, Answer]]:
        """Simulate the best layouts as the scenario says: at its level of detail, with all iterations."""
        lod = self.config.simulation.lod
        ordered = sorted(answers, key=lambda pair: self.goal.key(pair[1].value))
        if not ordered:
            return []
        started_s, chosen = time.perf_counter(), ordered if self.goals else ordered[: self.top]
        found: list[tuple[Entry, Answer]] = []
        with Simulations(self.jobs) as simulations:
            tasks = [self._task(entry) for entry, _ in chosen]
            for place, outcome in simulations.run(tasks, lambda _: True):
                answer = self._answer(chosen[place][0], outcome.metrics, outcome.reason, lod)
                found += [] if answer is None else [(chosen[place][0], answer)]
        seconds = time.perf_counter() - started_s
        self._note(f"stage 3: {len(chosen)} finalists as `simsys run` simulates them, {lod} detail ({seconds:.1f} s)")
        return found

    def _task(self, entry: Entry, **settings: Any) -> Task:
        layout = entry.base.settings(entry.candidate.division, entry.candidate.variant)
        return Task(entry.base.config, {**layout, **settings}, current())

    def _answer(self, entry: Entry, found: Mapping[str, Any], reason: str, lod: str) -> Answer | None:
        """An answer; None if the layout was not simulated, or does not meet the conditions."""
        if reason:
            self.reasons[reason] += 1
            return None
        metrics = entry.metrics(found)
        for each in self.goal.conditions:
            if not each.holds(metrics.get(each.metric)):
                self.reasons[f"{each.text} does not hold"] += 1
                return None
        value = metrics.get(self.goal.metric)
        if value is None or any(metrics.get(goal.metric) is None for goal in self.goals):
            self.reasons[f"the run has no {self.goal.metric}"] += 1
            return None
        return Answer(entry.settings, metrics, float(value), lod)

    def _note(self, text: str) -> None:
        self.stages.append(text)
        self._say(text)


def division_problem(base: Base, division: Division, axes: Axes) -> str:
    """Why a division of the ranks breaks a rule of parallelism, whatever its variant; empty if it breaks none."""
    variant = Variant(PLAIN, 1, axes.samples[0], axes.recompute[0], axes.kinds_of(division)[0])
    config, found = base.scenario(division, variant), Findings(unlocated({}))
    apply_rules(Parts(config, base.cluster.spec, base.model, base.engine, base.cluster), found, ("parallelism",))
    return found.errors[0].message if found.errors else ""


def _too_large(count: int) -> str:
    return f"the space has {count:,} layouts, at most {MOST_LAYOUTS:,} are searched; list fewer values in search.over"


def _more_is_better(metric: str) -> bool:
    return "_per_s" in metric or metric in ("mfu", "hfu", "goodput", "attained_peak_share", "gpu_utilization")


def _value(config: SimulationConfig, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)
