"""The answer of a search as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from simsys.capacity.rate import ABOVE, rate_text
from simsys.report.text import number, percent, time, wrap
from simsys.report.text_table import text_table
from simsys.searches.goal import MEMORY_SHARE
from simsys.searches.result import Answer, SearchResult

SHARES = ("mfu", "hfu", "slo_attainment", MEMORY_SHARE)
NAMES = {
    "parallelism.tp_degree": "tp",
    "parallelism.cp_degree": "cp",
    "parallelism.attention_dp": "attention_dp",
    "parallelism.ep_degree": "ep",
    "parallelism.pp_stages": "pp",
    "parallelism.dp_degree": "dp",
    "parallelism.virtual_stages": "virtual",
    "parallelism.stage_layers": "stages x layers",
    "parallelism.schedule": "schedule",
    "parallelism.strategy": "strategy",
    "parallelism.sequence_parallel": "sp",
    "hardware.gpus_per_node": "GPUs/node",
    "hardware.num_nodes": "nodes",
    "serving.max_num_seqs": "seqs",
    "serving.max_num_batched_tokens": "tokens",
    "serving.kv_precision": "KV",
    "serving.disaggregated": "prefill:decode",
    "training.batch_size_per_gpu": "samples",
    "training.activation_recompute": "recompute",
}
"""Headings of settings."""
METRICS = {
    "steady_iteration_s": "iteration",
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    MEMORY_SHARE: "memory",
    "usd_per_million_tokens": "USD/M tokens",
    "mfu": "MFU",
    "usd_per_hour": "USD/h",
    "num_gpus": "GPUs",
    "p99_ttft_ms": "p99 TTFT",
    "p99_tpot_ms": "p99 TPOT",
    "slo_attainment": "meets SLO",
}
REASONS = 8


def search_text(result: SearchResult) -> str:
    """What each stage did, the table of the best layouts, the expected loss, and the reasons of the others."""
    direction = "maximize" if result.goal.largest else "minimize"
    lines = [f"{result.name}: {direction} {result.goal.metric}", *result.stages, ""]
    lines += _table(result) if result.best else ["nothing is feasible"]
    if result.best:
        lines += ["", *_of_the_best(result)]
    for note in result.notes:
        lines += wrap(note, "warning: ", "  ")
    lines += ["", f"{result.considered:,} {result.noun} considered, {result.simulated:,} simulated; the others:"]
    listed = list(result.reasons.items())
    lines += [line for reason, count in listed[:REASONS] for line in wrap(reason, f"{count:>10,}  ", " " * 12)]
    if rest := sum(count for _, count in listed[REASONS:]):
        lines.append(f"{rest:>10,}  for other reasons")
    if result.fixed:
        held = ", ".join(f"{key}: {value}" for key, value in result.fixed.items())
        lines += wrap(held, "written in the scenario, so not varied: ", "  ")
    return "\n".join(lines)


def _of_the_best(result: SearchResult) -> list[str]:
    first = result.best[0]
    settings = ", ".join(f"{key}: {_plain(value)}" for key, value in first.settings.items())
    lines = wrap(settings, "best: ", "  ")
    lines += [rate_text(first.metrics)] if ABOVE in first.metrics else []
    ties = sum(each.group == first.group for each in result.best) - 1
    if ties and result.loss is not None:
        message = f"group 1 has {ties + 1} {result.noun} within the expected loss; the simplest one is first"
        lines += wrap(message, "", "  ")
    if result.kv_headroom:
        free = f"at least {percent(result.kv_headroom)} of the KV cache is free at the fullest moment of each answer"
        lines += wrap(f"{free} (search.kv_headroom)", "", "  ")
    if result.loss is None:
        return [*lines, "expected loss against the best of these: not measured"]
    return [*lines, *wrap(result.loss.text(), "", "  ")]


def _table(result: SearchResult) -> list[str]:
    """The best candidates: settings that differ, and the most important metrics."""
    paths = [path for path in result.varying if path != "parallelism.strategy" or len(result.best) > 1]
    headings = ["group", *(NAMES.get(path, path.rpartition(".")[2]) for path in paths)]
    names = list(result.headline(result.best[0]))
    rows = [[*headings, *(METRICS.get(name, name) for name in names)]]
    rows += [_row(each, paths, names, result.headline(each)) for each in result.best]
    return text_table(rows)


def _row(answer: Answer, paths: Sequence[str], names: Sequence[str], metrics: Mapping[str, Any]) -> list[str]:
    cells = [str(answer.group), *(_cell(answer.settings.get(path)) for path in paths)]
    return [*cells, *(_figure(name, metrics.get(name)) for name in names)]


def _figure(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name.endswith("_ms"):
        return time(value / 1e3)
    if name.endswith("_s") and "_per_s" not in name:
        return time(value)
    return percent(value) if name in SHARES else number(value)


def _cell(value: Any) -> str:
    """A setting of a deployment in a table; equal neighbours of a list are counted."""
    if not isinstance(value, list):
        return _plain(value)
    runs = [(len(list(equal)), each) for each, equal in groupby(value)]
    return ", ".join(f"{count} x {each}" for count, each in runs)


def _plain(value: Any) -> str:
    """A setting of a deployment; a dash for the default of the engine, of the checkpoint, or for nothing."""
    if value is None:
        return "-"
    if isinstance(value, Mapping) and set(value) == {"prefill_replicas", "decode_replicas"}:
        return f"{value['prefill_replicas']}:{value['decode_replicas']}"
    return str(value).lower() if isinstance(value, bool) else str(value)
