"""One kind of engine in a search: a model on a number of GPUs, with all limits of a step at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simsys.build.job import assemble
from simsys.build.resolved_serving import resolved_serving
from simsys.build.rules.findings import Findings, unlocated
from simsys.build.serving import ServingJob
from simsys.check.remedies import changed
from simsys.config.parallelism import STRATEGY_PARTS, ParallelismConfig
from simsys.config.serving_options import DisaggregatedConfig
from simsys.errors import SimsysError
from simsys.framework import FRAMEWORKS, Scheduler
from simsys.searches.serving.bounds import Bounds, Limits
from simsys.searches.serving.demand import Demand
from simsys.searches.serving.fleet import Fleet
from simsys.searches.serving.memory import cached_tokens
from simsys.searches.serving.steps import Steps

Floats = NDArray[np.float64]


DISAGGREGATED = "serving.disaggregated"
SAME_LIMITS = "the limits of a step are those of another choice"


def typed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with sections in place of mappings, as `simsys.check.remedies.changed` needs them."""
    pools = settings.get(DISAGGREGATED)
    made = {} if pools is None else {DISAGGREGATED: DisaggregatedConfig.model_validate(pools)}
    return {**settings, **made}


class EngineKind(NamedTuple):
    """What the durations of steps depend on.

    Args:
        tensor: Tensor-parallel degree.
        pipeline: Pipeline stages.
        attention: Data-parallel ranks of a replica.
        expert: Expert-parallel degree.
        precision: Precision of the weights; None for that of the scenario or checkpoint.
        kv_precision: Precision of the KV cache; None for that which follows from the weights or checkpoint.
    """

    tensor: int
    pipeline: int
    attention: int
    expert: int
    precision: str | None
    kv_precision: str | None

    @property
    def gpus(self) -> int:
        """GPUs of a replica."""
        return self.tensor * self.pipeline * self.attention

    def settings(self, given: ParallelismConfig) -> dict[str, Any]:
        """Its settings by dotted path, with the name of the strategy if the scenario has one.

        Args:
            given: The degrees of the scenario.
        """
        attends = self.attention > 1 or given.attention_dp > 1
        degrees = {"TP": self.tensor, "EP": self.expert, "PP": self.pipeline}
        parts = "_".join(part for part in STRATEGY_PARTS if degrees.get(part, 1) > 1) or "None"
        return {
            **({"parallelism.strategy": parts} if given.strategy is not None else {}),
            "parallelism.tp_degree": self.tensor,
            "parallelism.pp_stages": self.pipeline,
            **({"parallelism.attention_dp": self.attention} if attends else {}),
            "parallelism.ep_degree": self.expert,
            **({"serving.precision": self.precision} if self.precision is not None else {}),
            **({"serving.kv_precision": self.kv_precision} if self.kv_precision is not None else {}),
        }


class Step(NamedTuple):
    """Written limits of a step; None for the default of the engine."""

    sequences: int | None
    tokens: int | None

    @property
    def settings(self) -> dict[str, int]:
        """Its settings by dotted path."""
        written = {"serving.max_num_seqs": self.sequences, "serving.max_num_batched_tokens": self.tokens}
        return {path: value for path, value in written.items() if value is not None}


class AllowedSteps(NamedTuple):
    """Limits of a step that an engine allows.

    Args:
        steps: The written limits.
        sequences: Most sequences of a step.
        tokens: Most tokens of a step.
    """

    steps: Sequence[Step]
    sequences: Floats
    tokens: Floats


@dataclass(frozen=True)
class Engines:
    """Engines of one kind with several limits of a step, each an entry of the arrays.

    Args:
        job: Built replicas of this kind, with any limits.
        steps: The written limits.
        limits: The limits.
        demand: The requests.
        durations: Least durations of steps.
        shortest: Tokens of the shortest request, which has to fit.
    """

    job: ServingJob
    steps: Sequence[Step]
    limits: Limits
    demand: Demand
    durations: Steps
    shortest: int

    @classmethod
    def of(cls, job: ServingJob, allowed: AllowedSteps, demand: Demand, shortest: int, durations: Steps) -> Engines:
        """The engines of a kind with the given limits, whether they fit or not; arguments as of the class."""
        sequences, tokens = allowed.sequences, allowed.tokens
        limits = Limits(sequences, tokens, cached_tokens(job.pools[-1], sequences, tokens))
        return cls(job, allowed.steps, limits, demand, durations, shortest)

    @property
    def fits(self) -> NDArray[np.bool_]:
        """By limits, whether a replica fits with its shortest request, whose last token is never cached."""
        return (self.limits.cached_tokens >= 0) & (self.shortest - 1 <= self.limits.cached_tokens)

    @cached_property
    def bounds(self) -> Bounds:
        """The bounds of an engine."""
        engines = self.job.attention_dp
        return Bounds(self.durations, self.demand, self.job.api_s, self.job.settings.drafted, engines)

    @cached_property
    def attainable(self) -> NDArray[np.bool_]:
        """By limits, whether enough requests can meet the targets if each is alone on its engine."""
        allowed, tpot_s = self.demand.allowed_misses, self.bounds.tpot_s
        found = {
            tokens: int((~self.bounds.attainable(self.bounds.ttft_s(tokens), tpot_s)).sum()) <= allowed
            for tokens in set(self.limits.tokens.tolist())
        }
        return np.array([found[tokens] for tokens in self.limits.tokens.tolist()])

    def needed(self, place: int) -> tuple[int, int, int]:
        """Fewest replicas that do both, that process prompts, and that decode, with the limit at a place."""
        both, prefill, decode = self._needed
        return int(both[place]), int(prefill[place]), int(decode[place])

    @cached_property
    def _needed(self) -> tuple[Floats, Floats, Floats]:
        bounds, limits = self.bounds, self.limits
        prefill, decode = bounds.least_replicas(limits, decodes=False), bounds.least_replicas(limits, prompts=False)
        return bounds.least_replicas(limits), prefill, decode

    @cached_property
    def served(self) -> NDArray[np.bool_]:
        """By limits, whether no request is rejected because of its length."""
        prompts, context = self.demand.prompt_tokens, self.job.max_context_tokens
        longest = float((prompts + self.demand.decode_tokens).max())
        within = not context or longest + 1 <= context
        whole = not FRAMEWORKS.get(self.job.settings.scheduler, Scheduler).cuts_prompts
        return (longest <= self.limits.cached_tokens) & within & (not whole or prompts.max() <= self.limits.tokens)


def allowed_steps(job: ServingJob, steps: Sequence[Step], reasons: Counter[str], alike: int) -> AllowedSteps:
    """The limits that the engine allows, each once; the others are counted.

    Args:
        job: Replicas with any limits.
        steps: Written limits.
        reasons: Counts the others by reason.
        alike: Number of deployments with equal limits.
    """
    assert job.config.serving is not None
    found: dict[tuple[int, int], Step] = {}
    for step in steps:
        changes = {"max_num_seqs": step.sequences, "max_num_batched_tokens": step.tokens}
        try:
            written = job.config.serving.model_copy(update=changes)
            settings = resolved_serving(written, job.engine, job.cluster, job.model)
        except SimsysError as error:
            reasons[str(error).partition("; ")[0]] += alike
            continue
        key = settings.max_num_seqs, settings.max_num_batched_tokens
        if key in found:
            reasons[SAME_LIMITS] += alike
        found.setdefault(key, step)
    sequences, tokens = np.array(list(found), dtype=np.float64).reshape(-1, 2).T
    return AllowedSteps(list(found.values()), sequences, tokens)


def built(fleet: Fleet, settings: dict[str, Any]) -> tuple[ServingJob, int] | str:
    """A scenario as `simsys check` builds it, and its shortest request in tokens; or why it breaks a rule.

    Args:
        fleet: The hardware.
        settings: Settings by dotted path.
    """
    config = changed(fleet.config, typed({**settings, **fleet.short}))
    found = Findings(unlocated({}))
    try:
        made = assemble(config, found, None, fleet.cluster)
    except SimsysError as error:
        return str(error)
    if made is None:
        return [*found.errors, *found.infeasible][0].message
    job, parts = made
    assert isinstance(job, ServingJob)
    return job, parts.shortest_request_tokens
