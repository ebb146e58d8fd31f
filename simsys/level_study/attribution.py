"""Which abstraction gives how much speed, and how much error: a scenario simulated with one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.job_run import NONE_MET
from simsys.level_study.amounts import amount, unit, with_amount
from simsys.level_study.compare import Settings
from simsys.level_study.estimate import Estimate, estimate
from simsys.level_study.measurement import Measurement, differences, measure
from simsys.level_study.variants import OCCUPIED, RUNS, attribution_variants

SECONDS = 3.0
"""CPU time of high in an attribution, about; a part of the scenario shows the same shares as all of it."""
LEAST = 3
"""Iterations or requests at least."""


def attribute(
    config: SimulationConfig, settings: Settings, seconds: float = SECONDS, variants: Sequence[str] = ()
) -> dict[str, Any]:
    """Simulate a part of a scenario with each of some variants.

    Args:
        config: The scenario.
        settings: How functions are called.
        seconds: CPU time of the part at high.
        variants: Which; by default those that say what each abstraction is worth, and occupied links where transfers
            meet.

    Returns:
        Of every variant the cost, the speed-up over the first one, and the differences from it, ready for JSON.

    Raises:
        UsageError: If several jobs share the cluster.
        SimsysError: If it cannot be carried out.
    """
    part = part_of(config, settings, seconds)
    found: dict[str, Measurement] = {
        variant: settings.call(measure, None, part, variant, 3 if variant == RUNS else 1)
        for variant in variants or attribution_variants(config)
    }
    if OCCUPIED in found and not variants and found[OCCUPIED].contention.endswith(NONE_MET):
        del found[OCCUPIED]
    first = next(iter(found.values()))
    rows = []
    for each in found.values():
        off = differences(each.figures, first.figures)
        rows.append(
            {
                **each.as_dict(),
                "cpu_speedup": first.median_cpu_s / max(each.median_cpu_s, 1e-9),
                "event_reduction": first.events / each.events,
                "differences": off,
                "largest_difference": max(map(abs, off.values())),
            }
        )
    return {"name": config.name, "amount": amount(part), "unit": unit(part), "variants": rows}


def part_of(config: SimulationConfig, settings: Settings, seconds: float) -> SimulationConfig:
    """The first part of a scenario with a given CPU time (s) at high; all of it if it needs less."""
    count = amount(config)
    few = with_amount(config, min(count, LEAST))
    medium: Measurement = settings.call(measure, None, few, RUNS)
    cost: Estimate = settings.call(estimate, None, few, medium.simulated_s, 0.5)
    fits = int(amount(few) * seconds / max(cost.run_s, 1e-9))
    return with_amount(config, max(min(count, LEAST), min(count, fits)))
