"""Checks whether an engine runs on a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from simsys.config.hardware import EngineProfile, GpuProfile
from simsys.errors import Problem

GPUS_OF: Mapping[str, str] = {
    "cuda": "NVIDIA GPUs",
    "rocm": "AMD GPUs",
    "xpu": "Intel GPUs",
    "gaudi": "Intel Gaudi",
    "tpu": "Google TPUs",
    "neuron": "AWS Trainium",
}
"""Names of the devices of a software platform."""


def unsupported(engine: EngineProfile, gpu: GpuProfile) -> str:
    """Why an engine does not run on a GPU; empty if it does, or if a profile does not state it."""
    platform, known = gpu.software_platform, engine.platforms
    if known is None or platform is None:
        return ""
    if platform.lower() not in (name.lower() for name in known):
        devices = [GPUS_OF.get(name.lower(), f"{name} devices") for name in known]
        return f"{engine.name} runs on {_listed(devices, 'and')}, not on {gpu.name} of {gpu.vendor} ({platform})"
    least, own = engine.min_compute_capability, gpu.compute_capability
    if least is not None and own is not None and own < least:
        return f"{engine.name} needs a compute capability of at least {least}; {gpu.name} has {own}"
    return ""


def alternatives(engine: EngineProfile, gpus: Iterable[GpuProfile], engines: Iterable[EngineProfile]) -> list[str]:
    """Names of engines for the same use (serving or training) that run on all given GPUs.

    Args:
        engine: The engine to replace.
        gpus: The GPUs.
        engines: The engines to choose from.
    """
    wanted, serves = tuple(gpus), engine.kv_precisions is not None
    same = (other for other in engines if (other.kv_precisions is not None) == serves)
    return [other.name for other in same if not any(unsupported(other, gpu) for gpu in wanted)]


def engine_warnings(engine: EngineProfile, gpus: Iterable[GpuProfile], path: str) -> Iterator[Problem]:
    """Warnings about an engine on some GPUs.

    Args:
        engine: The engine.
        gpus: The GPUs.
        path: The setting that names the engine.
    """
    for gpu in gpus:
        reason = unsupported(engine, gpu)
        if not reason and engine.platforms is not None and gpu.software_platform is None:
            reason = (
                f"whether {engine.name} runs on {gpu.name} of {gpu.vendor} is not known; it runs on "
                f"{', '.join(engine.platforms)}, and the profile of the GPU names no platform"
            )
        if reason:
            yield Problem(reason, path)


def doubts(gpus: Iterable[GpuProfile]) -> Iterator[Problem]:
    """Warnings about GPUs on which predictions of serving are doubtful."""
    for gpu in gpus:
        if gpu.doubt is not None:
            yield Problem(f"{gpu.name}: {' '.join(gpu.doubt.split())}", "hardware")


def _listed(names: list[str], conjunction: str) -> str:
    """Join names to a phrase.

    Example:
        >>> _listed(["a", "b", "c"], "or")
        'a, b or c'
    """
    return f" {conjunction} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
