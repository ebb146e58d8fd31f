"""The page of one or several runs."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from typing import Any

from simsys.contents.run import TABLES, RunContent
from simsys.html.analysis import analysis_blocks
from simsys.html.blocks import Block, Figure, Figures, Items, Listing, Page, Section, Table
from simsys.html.run_pictures import pictures
from simsys.metrics.definitions import metrics_by_name
from simsys.report.metric_text import name_of, value_of
from simsys.report.summary import headline
from simsys.units import pretty_memory
from simsys.version import __version__

MANY_ROWS = 60
"""Tables with more rows are shown some rows at a time."""
HEADLINES = {
    "training": ("mean_iteration_s", "samples_per_s", "tokens_per_s", "mfu", "exposed_communication_ratio"),
    "serving": (
        "served_requests_per_s",
        "p50_ttft_ms",
        "p99_ttft_ms",
        "p50_tpot_ms",
        "output_throughput",
        "usd_per_million_tokens",
    ),
    "jobs": ("jobs", "makespan_s", "mean_wait_s", "gpu_allocation"),
}
"""Metrics that come first, if a result has them."""
EXPECTED = "Expected error"
ERRORS_OF = {
    **dict.fromkeys(("mean_iteration_s", "samples_per_s", "tokens_per_s", "mfu"), ""),
    **dict.fromkeys(("p50_ttft_ms", "p99_ttft_ms"), " of TTFT"),
    "p50_tpot_ms": " of TPOT",
    "output_throughput": " of throughput",
}
"""How the expected error of a metric begins, after `EXPECTED`; that of an iteration is also that of its rates."""
COSTS = re.compile(r"usd_|energy_|co2_|gpu_power|time_to_train|time_per_epoch")
"""Metrics of money, energy and CO2, by the beginning of their names."""


def run_page(runs: Sequence[RunContent]) -> Page:
    """Lay out the results of runs.

    Args:
        runs: At least one.
    """
    if len(runs) == 1:
        return _page_of_one(runs[0])
    warnings = [f"{run.name}: {text}" for run in runs for text in run.result.get("warnings", ())]
    sections = [Section("Runs", list(_overviews(runs)))]
    for run in runs:
        first, *others = _sections(run)
        lead = Items([headline(run.as_result())])
        sections.append(Section(run.name, [lead, *first.blocks]))
        sections += [Section(each.heading, each.blocks, level=3) for each in others]
    return Page(f"{len(runs)} runs", f"{len(runs)} simulated scenarios", warnings, sections, _footer(runs))


def _page_of_one(run: RunContent) -> Page:
    warnings = [str(text) for text in run.result.get("warnings", ())]
    return Page(run.name, headline(run.as_result()), warnings, list(_sections(run)), _footer([run]))


def _sections(run: RunContent) -> Iterator[Section]:
    yield Section("Headline", [_figures(run)])
    yield Section("What it costs", list(_costs(run)))
    yield Section("Where the time goes", list(pictures(run)))
    yield Section("Bottlenecks", list(_bottlenecks(run)))
    yield Section("Tables", [_table(name, columns) for name, columns in run.tables.items() if _is_shown(name)])
    yield Section("All metrics", [_all_metrics(run.metrics)])
    yield Section("Assumptions", list(_assumptions(run)))
    yield Section("How to repeat it", list(_repetition(run)))


def _is_shown(table: str) -> bool:
    """Whether a page has a table, which may be of one of several jobs; others are for pictures."""
    return table.rpartition("_")[2] in TABLES and table != "timeline"


def _figures(run: RunContent) -> Figures:
    metrics = run.metrics
    figures = [
        Figure(name_of(name), value_of(name, metrics[name]), _error(run, name))
        for name in HEADLINES[run.kind]
        if metrics.get(name) is not None
    ]
    if "peak_memory_bytes" in metrics:
        peak, capacity = metrics["peak_memory_bytes"], metrics["memory_capacity_bytes"]
        figures.append(Figure("memory of the fullest GPU", pretty_memory(peak), f"of {pretty_memory(capacity)}"))
    return Figures(figures)


def _error(run: RunContent, metric: str) -> str:
    """The error to expect of a metric in its regime, or that it is not known."""
    texts = [str(text) for text in run.result.get("assumptions", ()) if str(text).startswith(EXPECTED)]
    if metric in ERRORS_OF:
        begin = EXPECTED + ERRORS_OF[metric]
        for text in texts:
            if text.startswith(begin) and text[len(begin) :][:2] in (" (", ", ", ": "):
                return "expected error" + text[len(begin) :]
    of_all = next((text for text in texts if text.startswith(f"{EXPECTED}: ")), "")
    return f"expected error{of_all.removeprefix(EXPECTED)}" if of_all else "expected error not measured"


def _costs(run: RunContent) -> Iterator[Block]:
    """Money, energy and CO2; those of which the prices are known."""
    names = [name for name, value in run.metrics.items() if COSTS.match(name) and value is not None]
    if names:
        yield Figures([Figure(name_of(name), value_of(name, run.metrics[name])) for name in names])


def _bottlenecks(run: RunContent) -> Iterator[Block]:
    """Losses and what may help; if the run was analyzed, with remedies that were simulated."""
    findings = run.findings
    losses = findings.get("losses", ())
    if losses:
        rows = [
            [f"{loss['job']}: {loss['name']}" if loss.get("job") else loss["name"], loss["seconds"], loss["share"],
             loss["whole"], loss["level"], loss["remedy"]]
            for loss in losses
        ]  # fmt: skip
        yield Table("Largest losses", ["loss", "seconds", "share", "of", "level", "remedy"], rows)
    if analysis := findings.get("analysis"):
        yield from analysis_blocks(analysis)
        return
    for found in findings.get("bottlenecks", ()):
        yield Items([f"{found['kind']}: {found['evidence']}", *found.get("recommendations", ())])
    if run.command and findings.get("bottlenecks"):
        yield Items(["These remedies have not been tried; 'simsys report --analyze' simulates remedies."])


def _table(name: str, columns: Mapping[str, Sequence[Any]]) -> Table:
    rows = list(zip(*columns.values(), strict=True))
    return Table(name, list(columns), rows, data=len(rows) > MANY_ROWS)


def _all_metrics(metrics: Mapping[str, Any]) -> Table:
    known = metrics_by_name()
    rows = [
        [name, value if isinstance(value, int | float) else str(value), known[name].unit, known[name].meaning]
        for name, value in metrics.items()
        if name in known and value is not None
    ]
    return Table("Metrics", ["metric", "value", "unit", "meaning"], rows)


def _overviews(runs: Sequence[RunContent]) -> Iterator[Table]:
    """The headline metrics of all runs of a kind beside each other."""
    known = metrics_by_name()
    for kind, names in HEADLINES.items():
        rows = [[run.name, *(run.metrics.get(name) for name in names)] for run in runs if run.kind == kind]
        if rows:
            heads = [f"{name} ({known[name].unit})" if known[name].unit else name for name in names]
            yield Table(f"Headline metrics: {kind}", ["run", *heads], rows, data=len(rows) > MANY_ROWS)


def _assumptions(run: RunContent) -> Iterator[Block]:
    texts = [str(text) for text in run.result.get("assumptions", ())]
    if texts:
        yield Items(texts)
    defaults = run.result.get("defaults") or {}
    if defaults:
        rows = [[name, str(each["value"]), each["from"]] for name, each in defaults.items()]
        yield Table("Defaults of the engine", ["setting", "value", "from"], rows)


def _repetition(run: RunContent) -> Iterator[Block]:
    if run.command:
        yield Listing("Command", run.command)
    if run.settings:
        yield Listing("Configuration with all defaults", run.settings, folded=True)
    profiles = run.result.get("profiles") or {}
    digests = {**profiles, **({"configuration": sha256(run.settings.encode()).hexdigest()} if run.settings else {})}
    if digests:
        rows = [[name, digest] for name, digest in digests.items()]
        yield Table("Digests of what the figures depend on", ["of", "digest"], rows)
    yield Table("Versions", ["of", "version"], list(_versions(run)))


def _versions(run: RunContent) -> Iterator[list[str]]:
    """What wrote the results, and what has read them."""
    yield ["simsys that simulated", str(run.result.get("simsys_version", ""))]
    yield ["format of the results", str(run.result.get("schema_version", ""))]
    yield ["simsys of this page", __version__]
    yield ["Python of this page", platform.python_version()]
    for package in ("simpy", "numpy"):
        yield [f"{package} of this page", version(package)]


def _footer(runs: Sequence[RunContent]) -> list[str]:
    versions = sorted({str(run.result.get("simsys_version", "")) for run in runs})
    levels = sorted({str(run.result.get("level_of_detail", "")) for run in runs})
    return [f"simsys {', '.join(versions)}; level of detail: {', '.join(levels)}"]
