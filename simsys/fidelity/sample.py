"""Which of the measured runs a calibration fits, so that it ends within an hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, sqrt

from simsys.fidelity.case import Case, Run
from simsys.fidelity.predict import Simulations

FEWEST_RUNS = 4
"""Smallest number of sampled runs of each group, GPU and engine: with fewer, coefficients of these are not fitted."""
MORE_BATCHES = 2
MORE = {"serving": 3, "training": 2}
"""How much more densely runs of a family are sampled: they determine most coefficients, and depend on few each."""
SHORT_S = {"training": 0.5}
USUAL_S = 0.1
"""Expected processor time (s) of a simulation below which a run is preferred, by family."""
VERY_SHORT_S = 0.03
"""Expected processor time (s) below which simulations cost so little that twice as many runs are sampled."""
LONGEST_S = 1.0
"""Expected processor time (s) above which a run is not sampled."""


def sample(cases: Sequence[Case], of_hundred: int, simulations: Simulations) -> list[Case]:
    """Return all cases of a sample of the runs of each group, GPU and engine.

    The runs are evenly spaced in the order of the table among those whose simulations are short. Where too few are
    short, they are those with the shortest simulations.

    Args:
        cases: All cases.
        of_hundred: Sampled runs of a hundred; the sample grows with the square root of the number of runs, from
            `FEWEST_RUNS`. Runs of some families are sampled `MORE` times as densely, of a static batch, which cost
            little, `MORE_BATCHES` times, and twice as densely where enough simulations are very short.
        simulations: Estimates the processor time of runs.
    """
    groups: dict[tuple[str, ...], dict[Run, list[Case]]] = {}
    for case in cases:
        if case.run is not None:
            load = case.tags.get("load_kind", "")
            groups.setdefault((case.family, case.group, *case.setting, load), {}).setdefault(case.run, []).append(case)
    cpu_s = simulations.expected_cpu_s(cases)
    chosen: list[Case] = []
    for (family, *_, load), runs in groups.items():
        more = MORE.get(family, 1) * (MORE_BATCHES if load == "static_batch" else 1)
        count = min(len(runs), max(FEWEST_RUNS, ceil(more * of_hundred * sqrt(len(runs) / 100.0))))
        if sum(0.0 < cpu_s[run] < VERY_SHORT_S for run in runs) >= 2 * count:
            count *= 2
        for run in _chosen(list(runs), count, family, cpu_s):
            chosen += runs[run]
    return chosen


def not_looked_at(cases: Sequence[Case], of_hundred: int, simulations: Simulations) -> list[Case]:
    """Return the cases that `calibrate` leaves out of its fit with this sampling rate (`sample`)."""
    seen = {id(case) for case in sample(cases, of_hundred, simulations)}
    return [case for case in cases if id(case) not in seen]


def _chosen(runs: Sequence[Run], count: int, family: str, cpu_s: Mapping[Run, float]) -> list[Run]:
    """Return some runs of one group; runs without an expected time cannot be simulated, and come last."""
    short = [run for run in runs if 0.0 < cpu_s[run] < SHORT_S.get(family, USUAL_S)]
    if len(short) >= count:
        return [short[index * len(short) // count] for index in range(count)]
    possible = [run for run in runs if cpu_s[run] < LONGEST_S]
    return sorted(possible, key=lambda run: (not cpu_s[run], cpu_s[run]))[:count]
