"""Speculative decoding: tokens are drafted cheaply and verified in one pass (Leviathan et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from operator import mul
from typing import Any, cast

from simsys.build.model import build_model
from simsys.build.rules.findings import Findings
from simsys.build.rules.parallelism import split_problem
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import Variant, attends_in_parallel, variant
from simsys.config.experiment import SimulationConfig
from simsys.config.model import ModelConfig
from simsys.config.serving import ServingConfig
from simsys.config.serving_options import SpeculativeConfig
from simsys.executors import costed_model
from simsys.executors.executor import Executor
from simsys.framework import FRAMEWORKS, DecodePhase
from simsys.model.acceptance import accepted_shares, measured_lengths, rate_of_length
from simsys.model.model import Model
from simsys.model.speculation import Speculation, own_layers
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.sequences import Sequences
from simsys.starter import Drafting
from simsys.teams import DraftingTeam, LockStepTeam, Team

DRAFTED, DRAFT = ("serving", "speculative"), ("serving", "speculative", "draft_model")
DRAFT_LAYERS = ("serving", "speculative", "draft_layers")


@variant
class Speculative(Variant):
    """A team that drafts tokens, and a decode phase that draws the number of accepted tokens."""

    place = DRAFT
    regime = "speculative decoding"

    def on(self, settings: ServingConfig) -> bool:
        """Whether speculative decoding is given."""
        return settings.speculative is not None

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """The number of drafted tokens, the drafter, and the accepted share."""
        drafted = setup.settings.speculative
        assert drafted is not None
        cost = f"at {(drafted.draft_cost or 0.0) * 1e6:.4g} us each"
        by = f"by {setup.draft_model.name}" if setup.draft_model else cost
        yield (
            f"speculative decoding: {drafted.draft_tokens} tokens drafted {by}, acceptance {_acceptance(drafted)}: "
            f"{speculation(setup).tokens_per_step:.4g} tokens per step on average, drawn at random for each sequence "
            "and step"
        )

    def draft_model(self, config: SimulationConfig, model: Model) -> Model | None:
        """The draft model: a model of the model DB, or additional layers of the model itself."""
        drafted = config.serving.speculative if config.serving is not None and model.caches else None
        if drafted is not None and drafted.draft_model is not None:
            named = build_model(ModelConfig(name=drafted.draft_model), config.folder)
            return costed_model(named, config.simulation.lod)
        return own_layers(model, drafted.draft_layers) if drafted is not None and drafted.draft_layers else None

    def team(self, setup: ServingMemory, pool: ServingMemory, replica: int, executor: Executor) -> Team:
        """A team of ranks that draft before each step."""
        drafted, group = setup.settings.speculative, pool.teams(replica)[0]
        draft_s = (drafted.draft_cost if drafted is not None else None) or 0.0
        if pool.attention_dp > 1:
            drafting = Drafting(pool.plan, speculation(setup), pool.draft, draft_s)
            return LockStepTeam(group, pool.plan, executor, pool.lockstep(replica), drafting)
        return DraftingTeam(
            group, pool.plan, executor, speculation=speculation(setup), draft=pool.draft, draft_s=draft_s
        )

    def decode_phase(self, setup: ServingMemory, sequences: Sequences, kv: PagedKVCache) -> DecodePhase:
        """The decode phase with several tokens of a sequence in one step."""
        module: Any = FRAMEWORKS.get("speculative_decode", DecodePhase)
        return cast(DecodePhase, module(sequences, kv, speculation(setup), setup.config.simulation.seed))


def speculation(setup: ServingMemory) -> Speculation:
    """The numbers of drafted and accepted tokens."""
    drafted = setup.settings.speculative
    assert drafted is not None
    return accepting(drafted)


def accepting(drafted: SpeculativeConfig) -> Speculation:
    """The speculation with the given or measured acceptance.

    Raises:
        UsageError: If nothing was measured under this name, or with this number of tokens.
    """
    tokens, rate = drafted.draft_tokens, drafted.acceptance_rate
    if drafted.acceptance_of is not None:
        lengths = measured_lengths(drafted.acceptance_of)
        return Speculation(tokens, shares=accepted_shares(lengths, tokens))
    if drafted.acceptance_length is not None:
        return Speculation(tokens, rate_of_length(drafted.acceptance_length, tokens))
    if isinstance(rate, tuple):
        return Speculation(tokens, shares=tuple(accumulate(rate, mul)))
    assert rate is not None
    return Speculation(tokens, rate)


def _acceptance(drafted: SpeculativeConfig) -> str:
    """How acceptance was given, as text."""
    rate = drafted.acceptance_rate
    if drafted.acceptance_of is not None:
        return f"as measured of {drafted.acceptance_of}"
    if drafted.acceptance_length is not None:
        return f"length {drafted.acceptance_length:g}"
    return f"rate {rate:g}" if isinstance(rate, float) else f"rates {', '.join(f'{each:g}' for each in rate or ())}"


@rule("serving.speculative")
def drafts(parts: Parts, found: Findings) -> None:
    """Speculative decoding excludes another decode module and pipeline parallelism."""
    assert parts.config.serving is not None
    given, model = parts.config.serving.speculative, parts.model
    if given is None:
        return
    if parts.config.parallelism.pp_stages > 1:
        message = "speculative decoding with pipeline parallelism is not available; remove one of them"
        found.error(DRAFTED, message, key=True)
    if parts.config.serving.decode not in ("llm_decode", "speculative_decode"):
        own = parts.config.serving.decode
        found.error(DRAFTED, f"speculative decoding is a decode module itself; remove decode: {own}")
    found.attempt((*DRAFTED, "acceptance_of"), lambda: accepting(given))
    if given.draft_layers is not None and model is not None and given.draft_layers >= model.num_layers:
        found.error(DRAFT_LAYERS, f"must be less than the {model.num_layers} layers of {model.name}")


@rule("serving.speculative")
def draft_model(parts: Parts, found: Findings) -> None:
    """A draft model is a smaller language model that the ranks of the model can divide."""
    assert parts.config.serving is not None
    given, draft, model = parts.config.serving.speculative, parts.draft, parts.model
    if given is None or given.draft_model is None or draft is None:
        return
    tensor = parts.config.parallelism.tp_degree
    problem = split_problem(draft, tensor) if tensor > 1 else ""
    if not draft.kv_elements_per_token:
        problem = f"{draft.name} has no KV cache and cannot draft; use a small decoder such as GPT2-Small"
    elif model is not None and draft.parameters >= model.parameters:
        problem = f"{draft.name} is no smaller than {model.name}, for which it drafts; use a smaller model"
    elif draft.experts > 1 and attends_in_parallel(parts.config):
        problem = f"{draft.name} has experts of its own, which the ranks of attention_dp do not share"
        problem += "; draft with a model without experts, or with draft_layers"
    if problem:
        found.error(DRAFT, problem)
