"""Checks whether the kernels of a training step can do what its settings say."""

from __future__ import annotations

from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.registry import Parts, rule
from simsys.build.training_setup import fuses


@rule("training.attention_block")
def skipped_blocks(parts: Parts, found: Findings) -> None:
    """Only fused attention skips blocks."""
    training = parts.config.training
    assert training is not None
    if training.attention_block > 1 and not fuses(training.attention):
        message = f"attention_block has no effect with attention {training.attention}, which computes all pairs"
        suggestion = Suggestion([[{"training.attention_block": 1}]], "write {}")
        found.error(("training", "attention_block"), message, suggestion=suggestion)
