"""The candidates of a search for the best layout of a training job."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby
from typing import Any, ClassVar

from simsys.build.rules import Parts, apply_rules
from simsys.build.rules.findings import Findings, unlocated
from simsys.config.experiment import SimulationConfig
from simsys.config.search import SearchConfig
from simsys.errors import UsageError
from simsys.searches.candidates import Candidate, Simplicity, Space, too_large
from simsys.searches.goal import MEMORY_SHARE, NUM_GPUS, Goal
from simsys.searches.scenarios import count_of, is_written, outer_settings, scenarios
from simsys.searches.simulated import Simulations, Task
from simsys.searches.training.axes import FOLLOWS, KEYS, layout_axes
from simsys.searches.training.base import Base
from simsys.searches.training.closed_forms import ClosedForms, Fitting
from simsys.searches.training.goals import bounded, check_economic, needs_energy, optimistic, with_derived
from simsys.searches.training.space import PLAIN, Axes, Division, Variant
from simsys.user_modules import current

MOST_LAYOUTS = 20_000_000
"""Most layouts of a search."""
MANY_LAYOUTS = 40_000
"""Layouts of a scenario from which several processes find those that fit sooner than one."""
ONE_ITERATION = {"simulation.lod": "medium", "training.num_iterations": 1}
"""Settings of a simulation in stage 2."""
UNDIVIDED = "the degrees do not divide the number of GPUs"
"""Reason of combinations of degrees that are no layout of the GPUs."""
DEGREES = ("tp_degree", "cp_degree", "ep_degree", "pp_stages", "virtual_stages")
SIMPLE = {
    "parallelism.schedule": ("1f1b", "gpipe", "interleaved", "zero_bubble"),
    "training.activation_recompute": ("none", "selective", "half", "full"),
}


@dataclass(frozen=True)
class LayoutCandidate(Candidate):
    """A layout that fits.

    Args:
        base: Its training.
        outer: Settings that are no part of the layout.
        fitting: The layout.
        least_key: A lower bound of the key of its value of the goal.
    """

    base: Base
    outer: Mapping[str, Any]
    fitting: Fitting
    least_key: float

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings by dotted path."""
        return {**self.outer, **self._layout}

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """Whether the bound is its own."""
        return self.fitting.exact

    @property
    def _layout(self) -> dict[str, Any]:
        return self.base.settings(self.fitting.division, self.fitting.variant)

    @property
    def known(self) -> dict[str, float]:  # type: ignore[override]
        """The share of the memory, and the number of GPUs."""
        return {MEMORY_SHARE: self.fitting.memory_share, NUM_GPUS: float(self.base.cluster.num_gpus)}

    @property
    def final(self) -> bool:  # type: ignore[override]
        """At medium, equal iterations are counted instead of simulated."""
        return iterations_repeat(self.base.config)

    def task(self, *, short: bool) -> Task:
        """All iterations as the scenario says; or one iteration at medium detail, unless all cost as little."""
        shortened = ONE_ITERATION if short and not self.final else {}
        return Task(self.base.config, {**self._layout, **shortened}, current())

    def metrics(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics of its run with the share of the memory."""
        return with_derived(found, self.fitting.memory_share)

    def simplicity(self, metrics: Mapping[str, Any]) -> Simplicity:
        """Number of GPUs, kinds of parallelism, and choices that differ from plain."""
        settings = self.settings
        parts = settings["parallelism.strategy"].count("_")
        extra = sum(settings[f"parallelism.{name}"] > 1 for name in DEGREES)
        places = [names.index(settings[key]) for key, names in SIMPLE.items() if settings[key] in names]
        return float(metrics.get(NUM_GPUS, 0)), float(parts + extra), float(sum(places))


class Layouts(Space):
    """The layouts of a training job.

    Args:
        config: The scenario, with a global batch size.
        asked: The question.
        goal: Its goal.
    """

    kind: ClassVar[str] = "training"
    noun: ClassVar[str] = "layouts"
    keys: ClassVar[Collection[str]] = KEYS

    def __init__(self, config: SimulationConfig, asked: SearchConfig, goal: Goal) -> None:
        super().__init__()
        assert config.training is not None
        if config.training.global_batch_size is None:
            raise UsageError("a search compares layouts at one batch: write training.global_batch_size")
        self.config, self.asked, self.goal = config, asked, goal
        self._forms: dict[int, ClosedForms] = {}
        """The closed forms of each scenario, by identity of its base, which they hold."""

    @property
    def shortened(self) -> str:
        """All iterations where they repeat."""
        return "all iterations" if iterations_repeat(self.config) else "one iteration"

    @property
    def bounded(self) -> bool:
        """Whether the bounds hold: random speeds may be above the mean."""
        known = self.comparable or self.goal.metric in (MEMORY_SHARE, NUM_GPUS)
        return known and self.config.hardware.jitter is None

    @property
    def comparable(self) -> bool:
        """Whether the goal is a time of an iteration, or follows from it."""
        return bounded(self.goal)

    @property
    def written(self) -> dict[str, Any]:
        """Settings of the layout that the scenario writes."""
        varied = self.asked.over if isinstance(self.asked.over, Mapping) else {}
        keys = [key for key in KEYS if is_written(self.config, key) and key not in varied]
        return {key: _value(self.config, key) for key in keys}

    def candidates(self, processes: Simulations | None = None) -> list[LayoutCandidate]:
        """The layouts that fit; the others are counted by reason."""
        found: list[LayoutCandidate] = []
        for settings, base, axes in self._spaces(outer_settings(self.asked, KEYS, FOLLOWS)):
            found += self._fitting(settings, base, axes, processes)
        return found

    def tightened(self, candidate: Candidate) -> LayoutCandidate:
        """A layout with its own bound instead of the one without recomputation."""
        assert isinstance(candidate, LayoutCandidate)
        fitting = self._forms[id(candidate.base)].tightened(candidate.fitting)
        return replace(candidate, fitting=fitting, least_key=self._least_key(candidate.base, fitting))

    def _spaces(self, outer: Mapping[str, list[Any]]) -> list[tuple[dict[str, Any], Base, Axes]]:
        """The scenarios with their axes, if they are not too many."""
        count = count_of(outer)
        if count > MOST_LAYOUTS:
            raise UsageError(too_large(count, self.noun, MOST_LAYOUTS))
        found, layouts = list[tuple[dict[str, Any], Base, Axes]](), 0
        for settings, config in scenarios(self.config, outer):
            base = Base.of(config)
            check_economic(self.goal, base)
            axes = layout_axes(base, self.asked.over)
            if axes.points * count > 1000 * MOST_LAYOUTS:
                raise UsageError(too_large(axes.points * count, self.noun, MOST_LAYOUTS))
            layouts += sum(map(axes.size, axes.divisions(base.cluster.num_gpus, base.tokens)))
            if layouts > MOST_LAYOUTS:
                raise UsageError(too_large(layouts, self.noun, MOST_LAYOUTS))
            found.append((settings, base, axes))
        return found

    def _fitting(
        self, settings: Mapping[str, Any], base: Base, axes: Axes, processes: Simulations | None
    ) -> list[LayoutCandidate]:
        """The layouts of a scenario that fit; the others are counted."""
        divisions = list(axes.divisions(base.cluster.num_gpus, base.tokens))
        if not divisions:
            self.reasons[f"{UNDIVIDED} ({base.cluster.num_gpus})"] += axes.points
            self.considered += axes.points
        allowed, layouts = list[Division](), 0
        for division in divisions:
            size = axes.size(division)
            self.considered += size
            if problem := division_problem(base, division, axes):
                self.reasons[problem] += size
            else:
                allowed.append(division)
                layouts += size
        computed, found = needs_energy(self.goal), list[LayoutCandidate]()
        forms = self._forms[id(base)] = ClosedForms(base, axes, computed=computed)
        results: Iterable[Fittings]
        if processes is None or processes.jobs <= 1 or layouts < MANY_LAYOUTS:
            results = [_fitting_layouts(forms, allowed)]
        else:
            question = pickle.dumps((base.config, self.asked.over, computed))
            parts = [list(part) for _, part in groupby(allowed, key=lambda each: (each.tensor, each.context))]
            results = processes.map(partial(_fitting_elsewhere, question), parts)
        for fittings, reasons in results:
            found += [LayoutCandidate(base, settings, each, self._least_key(base, each)) for each in fittings]
            self.reasons.update(reasons)
        return found

    def _least_key(self, base: Base, fitting: Fitting) -> float:
        """A bound of the goal, or of the time where the goal has none."""
        if self.comparable:
            return self.goal.key(optimistic(self.goal, base, fitting.bound_s, fitting.computed_s))
        if self.goal.metric == MEMORY_SHARE:
            return self.goal.key(fitting.memory_share)
        if self.goal.metric == NUM_GPUS:
            return self.goal.key(float(base.cluster.num_gpus))
        return fitting.bound_s


Fittings = tuple[list[Fitting], Counter[str]]
"""Layouts that fit, and how many do not, by reason."""


def _fitting_layouts(forms: ClosedForms, divisions: Sequence[Division]) -> Fittings:
    return [each for division in divisions for each in forms.candidates(division)], Counter(forms.reasons)


def _fitting_elsewhere(question: bytes, divisions: Sequence[Division]) -> Fittings:
    """As `_fitting_layouts`, in another process."""
    forms = _closed_forms(question)
    forms.reasons.clear()
    return _fitting_layouts(forms, divisions)


@lru_cache(maxsize=1)
def _closed_forms(question: bytes) -> ClosedForms:
    """The closed forms of a scenario, which a process keeps for further divisions."""
    config, over, computed = pickle.loads(question)  # from the process that this one works for
    base = Base.of(config)
    return ClosedForms(base, layout_axes(base, over), computed=computed)


def iterations_repeat(config: SimulationConfig) -> bool:
    """Whether a run simulates few iterations, and counts the others."""
    varying = config.hardware.jitter is not None or config.network.degradations or config.hardware.slowdowns
    return config.simulation.lod == "medium" and not varying and not config.simulation.collect_events


def division_problem(base: Base, division: Division, axes: Axes) -> str:
    """Why a division of the ranks breaks a rule of parallelism, whatever its variant; empty if it breaks none."""
    variant = Variant(PLAIN, 1, axes.samples[0], axes.recompute[0], axes.kinds_of(division)[0])
    config, found = base.scenario(division, variant), Findings(unlocated({}))
    apply_rules(Parts(config, base.cluster.spec, base.model, base.engine, base.cluster), found, ("parallelism",))
    return found.errors[0].message if found.errors else ""


def _value(config: SimulationConfig, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)
