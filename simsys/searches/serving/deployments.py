"""The candidates of a search for the best deployment of a serving scenario."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Any, ClassVar

from simsys.capacity.rate import rate_of
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import load_engine
from simsys.config.search import SearchConfig
from simsys.errors import UsageError
from simsys.searches.candidates import Space, too_large
from simsys.searches.goal import GOODPUT, NUM_GPUS, Goal
from simsys.searches.scenarios import AUTO, count_of, is_written, outer_settings, scenarios
from simsys.searches.serving.axes import (
    FOLLOWS,
    KEYS,
    MOST_GPUS,
    Axes,
    asked_values,
    deployment_axes,
    different_precisions,
)
from simsys.searches.serving.demand import Demand
from simsys.searches.serving.deployment import Aim, Deployment
from simsys.searches.serving.engines import EngineKind
from simsys.searches.serving.fleet import SIZES, STEADY, Fleet
from simsys.searches.serving.sized import SizedShapes
from simsys.searches.serving.steps import Collectives
from simsys.searches.serving.targets import headroom_of, required_share
from simsys.searches.serving.values import JUDGED, PRICED, is_bounded, is_cost
from simsys.searches.simulated import Simulations

MOST_DEPLOYMENTS = 20_000_000
"""Most deployments of a search."""
PRECISIONS = ("serving.precision", "serving.kv_precision")
UNDIVIDED = "the GPUs of a replica do not divide the GPUs"
SAME_PRECISION = "the precision of the KV cache is that of another choice"
ONE_GPU = "experts are not divided among the only GPU of a stage"
MORE_THAN_A_NODE = "data-parallel ranks that share their experts would be on several nodes; list them to search these"
STAGES_APART = "pp_stages with attention_dp is not available"


class Deployments(Space):
    """The deployments of a serving scenario.

    Args:
        config: The scenario.
        asked: The question.
        goal: Its goal.

    Raises:
        UsageError: If the question is not about this scenario, or the space is too large.
    """

    kind: ClassVar[str] = "serving"
    noun: ClassVar[str] = "deployments"
    keys: ClassVar[Collection[str]] = KEYS

    def __init__(self, config: SimulationConfig, asked: SearchConfig, goal: Goal) -> None:
        super().__init__()
        assert config.serving is not None
        self.config, self.asked, self.goal = config, asked, goal
        self.judged = config.slo is not None and not goal.metric.startswith(JUDGED)
        if config.slo is None and (is_cost(goal) or goal.metric.startswith(JUDGED)):
            raise UsageError(f"search: {goal.metric} needs latency targets; add slo: {{ttft: 500 ms, tpot: 30 ms}}")
        pools = config.serving.disaggregated
        if pools is not None and pools.own_degrees:
            raise UsageError(
                "search: prefill and decode replicas have the same degrees, such as tp_degree; remove one"
            )
        if goal.metric == GOODPUT:
            rate_of(config)
        self._short: dict[str, Any] = {}

    @property
    def shortened(self) -> str:
        """The number of requests of a short run."""
        if self.goal.metric == GOODPUT:
            return "bisecting the rate with a tolerance of 10 %"
        count = self._short.get("workload.num_requests")
        return "all requests" if count is None else f"{count:,} requests"

    @property
    def whole(self) -> str:
        """The steady state, the greatest rate, or the whole run."""
        if self.goal.metric == GOODPUT:
            return "at their greatest rate that meets the SLO"
        return "until the steady state" if self._to_steady else super().whole

    @property
    def bounded(self) -> bool:
        """Whether the bounds hold: random speeds may be above the mean."""
        return is_bounded(self.goal) and self.config.hardware.jitter is None and not self.config.hardware.exceptions

    @property
    def _to_steady(self) -> bool:
        """Whether finalists are simulated until the steady state: where the smallest size is looked for."""
        assert self.config.workload is not None
        return self.sized and self.config.workload.arrivals.kind in STEADY

    @property
    def comparable(self) -> bool:
        """Whether choices by this metric were measured."""
        return is_bounded(self.goal)

    @property
    def sized(self) -> bool:
        """Whether the smallest number of replicas is searched that meets the targets."""
        return is_cost(self.goal)

    @property
    def written(self) -> dict[str, Any]:
        """Settings of the deployment that the scenario writes."""
        keys = [key for key in KEYS if is_written(self.config, key) and not self._varies(key)]
        sizes = [f"hardware.{key}" for key in SIZES if is_written(self.config, f"hardware.{key}")]
        varied = self.asked.over if isinstance(self.asked.over, Mapping) else {}
        return {key: _plain(self.config, key) for key in [*keys, *(key for key in sizes if key not in varied)]}

    @property
    def kv_headroom(self) -> float:
        """Share of the KV cache that an answer leaves free at its fullest moment."""
        return headroom_of(self.config, self.asked.kv_headroom) if self.judged else 0.0

    def _asked(self, key: str) -> Sequence[Any] | str | None:
        return asked_values(self.config, self.asked.over, key)

    def _varies(self, key: str) -> bool:
        return self._asked(key) is not None

    def doubts(self, settings: Sequence[Mapping[str, Any]]) -> list[str]:
        """That the answers of the model may differ, if a precision was chosen for it."""
        chosen = [key for key in PRECISIONS if any(key in each for each in settings) and self._asked(key) == AUTO]
        if not chosen:
            return []
        return [f"{' and '.join(chosen)} chosen below the default may change the answers of the model; write them"]

    # ---- the space

    def candidates(self, processes: Simulations | None = None) -> list[Deployment]:
        """The deployments that fit; the others are counted by reason."""
        found: list[Deployment] = []
        for outer, fleet, axes in self._spaces(outer_settings(self.asked, KEYS, FOLLOWS)):
            self._short = fleet.short
            found += self._of_fleet(outer, fleet, axes)
        return found

    def _spaces(self, outer: Mapping[str, list[Any]]) -> list[tuple[dict[str, Any], Fleet, Axes]]:
        """The kinds of hardware with their axes, if they are not too many."""
        count = count_of(outer)
        if count > MOST_DEPLOYMENTS:
            raise UsageError(too_large(count, self.noun, MOST_DEPLOYMENTS))
        found = []
        for settings, config in scenarios(self.config, outer):
            fleet, axes = self._fleet(config)
            if axes.shapes * count > MOST_DEPLOYMENTS:
                raise UsageError(too_large(axes.shapes * count, self.noun, MOST_DEPLOYMENTS))
            self.considered += axes.each * sum(len(self._sizes(fleet, axes, prod(group))) for group in axes.groups)
            if self.considered > MOST_DEPLOYMENTS:
                raise UsageError(too_large(self.considered, self.noun, MOST_DEPLOYMENTS))
            found.append((settings, fleet, axes))
        return found

    def _fleet(self, config: SimulationConfig) -> tuple[Fleet, Axes]:
        """Hardware of one kind, and the axes of its deployments."""
        assert config.serving is not None
        written = any(is_written(config, f"hardware.{key}") for key in SIZES)
        asked = asked_values(config, self.asked.over, "parallelism.dp_degree")
        listed = config.parallelism.dp_degree is not None or not (asked is None or asked == AUTO)
        fleet = Fleet(config, fixed=written or not (listed or (asked == AUTO and self.sized)))
        if self.goal.metric in PRICED and not fleet.price:
            name = fleet.written.gpu.name
            raise UsageError(f"search: {self.goal.metric} needs prices, but the profile of {name} has no usd_per_hour")
        engine = load_engine(config.serving.engine, config.profile_folders)
        axes = deployment_axes(config, self.asked.over, fleet.written, fleet.model, engine, node_gpus=fleet.node_gpus)
        return fleet, axes

    def _sizes(self, fleet: Fleet, axes: Axes, group: int) -> Sequence[int]:
        """Numbers of replicas with a number of GPUs each."""
        if fleet.fixed:
            return (max(1, fleet.written.num_gpus // group),)
        return axes.replicas or range(1, max(1, self._most_gpus // group) + 1)

    @property
    def _most_gpus(self) -> int:
        limits = [each.limit for each in self.goal.conditions if each.metric == NUM_GPUS and "<" in each.comparison]
        return max(1, int(min(limits))) if limits else MOST_GPUS

    # ---- one kind of hardware

    def _of_fleet(self, outer: Mapping[str, Any], fleet: Fleet, axes: Axes) -> Iterator[Deployment]:
        """The deployments on hardware of one kind."""
        aim = Aim(self.goal, self.judged, self._to_steady, self.kv_headroom)
        demand, collectives = self._demand(fleet), Collectives()
        precisions = different_precisions(fleet.config, axes, fleet.written, fleet.model)
        varying = frozenset(key for key in KEYS if self._varies(key))
        for tensor, stages, attention in axes.groups:
            sizes = self._sizes(fleet, axes, tensor * stages * attention)
            for expert in axes.expert:
                count = axes.each // len(axes.expert) * len(sizes)
                unfit = self._unfit(fleet, (tensor, stages, attention), expert)
                if unfit:
                    self.reasons[unfit] += count
                    continue
                each = count // (len(axes.precision) * len(axes.kv_precision))
                self.reasons[SAME_PRECISION] += count - each * len(precisions)
                for precision, kv in precisions:
                    kind = EngineKind(tensor, stages, attention, expert or tensor * attention, precision, kv)
                    shapes = SizedShapes(aim, demand, fleet, axes, kind, sizes, self.reasons, collectives)
                    yield from shapes.deployments(outer, varying, sized=self.sized)
        self.reasons = +self.reasons

    def _unfit(self, fleet: Fleet, group: tuple[int, int, int], expert: int) -> str:
        """Why degrees do not go together; empty if they may."""
        tensor, stages, attention = group
        if expert == 0 and tensor * attention == 1:
            return ONE_GPU
        if attention > 1 and stages > 1:
            return STAGES_APART
        if attention > 1 and tensor * attention > fleet.node_gpus and self._asked("parallelism.attention_dp") == AUTO:
            return MORE_THAN_A_NODE
        return UNDIVIDED if fleet.fixed and fleet.written.num_gpus % prod(group) else ""

    def _demand(self, fleet: Fleet) -> Demand:
        """The requests of a short run."""
        config = fleet.config
        assert config.serving is not None
        requests = fleet.requests
        cached = bool(requests.hash_ids) and config.serving.prefix_caching is not False
        timed = config.simulation.duration is not None
        return Demand(requests, config.slo, required_share(config), timed=timed, cached=cached)


def _plain(config: SimulationConfig, key: str) -> Any:
    """A written setting as plain data."""
    section, _, name = key.partition(".")
    value = getattr(getattr(config, section), name)
    return value.model_dump(exclude_unset=True) if hasattr(value, "model_dump") else value
