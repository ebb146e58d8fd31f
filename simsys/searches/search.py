"""The question of a search, from a scenario and arguments, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from simsys.build.rules.findings import Findings, unlocated
from simsys.build.rules.own_metrics import own_names_exist
from simsys.config.experiment import SimulationConfig
from simsys.config.search import SearchConfig
from simsys.errors import UsageError
from simsys.searches.goal import Goal, check_metric, more_is_better
from simsys.searches.result import SearchResult
from simsys.searches.scenarios import AUTO, OTHERS, is_written
from simsys.searches.serving.deployments import Deployments
from simsys.searches.stages import SIMULATIONS, Search
from simsys.searches.training.layouts import Layouts

SPACES: Mapping[str, type[Layouts] | type[Deployments]] = {"training": Layouts, "serving": Deployments}
"""The candidates of each kind of scenario."""


def search(
    config: SimulationConfig,
    *,
    minimize: str | None = None,
    maximize: str | None = None,
    subject_to: Sequence[str] = (),
    over: Mapping[str, Any] | str | None = None,
    top: int = 10,
    pareto: Sequence[str] = (),
    jobs: int = 1,
    simulations: int = SIMULATIONS,
    say: Callable[[str], None] = lambda _: None,
) -> SearchResult:
    """Find the best layouts of a training job.

    Args:
        config: The scenario, with ``training.global_batch_size``; its section ``search`` is the question, unless the
            arguments replace it.
        minimize: Metric to minimize.
        maximize: Metric to maximize.
        subject_to: Conditions on metrics, such as ``peak_memory_share <= 0.92``.
        over: Settings that vary, as `SearchConfig.over`.
        top: Number of layouts of the answer.
        pareto: Two metrics; the answer then has the layouts that no other one beats in both.
        jobs: Number of processes that simulate.
        simulations: Largest number of simulated layouts.
        say: Called with a line about each stage.

    Returns:
        The best layouts; none if nothing is feasible, with the reasons counted.

    Raises:
        UsageError: If the question is not valid, or the space is too large.
        ConfigError: If a value is not valid.
    """
    asked = _question(config, minimize, maximize, subject_to, over)
    if config.kind not in SPACES:
        raise UsageError("simsys search is for one training job or one serving scenario, not for several jobs")
    asked = _with_others(asked, config, SPACES[config.kind].keys)
    _check_own_names(config)
    goal = Goal.of(asked, config.kind)
    goals = [Goal(check_metric(each, "--pareto", config.kind), more_is_better(each)) for each in pareto]
    space = SPACES[config.kind](config, asked, goal)
    lod = config.simulation.lod
    return Search(config.name, space, goal, goals, lod=lod, top=top, jobs=jobs, simulations=simulations, say=say).run()


def _check_own_names(config: SimulationConfig) -> None:
    found = Findings(unlocated(config.model_dump(exclude_unset=True)))
    own_names_exist(config.simulation, found)
    found.require()


def _question(
    config: SimulationConfig,
    minimize: str | None,
    maximize: str | None,
    subject_to: Sequence[str],
    over: Mapping[str, Any] | str | None,
) -> SearchConfig:
    """The section `search` with the arguments that replace it."""
    own = config.search.model_dump(exclude_unset=True) if config.search is not None else {}
    if minimize is not None or maximize is not None:
        own = {**own, "minimize": minimize, "maximize": maximize}
    if subject_to:
        own["subject_to"] = list(subject_to)
    if over is not None:
        own["over"] = over
    try:
        return SearchConfig.model_validate(own)
    except ValueError as error:
        raise UsageError(f"search: {error}") from None


def _with_others(asked: SearchConfig, config: SimulationConfig, keys: Collection[str]) -> SearchConfig:
    """The question with ``auto`` for all settings that are neither written nor named, in place of `OTHERS`."""
    if not isinstance(asked.over, Mapping) or OTHERS not in asked.over:
        return asked
    if asked.over[OTHERS] != AUTO:
        raise UsageError(f"search.over: {OTHERS} is auto, not {asked.over[OTHERS]!r}")
    named = {key: values for key, values in asked.over.items() if key != OTHERS}
    rest = {key: AUTO for key in keys if key not in named and not is_written(config, key)}
    return asked.model_copy(update={"over": {**rest, **named}})
