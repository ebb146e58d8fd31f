"""Cost, energy and CO2 of a run as lines of its answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simsys.report.text import HARD_SPACE, number, row, time

JOULES_PER_KWH = 3.6e6


def serving_economics(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Cost and energy of serving, per token."""
    if "usd_per_hour" in metrics:
        tokens, outputs = metrics["usd_per_million_tokens"], metrics["usd_per_million_output_tokens"]
        yield from row(
            "cost",
            f"{number(tokens)}{HARD_SPACE}$ per million tokens, {number(outputs)}{HARD_SPACE}$ per million output "
            f"tokens, at {number(metrics['usd_per_hour'])}{HARD_SPACE}$/h",
        )
    tokens, outputs = metrics["energy_per_token_j"], metrics["energy_per_output_token_j"]
    yield from row(
        "energy",
        f"{number(tokens)}{HARD_SPACE}J per token, {number(outputs)}{HARD_SPACE}J per output token, at "
        f"{number(metrics['gpu_power_watt'])}{HARD_SPACE}W{_co2(metrics)}",
    )


def training_economics(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Cost and energy of training, per iteration and token, and of a whole training and an epoch if known."""
    if "energy_per_iteration_j" not in metrics:  # of an earlier version
        return
    if "usd_per_hour" in metrics:
        each, million = metrics["usd_per_iteration"], metrics["usd_per_million_tokens"]
        yield from row(
            "cost",
            f"{number(each)}{HARD_SPACE}$ per iteration, {number(million)}{HARD_SPACE}$ per million tokens, at "
            f"{number(metrics['usd_per_hour'])}{HARD_SPACE}$/h",
        )
    yield from row(
        "energy",
        f"{number(metrics['energy_per_token_j'])}{HARD_SPACE}J per token, at "
        f"{number(metrics['gpu_power_watt'])}{HARD_SPACE}W{_co2(metrics)}",
    )
    if "time_to_train_s" in metrics:
        yield from row("whole training", _span(metrics, "iterations_to_train", "time_to_train_s", "{}_to_train{}"))
    if "epoch_s" in metrics:
        yield from row("epoch", _span(metrics, "iterations_per_epoch", "epoch_s", "{}_per_epoch{}"))


def _co2(metrics: Mapping[str, Any]) -> str:
    kg = metrics.get("co2_per_million_tokens_kg")
    return "" if kg is None else f"; {number(kg)}{HARD_SPACE}kg CO2 per million tokens"


def _span(metrics: Mapping[str, Any], iterations: str, seconds: str, form: str) -> str:
    """Time, price, energy and CO2 of many iterations."""
    text = f"{metrics[iterations]:,} iterations"
    if metrics[seconds] is None:
        return f"{text}, which failures never let it complete"
    usd, joules, kg = (metrics.get(form.format(*parts)) for parts in (("usd", ""), ("energy", "_j"), ("co2", "_kg")))
    parts = [] if usd is None else [f"{number(usd)}{HARD_SPACE}$"]
    parts += [] if joules is None else [f"{number(joules / JOULES_PER_KWH)}{HARD_SPACE}kWh"]
    return ", ".join([f"{text} in {time(metrics[seconds])}", *parts, f"{number(kg)}{HARD_SPACE}kg CO2"])
