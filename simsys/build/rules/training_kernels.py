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


@rule("parallelism.shared_expert_overlap")
def overlapped_shared_experts(parts: Parts, found: Findings) -> None:
    """Shared experts run beside plain all-to-alls, as Megatron Core checks (``transformer_config.py``)."""
    given, training, model = parts.config.parallelism, parts.config.training, parts.model
    if not given.shared_expert_overlap or training is None or given.ep_degree == 1:
        return
    path = ("parallelism", "shared_expert_overlap")
    if model is not None and not any("shared_experts" in modules_in(each.operators) for each in model.kinds_of_blocks):
        found.error(path, f"{model.name} has no shared experts")
    problems = {
        "expert_overlap hides all-to-alls already; write one of the two": given.expert_overlap,
        "it needs expert_dispatch all_to_all": given.expert_dispatch != "all_to_all",
        "with tensor parallelism it is not modelled; write tp_degree: 1": given.tp_degree > 1,
        "shared experts that overlap cannot be recomputed": "shared_experts" in training.activation_recompute,
    }
    for problem, holds in problems.items():
        if holds:
            found.error(path, problem)
