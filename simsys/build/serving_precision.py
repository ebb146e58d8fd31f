"""The precision of weights, activations and the KV cache in serving, from the settings or the checkpoint."""

from __future__ import annotations

from simsys.config.serving import ServingConfig
from simsys.errors import Problem, UsageError
from simsys.model.model import Model
from simsys.model.precision import EXPERTS_ONLY, WEIGHT_ONLY, checkpoint_precision, half_of, serving_precision
from simsys.model.quantization import Quantization
from simsys.model.work import Precision
from simsys.platform.device_spec import DeviceSpec

DEFAULT = "bf16"
PATH = "serving.precision"


def weights_of(settings: ServingConfig, model: Model) -> str:
    """The precision of the weights of linear layers, a key of `simsys.model.precision.WEIGHT_BYTES`.

    Raises:
        UsageError: The storage of the checkpoint's weights is not modelled, and the settings give no precision.
    """
    if settings.precision is not None:
        return settings.precision
    if model.quantization is None:
        return DEFAULT
    if model.quantization.problem:
        raise UsageError(f"{model.quantization.problem}; write precision: bf16, or the nearest precision")
    return model.quantization.weights


def followed(settings: ServingConfig, model: Model) -> Quantization | None:
    """The storage of weights in the checkpoint, unless the settings override it."""
    published = model.quantization
    if published is None or published.problem or settings.precision not in (None, published.weights):
        return None
    return published


def kv_precision(settings: ServingConfig, model: Model, half: str) -> str:
    """The precision of the KV cache.

    It is the given precision, else the precision in the checkpoint, else the precision of the weights unless only
    weights are quantised. Checkpoints in NVFP4 state a cache in fp8; there is no cache with scales per block.
    """
    if settings.kv_precision is not None:
        return settings.kv_precision
    published = followed(settings, model)
    if published is not None:
        return published.kv or half
    weights = weights_of(settings, model)
    if weights in WEIGHT_ONLY:
        return half
    return "fp8" if weights in ("fp4", "fp8_block") else weights


def precision_of(settings: ServingConfig, spec: DeviceSpec, model: Model) -> Precision:
    """The precision of weights, activations and the KV cache.

    Raises:
        UsageError: As `weights_of`.
    """
    peaks, wanted = spec.peak_flop_per_s, weights_of(settings, model)
    half = half_of(peaks)
    kv, published = kv_precision(settings, model, half), followed(settings, model)
    if published is not None:
        return checkpoint_precision(published, kv, half, peaks)
    return serving_precision(
        wanted,
        kv,
        half,
        computes=wanted != "fp4" or wanted in peaks,  # weights are then only stored in fewer bits
        experts_only=model.experts > 1 and wanted in EXPERTS_ONLY,
    )


def precision_warnings(settings: ServingConfig, model: Model) -> list[Problem]:
    """Warnings about settings that contradict the checkpoint."""
    published = model.quantization
    if published is None or settings.precision is None or settings.precision == published.weights:
        return []
    stored = published.text if published.problem else f"{published.weights} ({published.text})"
    return [
        Problem(f"weights are simulated in {settings.precision}, but the checkpoint stores them in {stored}", PATH)
    ]
