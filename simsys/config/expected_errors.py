"""The expected error of a run: the error on similar measured runs, or a note that there are none.

`simsys calibrate` writes, of rows that its fits had not seen, the errors by GPU (`FILENAME`), and by engine, regime
and load (`BY_REGIME`); the latter is also written by ``simsys validate --expected-errors``. The first lines of each
file name its rows. A regime is a name of `simsys.build.regimes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simsys.config.document import unchanged_document
from simsys.data import data_folders

FILENAME = "expected_errors.yaml"
BY_REGIME = "expected_errors_by_regime.yaml"
ALL = "all"
NAMES = {
    "iteration_s": ("iterations", "iterations"),
    "ttft_ms": ("TTFT", "closed loops"),
    "tpot_ms": ("TPOT", "closed loops"),
    "output_tokens_per_s": ("throughput", "values"),
    "e2e_s": ("the time of a static batch", "batches"),
}
"""By metric of a table: a description of the metric, and the kind of runs it was measured on."""
AT_ONCE, LOOPS = ("output_tokens_per_s", "e2e_s"), ("ttft_ms", "tpot_ms")
"""Metrics reported for runs in which all requests arrive at once, and for all other serving runs."""
LIGHTLY_LOADED, LOADED, QUEUEING = "lightly loaded", "loaded", "queueing"
LIGHT_SHARE, QUEUE_SHARE = 0.1, 0.8
"""Limits between them, of the mean time in the queue over the mean TTFT. On measured closed loops, errors of TTFT grow
from one to the next, most of all the largest ones; the number of users or the batch size predicts them less well."""
WORSE = 1.25
"""A regime is named in addition to the GPU if the median error of its measurements is larger by this factor."""


@dataclass(frozen=True)
class Subject:
    """A run for which the expected error is wanted.

    Args:
        kind: ``training`` or ``serving``.
        gpu: Name of the GPU's profile.
        engine: Name of the engine's profile.
        regimes: The regimes of the run (`simsys.build.regimes`).
        at_once: Whether all requests arrive at once.
    """

    kind: str
    gpu: str
    engine: str
    regimes: Sequence[str] = ()
    at_once: bool = False

    @property
    def metrics(self) -> Sequence[str]:
        """The metrics for which errors are reported."""
        return ("iteration_s",) if self.kind == "training" else AT_ONCE if self.at_once else LOOPS


def load_of(metrics: Mapping[str, Any]) -> str | None:
    """The load class of a serving run, by the share of the TTFT that requests wait in the queue; None without a TTFT.

    Args:
        metrics: The metrics of the run.
    """
    queue_ms, ttft_ms = metrics.get("mean_queue_ms"), metrics.get("mean_ttft_ms")
    if queue_ms is None or not ttft_ms:
        return None
    share = queue_ms / ttft_ms
    return LIGHTLY_LOADED if share < LIGHT_SHARE else LOADED if share < QUEUE_SHARE else QUEUEING


def expected_errors(subject: Subject, metrics: Mapping[str, Any]) -> list[str]:
    """The expected errors of a run, one line for each metric, or a note on the missing measurements.

    Args:
        subject: The run.
        metrics: Its figures, which determine its load.
    """
    facets = _facets(subject)
    if missing := lacking(subject):
        return [f"Expected error: no measurements of {', '.join(missing)}"]
    return [
        line for metric in subject.metrics for line in _of_metric(metric, subject.gpu, facets, subject.kind, metrics)
    ]


def lacking(subject: Subject) -> list[str]:
    """The GPU, engine and regimes of a run of which there are no measurements."""
    by_gpu = _known(FILENAME).get(subject.kind, {})
    return [
        name
        for name, found in {f"GPU {subject.gpu}": by_gpu.get(subject.gpu), **_facets(subject)}.items()
        if not found
    ]


def value_error(subject: Subject, metric: str, metrics: Mapping[str, Any]) -> Mapping[str, Any] | str:
    """The error of a metric of a run, or a note on the missing measurements.

    An error has ``rows``, ``median``, ``nine_of_ten`` and, in newer files, ``band``.

    Args:
        subject: The run.
        metric: A metric of a table, such as ``tpot_ms``.
        metrics: The figures of the run, which determine its load.
    """
    if missing := lacking(subject):
        return f"no measurements of {', '.join(missing)}"
    if metric == "ttft_ms" and metrics.get("overloaded"):
        return "no measurements of overloaded runs"
    found, _, _ = _own(metric, subject.gpu, subject.kind, metrics)
    facets = _facets(subject)
    missing = [_lacking(facet, known.get(metric, {})) for facet, known in facets.items() if not _told(known, metric)]
    if missing or found is None:
        return ", ".join(missing) or f"no measurements of {metric} on GPU {subject.gpu}"
    return found


def _facets(subject: Subject) -> Mapping[str, Mapping[str, Any]]:
    """The errors on the engine and in each regime of a run; empty where nothing was measured."""
    known = _known(BY_REGIME).get(subject.kind, {})
    engines, regimes = known.get("engines", {}), known.get("regimes", {})
    return {f"engine {subject.engine}": engines.get(subject.engine, {})} | {
        name: regimes.get(name, {}) for name in subject.regimes
    }


def _own(metric: str, gpu: str, kind: str, metrics: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str, str]:
    """The error of a metric on a GPU, of TTFT at the load of the run; with its source and the load."""
    load = load_of(metrics) if metric == "ttft_ms" else None
    if load is not None:
        return *_of_load(metric, gpu, _known(BY_REGIME).get(kind, {}).get("loads", {}).get(load, {})), load
    return _known(FILENAME).get(kind, {}).get(gpu, {}).get(metric), gpu, ""


def _of_metric(
    metric: str, gpu: str, facets: Mapping[str, Mapping[str, Any]], kind: str, metrics: Mapping[str, Any]
) -> Iterator[str]:
    """The error of a metric on the GPU of the run, and in its worst-predicted regime, if there is one."""
    name, what = NAMES[metric]
    found, where, load = _own(metric, gpu, kind, metrics)
    if metric == "ttft_ms":
        if not load:
            return
        if metrics.get("overloaded"):
            yield f"Expected error of {name}: no measurements of overloaded runs, whose {name} grows with the run"
            return
        name = f"{name}, {load}"
    missing = [_lacking(facet, known.get(metric, {})) for facet, known in facets.items() if not _told(known, metric)]
    if missing or found is None:
        yield f"Expected error of {name}: {', '.join(missing) or f'no measurements of GPU {gpu}'}"
        return
    of = "" if metric == "iteration_s" else f" of {name}"
    yield f"Expected error{of} {_errors(found, what, where)}"
    of = of.partition(",")[0]
    worst = max(facets, key=lambda facet: float(facets[facet][metric]["median"]))
    if facets[worst][metric]["median"] > WORSE * found["median"]:
        yield f"Expected error{of} with {worst} {_errors(facets[worst][metric], what, 'all GPUs')}"


def _of_load(metric: str, gpu: str, loads: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
    """The error on a GPU, or else on all GPUs, with the name of its source."""
    for name, where in ((gpu, gpu), (ALL, "all GPUs")):
        if _told(loads.get(name, {}), metric):
            return loads[name][metric], where
    return None, gpu


def _told(known: Mapping[str, Any], metric: str) -> bool:
    """Whether there are enough measurements of a metric for an error."""
    return "median" in known.get(metric, {})


def _lacking(facet: str, found: Mapping[str, Any]) -> str:
    """A note that there are no measurements, or too few for an error."""
    rows = found.get("rows", 0)
    return f"only {rows} measurements of {facet}" if rows else f"no measurements of {facet}"


def _errors(found: Mapping[str, Any], what: str, where: str) -> str:
    band = ""
    if "band" in found:  # of files since 2026-11-26
        low, high = (f"{100 * end:+.0f}" for end in found["band"])
        band = f", 80 % band {low} to {high} %"
    return (
        f"(n = {found['rows']:,} measured {what}, {where}): "
        f"median {100 * found['median']:.0f} %, p90 {100 * found['nine_of_ten']:.0f} %{band}"
    )


def _known(filename: str) -> Mapping[str, Any]:
    """The content of this file in the first folder that has it."""
    for folder in data_folders("hardware_profiles"):
        path = folder / "fits" / filename
        if path.is_file():
            return unchanged_document(path).data
    return {}
