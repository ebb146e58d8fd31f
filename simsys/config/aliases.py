"""Aliases of settings of the cluster: older names, and bare numbers with an implied unit."""

from __future__ import annotations

from typing import Any

from simsys.config.base import invalid


def take(data: dict[str, Any], alias: str, key: str) -> Any:
    """Remove and return an alias' value; refuse it beside the key that it stands for."""
    value = data.pop(alias)
    if data.get(key) is not None:
        raise invalid(f"{alias} is another name of {key}; give one of them")
    return value


def quantity(value: Any, unit: str) -> str:
    """A bare number of an alias with the unit that the alias implies."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(f"a number is expected here (in {unit}), not {value!r}")
    return f"{value} {unit}"


def changed_gpu(base: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """A GPU with what the aliases ``compute_tflops`` and ``memory_gb`` say of it."""
    own = {"extends": base} if isinstance(base, str) else base
    if not isinstance(own, dict):
        raise invalid("compute_tflops and memory_gb change a named GPU; add gpu_model, e.g. gpu_model: H100")
    twice = next((key for key in changes if key in own), None)
    if twice is not None:
        alias = {"peak": "compute_tflops", "memory": "memory_gb"}[twice]
        raise invalid(f"{alias} is another name of gpu.{twice}; give one of them")
    return {**own, **changes}
