"""Checks whether the GPU computes in the given or default precision of the scenario."""

from __future__ import annotations

from typing import get_args

from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.model import source_path
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_precision import DEFAULT, weights_of
from simsys.build.training import training_precision
from simsys.config.document import KeyPath
from simsys.config.serving import ServingPrecision
from simsys.config.training import TrainingPrecision
from simsys.config.validation import dotted
from simsys.model.precision import WEIGHT_ONLY
from simsys.platform.device_spec import DeviceSpec


@rule("training.precision")
def training_arithmetic(parts: Parts, found: Findings) -> None:
    """The GPU computes in the precision of training."""
    assert parts.config.training is not None
    if parts.spec is None:
        return
    wanted = training_precision(parts.config.training, parts.spec).compute
    if wanted not in parts.spec.peak_flop_per_s:
        _has_no(wanted, parts.spec, get_args(TrainingPrecision), ("training", "precision"), found)


@rule("serving.precision")
def serving_arithmetic(parts: Parts, found: Findings) -> None:
    """The GPU computes in the precision of the weights, unless weights are only stored in fewer bits."""
    settings, spec, model = parts.config.serving, parts.spec, parts.model
    assert settings is not None
    if spec is None:
        return
    path: KeyPath = ("serving", "precision")
    if settings.precision is None and model is not None and model.quantization is not None:
        path = source_path(parts.config.model)
        known = found.attempt(path, lambda: weights_of(settings, model))
        if known is None or "bf16" in spec.peak_flop_per_s:  # such weights need no other arithmetic
            return
        wanted = known
    else:
        wanted = settings.precision or DEFAULT
    if wanted not in spec.peak_flop_per_s and wanted not in (*WEIGHT_ONLY, "fp4"):
        usable = tuple(name for name in get_args(ServingPrecision) if name not in WEIGHT_ONLY)
        _has_no(wanted, spec, usable, path, found)


def _has_no(wanted: str, spec: DeviceSpec, known: tuple[str, ...], path: KeyPath, found: Findings) -> None:
    """Record that a GPU does not compute in a precision, with a proposal."""
    peaks = spec.peak_flop_per_s
    usable = ", ".join(sorted(name for name in peaks if name in known))
    message = f"{spec.name} does not compute in {wanted}; it has {usable}"
    halves = [name for name in ("bf16", "fp16", "fp32") if name in peaks][:1]
    weights = ["int8"] if path[0] != "training" and wanted in ("fp8", "fp8_block") else []
    groups = [[{dotted(path): name}] for name in (*weights, *halves)]
    found.error(path, message, suggestion=Suggestion(groups, "write {}"))
