"""Prompts wait for a larger batch: TensorRT-LLM with ``batch_wait_timeout_iters``."""

from __future__ import annotations

from collections.abc import Iterator

from simsys.build.rules.findings import Findings
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import Variant, variant
from simsys.config.serving import ServingConfig
from simsys.serving.batch_wait import BatchWait
from simsys.serving.intake import Intake

WAIT = ("serving", "batch_wait_timeout_iters")


@variant
class BatchWaitVariant(Variant):
    """Prompts wait until a batch has enough tokens, or for a number of decode steps."""

    def on(self, settings: ServingConfig) -> bool:
        """Whether a timeout is given."""
        return settings.batch_wait_timeout_iters > 0

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """The longest wait of prompts."""
        waits = setup.settings.batch_wait_timeout_iters
        yield f"prompts wait up to {waits} decode steps for a larger batch while sequences decode"

    def intake(self, pool: ServingMemory, together: list[Intake]) -> Intake:
        """The intake that delays prompts."""
        settings = pool.settings
        enough = (settings.batch_wait_max_tokens_ratio or 1.0) * settings.max_num_batched_tokens
        return BatchWait(settings.batch_wait_timeout_iters, enough)


@rule("serving.batch_wait_timeout_iters")
def ends_a_wait(parts: Parts, found: Findings) -> None:
    """Polling and waiting prompts exclude each other, and a share of tokens needs waiting prompts."""
    given = parts.config.serving
    assert given is not None
    if given.batch_wait_timeout_iters and given.scheduler_recv_interval > 1:
        message = "no engine polls and lets prompts wait; remove scheduler_recv_interval or batch_wait_timeout_iters"
        found.error(WAIT, message)
    if given.batch_wait_max_tokens_ratio is not None and not given.batch_wait_timeout_iters:
        message = "prompts do not wait; give the longest wait with batch_wait_timeout_iters, e.g. 20"
        found.error(("serving", "batch_wait_max_tokens_ratio"), message)
