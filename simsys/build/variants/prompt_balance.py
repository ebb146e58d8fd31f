"""Data-parallel ranks process prompts together: TensorRT-LLM with ``attention_dp_config``."""

from __future__ import annotations

from collections.abc import Iterator

from simsys.build.rules.findings import Findings
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import Variant, attends_in_parallel, variant, variants_of
from simsys.config.serving import ServingConfig
from simsys.serving.intake import Intake
from simsys.serving.prompt_balance import PromptBalance

TIMEOUT = ("serving", "attention_dp_timeout_iters")


@variant
class PromptBalanceVariant(Variant):
    """Prompts wait until every data-parallel rank of the replica has one, or for a number of decode steps."""

    def on(self, settings: ServingConfig) -> bool:
        """Whether a timeout is given."""
        return settings.attention_dp_timeout_iters > 0

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """The longest wait of prompts."""
        waits = setup.settings.attention_dp_timeout_iters
        yield f"prompts wait up to {waits} decode steps until each data-parallel rank has one, while all decode"

    def intake(self, pool: ServingMemory, together: list[Intake]) -> Intake | None:
        """The intake that delays prompts."""
        if pool.attention_dp == 1:
            return None
        settings = pool.settings
        return PromptBalance(settings.attention_dp_timeout_iters, settings.max_num_batched_tokens, together)


@rule("serving.attention_dp_timeout_iters")
def waits_for_other_ranks(parts: Parts, found: Findings) -> None:
    """There are other ranks to wait for, and one reason to wait."""
    given = parts.config.serving
    assert given is not None
    if not given.attention_dp_timeout_iters:
        return
    if not attends_in_parallel(parts.config):
        found.error(TIMEOUT, "prompts wait for those of other data-parallel ranks; write parallelism.attention_dp")
    elif sum(type(each).intake is not Variant.intake for each in variants_of(given)) > 1:
        found.error(TIMEOUT, "no engine delays prompts in two ways; remove the other setting that lets prompts wait")
