"""Checks whether adapters can be trained with the model and the other settings of a scenario."""

from __future__ import annotations

from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.registry import Parts, rule
from simsys.errors import UnknownNameError, UsageError
from simsys.framework import FRAMEWORKS, Schedule
from simsys.model.adapters import modules_of


@rule("training.adapter")
def trained_adapters(parts: Parts, found: Findings) -> None:
    """The model has the modules, and nothing else divides or moves its frozen weights."""
    training, path = parts.config.training, ("training", "adapter")
    assert training is not None
    if training.adapter is None:
        return
    if parts.model is not None:
        known = modules_of(parts.model)
        for module in training.adapter.target_modules:
            if module not in known and known:
                message = str(UnknownNameError(f"module of {parts.model.name}", module, known))
                found.error((*path, "target_modules"), message)
        if not known:
            found.error(path, f"{parts.model.name} has no linear layers for adapters")
    if _splits_backward(parts):
        edits = [[{"parallelism.schedule": "1f1b"}]]
        message = f"{parts.config.parallelism.schedule} puts off the gradients of weights, which are frozen"
        found.error(("parallelism", "schedule"), message, suggestion=Suggestion(edits, "write {}"))
    if training.options.get("offload", "none") != "none":
        found.error(("training", "options", "offload"), "offload with adapters is not modelled; remove one of them")


def _splits_backward(parts: Parts) -> bool:
    name = parts.config.parallelism.schedule
    try:
        return parts.config.parallelism.pp_stages > 1 and FRAMEWORKS.get(name, Schedule).splits_backward
    except UsageError:
        return False  # another rule says so
