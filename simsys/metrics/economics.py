"""Cost, energy and CO2 of serving and of training, from the metrics of a run and the rates of its GPUs.

Cost is rent: every GPU is paid for the whole run, or while its replica is on. Energy is that of the GPUs by the linear
model of Fan, Weber and Barroso (2007, "Power Provisioning for a Warehouse-sized Computer"): power is ``idle + (peak -
idle) * busy share``. Peak is the thermal design power, a cap and not an average, so the energy is an upper estimate;
the idle share is assumed. The power usage effectiveness (PUE) adds the data centre, and CO2 is energy times the carbon
intensity of the grid, as in Lacoste et al. 2019 ("Quantifying the Carbon Emissions of Machine Learning").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

PRICED = ("usd_per_iteration", "usd_per_million_tokens")
PER_WORK = ("energy_per_iteration_j", "energy_per_token_j", "co2_per_iteration_kg", "co2_per_million_tokens_kg")


class Names(NamedTuple):
    """Names of the metrics of training on a number of tokens."""

    iterations: str
    seconds: str
    usd: str
    joules: str
    co2_kg: str


RUN = Names("iterations_to_train", "time_to_train_s", "usd_to_train", "energy_to_train_j", "co2_to_train_kg")
EPOCH = Names("iterations_per_epoch", "epoch_s", "usd_per_epoch", "energy_per_epoch_j", "co2_per_epoch_kg")
OF_RUN, OF_EPOCH = RUN[1:], EPOCH[1:]
MILLION = 1e6
SECONDS_PER_HOUR = 3600.0
JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Rates:
    """What the GPUs of a run cost and draw, all of them together.

    Args:
        usd_per_hour: Price; 0 if unknown.
        tdp_watt: Thermal design power.
        idle_share: Power of an idle GPU over its thermal design power.
        pue: Power usage effectiveness of the data centre.
        g_per_kwh: Carbon intensity of the electricity.
    """

    usd_per_hour: float
    tdp_watt: float
    idle_share: float
    pue: float = 1.0
    g_per_kwh: float = 0.0

    def watt(self, busy: float, on: float = 1.0) -> float:
        """Mean power of the GPUs (W), without the data centre.

        Args:
            busy: Share of the time that they are busy, 0 to 1.
            on: Share of the time that they are on.
        """
        return self.tdp_watt * (self.idle_share * on + (1.0 - self.idle_share) * busy)

    def joules(self, seconds: float, busy_s: float) -> float:
        """Energy (J) with the data centre's share, for GPUs that are busy for a part of some seconds."""
        return self.pue * self.tdp_watt * (self.idle_share * seconds + (1.0 - self.idle_share) * busy_s)

    def co2_kg(self, joules: float) -> float:
        """CO2 (kg) of an amount of energy."""
        return joules / JOULES_PER_KWH * self.g_per_kwh / 1e3

    def usd(self, seconds: float) -> float:
        """Rent for a time."""
        return self.usd_per_hour / SECONDS_PER_HOUR * seconds


def serving_economics(metrics: Mapping[str, Any], rates: Rates, busy: float, on: float = 1.0) -> dict[str, Any]:
    """Money, energy and CO2 per token; None where nothing was served, and no prices if they are not known.

    Args:
        metrics: The run's.
        rates: Of all GPUs.
        busy: Share of the time that they are busy, 0 to 1.
        on: Share of the time that they are on, and paid for.
    """
    tokens, outputs = metrics["total_token_throughput"], metrics["output_throughput"]
    usd_per_hour, watt = rates.usd_per_hour * on, rates.watt(busy, on)
    usd_per_s, kg_per_s = usd_per_hour / SECONDS_PER_HOUR, rates.co2_kg(rates.pue * watt)
    prices = {
        "usd_per_hour": usd_per_hour,
        "usd_per_million_tokens": _per(usd_per_s * MILLION, tokens),
        "usd_per_million_output_tokens": _per(usd_per_s * MILLION, outputs),
    }
    return {
        **(prices if usd_per_hour else {}),
        "gpu_power_watt": watt,
        "energy_per_token_j": _per(rates.pue * watt, tokens),
        "energy_per_output_token_j": _per(rates.pue * watt, outputs),
        "co2_per_million_tokens_kg": _per(kg_per_s * MILLION, tokens),
    }


def _per(amount_per_s: float, tokens_per_s: float) -> float | None:
    return amount_per_s / tokens_per_s if tokens_per_s else None


@dataclass(frozen=True)
class Course:
    """The course of a long training, from its iteration without a checkpoint.

    Args:
        iteration_s: Time of an iteration.
        busy_s: Time that a GPU computes in it, the mean of all.
        tokens: Tokens of an iteration on all GPUs; samples of a model without sequences.
        interval: Iterations between checkpoints; 0 for none.
        stop_s: Further time that a checkpoint takes.
        goodput: Time of kept iterations over the whole time, under failures and checkpoints; None without failures.
        repeated: Iterations that failures destroy, for each that is kept.
    """

    iteration_s: float
    busy_s: float
    tokens: float
    interval: int = 0
    stop_s: float = 0.0
    goodput: float | None = None
    repeated: float = 0.0

    def iterations(self, tokens: float) -> int:
        """Iterations to train on some tokens."""
        return max(1, ceil(tokens / self.tokens * (1.0 - 1e-12)))

    def seconds(self, iterations: int) -> float | None:
        """Time of some iterations with checkpoints, failures and repeated work; None if failures leave no progress."""
        work_s = iterations * self.iteration_s
        if self.goodput is not None:
            return work_s / self.goodput if self.goodput else None
        return work_s + (iterations // self.interval * self.stop_s if self.interval else 0.0)


def training_economics(
    metrics: Mapping[str, Any],
    rates: Rates,
    busy: float,
    course: Course,
    tokens: float | None = None,
    epoch_tokens: float | None = None,
) -> dict[str, Any]:
    """Money, energy and CO2 of an iteration, and with targets of a whole run and of an epoch.

    Args:
        metrics: The run's.
        rates: Of all GPUs.
        busy: Share of the time that they are busy, 0 to 1.
        course: The course of a long training.
        tokens: Tokens of a whole run; None if unknown.
        epoch_tokens: Tokens of an epoch; None if unknown.
    """
    iteration_s, tokens_per_s = metrics["mean_iteration_s"], metrics["tokens_per_s"]
    joules, per_million = rates.joules(iteration_s, busy * iteration_s), MILLION / (tokens_per_s * iteration_s)
    prices = {
        "usd_per_hour": rates.usd_per_hour,
        "usd_per_iteration": rates.usd(iteration_s),
        "usd_per_million_tokens": rates.usd(iteration_s) * per_million,
    }
    return {
        **(prices if rates.usd_per_hour else {}),
        "gpu_power_watt": rates.watt(busy),
        "energy_per_iteration_j": joules,
        "energy_per_token_j": joules * per_million / MILLION,
        "co2_per_iteration_kg": rates.co2_kg(joules),
        "co2_per_million_tokens_kg": rates.co2_kg(joules) * per_million,
        **(_of_tokens(rates, course, tokens, RUN) if tokens else {}),
        **(_of_tokens(rates, course, epoch_tokens, EPOCH) if epoch_tokens else {}),
    }


def _of_tokens(rates: Rates, course: Course, tokens: float, names: Names) -> dict[str, Any]:
    """Iterations, time, rent, energy and CO2 of training on some tokens, under these names."""
    iterations, seconds, joules = _span(rates, course, tokens)
    return {
        names.iterations: iterations,
        names.seconds: seconds,
        **({names.usd: None if seconds is None else rates.usd(seconds)} if rates.usd_per_hour else {}),
        names.joules: joules,
        names.co2_kg: None if joules is None else rates.co2_kg(joules),
    }


def _span(rates: Rates, course: Course, tokens: float) -> tuple[int, float | None, float | None]:
    """Iterations, time and energy of training on some tokens; GPUs idle while training stops or is down."""
    iterations = course.iterations(tokens)
    seconds = course.seconds(iterations)
    if seconds is None:
        return iterations, None, None
    return iterations, seconds, rates.joules(seconds, course.busy_s * iterations * (1.0 + course.repeated))
