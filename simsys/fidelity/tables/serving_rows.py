"""Rows of measured serving runs.

A row states engine, model, GPU, parallelism, precision, load, lengths and one measured value of the whole deployment.
Rows that differ only in load, lengths, metric and the spelling of their model form a curve, which is a fold. Lengths
hold for all requests, or are their means, unless ``notes`` say that they are drawn, as in ``lengths random in
[0.8L,L]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, prod
from typing import Any

from simsys.fidelity.case import POOLS, Case, Unsupported
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.fidelity.tables.deployments import corrected, deployment, lengths, requests_of
from simsys.fidelity.tables.model_names import database_name, served_name
from simsys.fidelity.tables.serving_engines import engine_setup, release_of
from simsys.fidelity.tables.serving_layout import hardware_of_deployment, parallelism_of, stated_settings
from simsys.fidelity.tables.serving_load import LOADS, Load
from simsys.fidelity.tables.serving_pools import batch_of, dispatch_of, hardware_of_pools, is_disaggregated, pools_of
from simsys.fidelity.tables.serving_precision import precisions
from simsys.fidelity.tables.table import Row, Table
from simsys.fidelity.tables.words import serving_words
from simsys.model.model import Model
from simsys.model.model_db import load_model

COLUMNS = (
    *("id", "source_key", "engine", "model", "gpu", "tp", "precision", "load_kind", "load_value"),
    *("input_len", "output_len", "metric", "value"),
)
LATENCIES = {"ttft_ms": "ttft_ms", "tpot_ms": "tpot_ms", "itl_ms": "itl_ms", "e2e_s": "e2el_ms"}
"""Ends of the names of figures by metric; the statistic comes first."""
RATES = {
    "output_tokens_per_s": "output_throughput",
    "requests_per_s": "request_throughput",
    "tokens_per_s_total": "total_token_throughput",
}
_TAGS = ("engine", "engine_version", "gpu", "model", "load_kind", "precision", "tp")
OF_A_PASS = ("prefill_ms", "decode_step_ms", "prefill_tokens_per_s")
"""Metrics that only a static batch has."""
METRICS = {"e2e_s": "s", "prefill_ms": "ms", "decode_step_ms": "ms", "ttft_ms": "ms", "tpot_ms": "ms", "itl_ms": "ms"}
"""Metrics with their units; all other metrics are rates per second."""


@dataclass(frozen=True)
class _Figure:
    """The figure of a run that a metric is compared with, and its factor."""

    name: str
    scale: float = 1.0


def cases(table: Table) -> list[Case]:
    """Return the cases of a table."""
    return [_case(corrected(row)) for row in table.rows]


def _case(row: Row) -> Case:
    metric = row.text("metric")
    if metric not in (*METRICS, *RATES, *OF_A_PASS):
        row.wrong("metric", f"{metric!r} is no metric; known: {', '.join((*METRICS, *RATES, OF_A_PASS[2]))}")
    run, figure, reason = None, _Figure(""), ""
    measured = row.number("value")
    try:
        if row.text("flag").startswith("suspect"):
            raise Unsupported("the table marks the value as suspect")
        load = _load(row)
        figure = _figure(row, load)
        run = ScenarioRun.of(_scenario(row, load))
    except Unsupported as why:
        reason = str(why)
    model = database_name(row.text("model")) or row.text("model")
    curve = ":".join(row.text(name) for name in ("engine", "gpu", "tp", "pp", "ep", "precision", "load_kind"))
    return Case(
        id=row.text("id"),
        family="serving",
        group=row.text("source_key") or "serving",
        metric=metric,
        unit=METRICS.get(metric, "1/s"),
        measured=measured,
        tags={name: row.text(name) for name in _TAGS} | ({"deployment": POOLS} if is_disaggregated(row) else {}),
        fold=f"{row.text('source_key')}:{model}:{curve}",
        run=run,
        figure=figure.name,
        scale=figure.scale,
        reason=reason,
    )


def _load(row: Row) -> Load:
    kind = row.text("load_kind")
    if kind not in LOADS:
        row.wrong("load_kind", f"{kind!r} is no kind of load; known: {', '.join(LOADS)}")
    for name, what in (("input_len", "prompts"), ("output_len", "answers")):
        if not row.text(name):
            raise Unsupported(f"how long {what} are is not stated")
    number = row.number if kind == "request_rate" else row.whole
    unknown = kind == "offline_max" and row.text("load_value").lower() in ("", "inf")
    value = 0.0 if unknown else number("load_value")
    only_prompts = row.text("metric") in ("prefill_ms", "prefill_tokens_per_s")
    least, most = lengths(row)
    prompts, answers = (round(most * row.length(name)) for name in ("input_len", "output_len"))
    requests = requests_of(row) if kind == "concurrency" else 0
    return Load(kind, value, prompts, 1 if only_prompts else answers, least / most, requests)


def _figure(row: Row, load: Load) -> _Figure:
    metric = row.text("metric")
    if metric in RATES:
        return _Figure(RATES[metric])
    if metric in OF_A_PASS and load.kind != "static_batch":
        raise Unsupported(f"{metric} is a metric of a static batch")
    if metric == "prefill_ms":
        return _Figure("duration", 1e3)
    if metric == "decode_step_ms":
        return _Figure("mean_tpot_ms")
    if metric == "prefill_tokens_per_s":
        return _Figure("total_token_throughput", load.input_tokens / (load.input_tokens + 1))
    if metric == "e2e_s" and load.kind == "static_batch":
        return _Figure("duration")
    said = row.text("stat").casefold()
    words = serving_words()
    if said not in (*words.statistics, *words.unstated):
        raise Unsupported(f"statistic {said!r} of a latency; known: {', '.join(words.statistics)}")
    stat = words.statistics.get(said, "mean")
    return _Figure(f"{stat}_{LATENCIES.get(metric, metric)}", 1e-3 if metric == "e2e_s" else 1.0)


def _scenario(row: Row, load: Load) -> dict[str, Any]:
    split = is_disaggregated(row)
    version = "" if split else row.text("engine_version")  # with pools, it may be the version of what routes to them
    setup = engine_setup(row.text("engine"), version)
    release = release_of(setup.profile, version)
    stored = precisions(row.text("precision"), model=row.text("model"), cache_as_weights=setup.cache_as_weights)
    model = _model(row.text("model"), stored["precision"])
    longest = model.max_context_tokens or inf
    if load.input_tokens + load.output_tokens > longest and not setup.beyond_context:
        raise Unsupported(f"prompt and answer exceed the model's context of {longest} tokens")
    pools, deployed = pools_of(row) if split else {}, deployment(row)
    parallelism = {} if split else parallelism_of(row)
    if prod(parallelism.get(key, 1) for key in ("tp_degree", "pp_stages")) > 1 and not setup.tensor_parallel:
        raise Unsupported(f"{row.text('engine')} has several GPUs work one after another, which is not modelled")
    return {
        "simulation": {"lod": "medium"},
        "model": {"name": model.name},
        "hardware": hardware_of_pools(row, pools) if split else hardware_of_deployment(row, parallelism),
        "parallelism": parallelism,
        "serving": {
            "engine": setup.profile,
            **({} if release is None else {"engine_release": release}),
            **stored,
            **load.limits(setup, longest),
            **deployed,
            **stated_settings(row, drafts_known="speculative" in deployed),
            **(_pools(row, setup.profile, pools, model.experts, deployed) if split else {}),
        },
        "workload": dict(load.workload(parallelism.get("dp_degree", 1))),
    }


def _pools(row: Row, engine: str, pools: dict[str, int], experts: int, deployed: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of separate pools; clients read the stream of the decode replica, whose first token is their first."""
    dispatch = dispatch_of(row, engine, pools, experts)
    drafts = deployed.get("speculative", {}).get("draft_tokens", 0)
    found: dict[str, Any] = {"disaggregated": {**pools, "first_token": "decode"}, **batch_of(row, drafts)}
    return found | ({"experts": dispatch} if dispatch else {})


def _model(name: str, precision: str) -> Model:
    found = served_name(name, precision)
    if found is None:
        raise Unsupported(f"model {name} is not in the model DB")
    return load_model(found)
