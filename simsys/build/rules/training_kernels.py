"""Checks whether the kernels of a training step can do what its settings say."""

from __future__ import annotations

from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.registry import Parts, rule
from simsys.build.training_setup import fuses
from simsys.parallel.recomputed_modules import LACKING, modules_in


@rule("training.attention_block")
def skipped_blocks(parts: Parts, found: Findings) -> None:
    """Only fused attention skips blocks."""
    training = parts.config.training
    assert training is not None
    if training.attention_block > 1 and not fuses(training.attention):
        message = f"attention_block has no effect with attention {training.attention}, which computes all pairs"
        suggestion = Suggestion([[{"training.attention_block": 1}]], "write {}")
        found.error(("training", "attention_block"), message, suggestion=suggestion)


@rule("training.activation_recompute")
def recomputed_modules(parts: Parts, found: Findings) -> None:
    """A model has the modules that are to be recomputed; ``half`` and ``full`` are for any model."""
    training, model, path = parts.config.training, parts.model, ("training", "activation_recompute")
    assert training is not None
    modules = training.activation_recompute
    if isinstance(modules, str) or model is None:
        return
    if model.family == "encoder_decoder":
        found.error(path, f"modules are recomputed in decoders or encoders, not in both of {model.name}; write full")
        return
    own = {module for block in model.kinds_of_blocks for module in modules_in(block.operators)}
    for module in modules:
        if module not in own:
            has = ", ".join(each for each in LACKING if each in own)
            message = f"{module} cannot be recomputed: {model.name} has no {LACKING[module]}"
            found.error(path, f"{message}; it has {has}" if has else f"{message}; write full")
