"""Differences between a result of ``vllm bench serve`` and the experiment that predicts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.config.lengths import FixedLength
from simsys.config.workload import WorkloadConfig
from simsys.errors import SimsysError
from simsys.fidelity.tables.model_names import database_name
from simsys.fidelity.tables.vllm_result import BenchResult, read_result

TOLERANCE = 0.01
"""Relative difference of a rate or a mean length that is ignored."""
DEGREES = {"tp_degree": ("tensor_parallel_size", "tp", "tp_size"), "pp_stages": ("pipeline_parallel_size", "pp")}
"""Degrees of an experiment, and their names in ``--metadata``, which vLLM copies into the result."""


def vllm_warnings(path: Path, scenario: Mapping[str, Any]) -> list[str]:
    """Return the differences between a result and an experiment, one sentence each.

    The requests of a result replace the workload of the experiment, so another rate or length does not change the
    prediction, but another model does.

    Args:
        path: The result.
        scenario: The experiment as nested mappings.

    Raises:
        UsageError: The file cannot be read, or is not such a result.
    """
    result = read_result(path)
    found = [*_model(result, scenario), *_degrees(result, scenario), *_left_out(result)]
    given = _workload(result, scenario)
    if given is not None:
        found += [*_traffic(result, given), *_lengths(result, given)]
    return [f"{path}: {text}" for text in found]


def _model(result: BenchResult, scenario: Mapping[str, Any]) -> Iterator[str]:
    given = scenario.get("model") or {}
    measured, predicted = result.found.get("model_id"), given.get("name") or given.get("huggingface")
    if not isinstance(measured, str) or not isinstance(predicted, str) or measured == predicted:
        return
    names = database_name(measured), database_name(predicted)
    if names[0] is None or names[1] is None:
        yield f"measured on model {measured!r}, predicted on {predicted!r}: it is not known whether these are the same"
    elif names[0] != names[1]:
        yield f"measured on model {measured!r}, predicted on {predicted!r}, another model"


def _degrees(result: BenchResult, scenario: Mapping[str, Any]) -> Iterator[str]:
    given = scenario.get("parallelism") or {}
    for degree, keys in DEGREES.items():
        stated = next((result.found[key] for key in keys if result.found.get(key) is not None), None)
        if stated is not None and str(stated) != str(given.get(degree, 1)):
            yield f"measured with {degree} {stated}, predicted with {given.get(degree, 1)}"


def _left_out(result: BenchResult) -> Iterator[str]:
    """Successful requests that are not replayed."""
    if result.detailed and result.unreadable:
        why = Counter(result.unreadable.values()).most_common(1)[0][0]
        yield f"{len(result.unreadable)} of {len(result.found['input_lens'])} requests cannot be replayed ({why})"


def _workload(result: BenchResult, scenario: Mapping[str, Any]) -> WorkloadConfig | None:
    """Return the workload of the experiment; None if there is none or it is invalid."""
    if not scenario.get("workload"):
        return None
    try:
        return SimulationConfig.model_validate(scenario).workload
    except (SimsysError, ValueError):
        return None  # the prediction says what is wrong


def _traffic(result: BenchResult, given: WorkloadConfig) -> Iterator[str]:
    """Differences in the rate or the concurrency."""
    if given.arrivals.kind == "trace":
        return
    rate, most = result.found.get("request_rate"), result.found.get("max_concurrency")
    own, own_most = getattr(given.arrivals, "rate", None), getattr(given.arrivals, "concurrency", None)
    closed = isinstance(most, int) and most > 0
    if closed and own_most != most:
        yield f"measured with {most} requests at once, the experiment has {_arrivals(given)}; predicted as measured"
    elif not closed and isinstance(rate, int | float) and (own is None or _differ(float(rate), own)):
        yield f"measured at {rate:g} req/s, the experiment has {_arrivals(given)}; predicted as measured"
    elif not closed and rate == "inf" and given.arrivals.kind != "all_at_once":
        yield f"measured with all requests at once, the experiment has {_arrivals(given)}; predicted as measured"


def _arrivals(given: WorkloadConfig) -> str:
    rate, most = getattr(given.arrivals, "rate", None), getattr(given.arrivals, "concurrency", None)
    if isinstance(rate, int | float):
        return f"{rate:g} req/s"
    return f"{most} at once" if most is not None else f"arrivals of kind {given.arrivals.kind}"


def _lengths(result: BenchResult, given: WorkloadConfig) -> Iterator[str]:
    """Differences in mean lengths, if the experiment has fixed lengths."""
    totals = {"prompt_tokens": "total_input_tokens", "output_tokens": "total_output_tokens"}
    for name, key in totals.items():
        length, mean = getattr(given, name), result.found[key] / result.found["completed"]
        if isinstance(length, FixedLength) and _differ(mean, length.tokens):
            yield (
                f"measured with {mean:.4g} {name.replace('_', ' ')} on average, the experiment has {length.tokens}; "
                "predicted as measured"
            )


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > TOLERANCE * max(abs(one), abs(other))
