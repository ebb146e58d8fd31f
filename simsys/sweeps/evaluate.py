"""Simulates one point in a worker process, and turns whatever happens into a row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.build.job import Built
from simsys.check import judged
from simsys.config.experiment import SimulationConfig
from simsys.config.loader import validate
from simsys.errors import (
    InfeasibleError,
    Problem,
    SimsysError,
)
from simsys.metrics.result import RunResult
from simsys.simulation import simulate
from simsys.sweeps.plan import with_settings
from simsys.user_modules import with_place

OK, UNFIT, REFUSED, FAILED, CRASHED, TIMED_OUT = "ok", "does not fit", "refused", "failed", "crashed", "timed out"
TRANSIENT = (CRASHED, TIMED_OUT)
"""States that may differ in another run, since they depend on the machine."""
EXPECTED = "Expected error"
"""How assumptions about errors begin."""
_SCALARS = (float, int, type(None))


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a point.

    Args:
        key: The point's key.
        state: ``ok``, or why it has no metrics: ``does not fit`` its hardware, ``refused`` as a configuration that
            breaks a rule, ``failed`` with an error, ``crashed`` with its process, or ``timed out``.
        reason: The reason in words; empty if the state is ``ok``.
        figures: JSON text with metrics, warnings and expected errors; empty if there are none.
    """

    key: str
    state: str
    reason: str = ""
    figures: str = ""


def row_of(key: str, base: Mapping[str, Any], values: Mapping[str, Any], folder: Path) -> Row:
    """Check and simulate a point.

    Args:
        key: The point's key.
        base: The settings of the scenario.
        values: The settings of the point that differ, by path.
        folder: The folder from which relative paths start.
    """
    try:
        config = validate(with_settings(base, values), SimulationConfig).located_in(folder)
        verdict = judged(config)
        if verdict.errors:
            return Row(key, REFUSED, _joined(verdict.errors))
        if verdict.built is None:
            return Row(key, UNFIT, _joined(verdict.infeasible))
        figures = figures_of(simulate(config, built=verdict.built), verdict.built)
        return Row(key, OK, figures=json.dumps(figures, separators=(",", ":"), allow_nan=False))
    except InfeasibleError as error:
        return Row(key, UNFIT, _line(str(error)))
    except SimsysError as error:
        return Row(key, REFUSED if error.exit_code == 2 else FAILED, _line(str(error)))
    except MemoryError:
        return Row(key, CRASHED, "out of memory")
    except Exception as error:  # a bug, or one in a module of the user: the other points are worth having
        return Row(key, FAILED, _line(with_place(error)))


def figures_of(result: RunResult, built: Built) -> dict[str, Any]:
    """The parts of a result that a row keeps; a function of the scenario alone.

    Args:
        result: The result.
        built: The scenario as it was simulated.
    """
    expected = [line.removeprefix(EXPECTED) for line in result.assumptions if line.startswith(EXPECTED)]
    metrics = {name: value for name, value in result.metrics.items() if isinstance(value, _SCALARS)}
    return {
        "kind": result.kind,
        "metrics": metrics,
        "warnings": list(result.warnings),
        "expected_error": "; ".join(line.removeprefix(":").strip() for line in expected),
        "num_gpus": result.world_size or result.metrics.get("num_gpus"),
        **({} if "usd_per_hour" in metrics else _rent(result, built)),
    }


def _rent(result: RunResult, built: Built) -> dict[str, float]:
    """The price of the GPUs of a shared cluster; empty if it is not known."""
    usd_per_hour = built.cluster.usd_per_gpu_hour * built.cluster.num_gpus
    return {"usd_per_hour": usd_per_hour} if result.kind == "jobs" and usd_per_hour else {}


def _joined(problems: Iterable[Problem]) -> str:
    return _line("; ".join(": ".join(filter(None, (each.path, each.message))) for each in problems))


def _line(text: str) -> str:
    return " ".join(text.split())
