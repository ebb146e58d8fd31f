"""The answer of a run as plain text: headline, table, bottlenecks, assumptions and simulation cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from simsys.analysis.bottlenecks import find_bottlenecks
from simsys.analysis.losses import largest_losses
from simsys.executors import combination
from simsys.metrics.definitions import metrics_by_name, shipped_metrics
from simsys.metrics.result import RunResult
from simsys.report.economics import training_economics
from simsys.report.listing import table
from simsys.report.serving_summary import load_text, serving_lines
from simsys.report.text import HARD_SPACE, milliseconds, number, percent, row, time, wrap
from simsys.sums import ordered_sum
from simsys.units import Dimension, pretty, pretty_memory

PART = 60
"""Letters of a part of a headline that is not broken."""
SEEN = 0.01
"""Share of an iteration above which its wait for launches is printed."""


def summary_text(result: RunResult) -> str:
    """Describe a run in lines of at most 80 columns, the headline first."""
    blocks = [
        [*headline_lines(result), *warning_lines(result)],
        *_figures(result),
        _why(result),
        ["assumptions", *(line for text in result.assumptions for line in wrap(text, "  - ", "    "))],
        _simulation(result),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _figures(result: RunResult) -> list[list[str]]:
    if result.kind == "jobs":
        return [job_table(result).split("\n"), *(headline_lines(job) for job in result.jobs)]
    figures = _training(result) if result.kind == "training" else serving_lines(result.metrics)
    return [[*figures, *_memory(result), *_own(result)]]


def warning_lines(result: RunResult) -> list[str]:
    """Warnings about the run, on lines below its headline."""
    return [line for text in result.warnings for line in wrap(text, "  warning: ", "    ")]


def headline_lines(result: RunResult) -> list[str]:
    """The headline, broken between its parts."""
    parts = headline(result).split(", ")
    return wrap(", ".join(part.replace(" ", HARD_SPACE) if len(part) <= PART else part for part in parts), "", "    ")


def headline(result: RunResult) -> str:
    """The answer in one line, however long."""
    metrics = result.metrics
    if result.kind == "jobs":
        return (
            f"{result.name}: {metrics['jobs']:,} jobs in {time(metrics['makespan_s'])}, "
            f"waiting {time(metrics['mean_wait_s'])} on average, "
            f"GPUs allocated {percent(metrics['gpu_allocation'])}{_lost_by_jobs(result)}"
        )
    if result.kind == "training":
        return (
            f"{result.name}: {time(metrics['mean_iteration_s'])} per iteration, "
            f"{number(metrics['samples_per_s'])} samples/s, MFU {percent(metrics['mfu'])}, "
            f"communication exposed {percent(metrics['exposed_communication_ratio'])}"
        )
    if not metrics["completed"]:
        parts = [
            f"{metrics[what]:,} {what}" + "".join(f": {why}" for why in list(metrics[f"{what}_by_reason"])[:1])
            for what in ("rejected", "cancelled")
            if metrics.get(what) or what == "rejected"
        ]
        return f"{result.name}: no request was completed, {', '.join(parts)}"
    p50, p99 = milliseconds(metrics["p50_ttft_ms"]), milliseconds(metrics["p99_ttft_ms"])
    latencies = f"TTFT p50 {p50} / p99 {p99}, TPOT p50 {milliseconds(metrics['p50_tpot_ms'])}"
    if metrics["overloaded"] or metrics["rejected"] or metrics.get("cancelled"):
        return f"{result.name}: {load_text(metrics)}: {latencies} of those served"
    return f"{result.name}: {load_text(metrics)}, {latencies}"


def _lost_by_jobs(result: RunResult) -> str:
    """Jobs that serve less than their offered rate."""
    lost = {
        "OVERLOADED": [job.name for job in result.jobs if job.metrics.get("overloaded")],
        "rejecting requests": [job.name for job in result.jobs if job.metrics.get("rejected")],
    }
    return "".join(f"; {what}: {', '.join(names)}" for what, names in lost.items() if names)


def job_table(result: RunResult) -> str:
    """Arrival, wait, start, end and placement of each job, as text."""
    names = ("job", "gpus", "nodes", "arrival_s", "wait_s", "started_s", "ended_s")
    columns = [result.rows[name] for name in names]
    return table([dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)])


def _size(nbytes: float) -> str:
    """Device memory, with a no-break space before the unit."""
    return pretty_memory(nbytes).replace(" ", HARD_SPACE)


def _training(result: RunResult) -> Iterator[str]:
    metrics = result.metrics
    yield from row("iteration", _iteration(metrics))
    yield from row("computation", _computation(metrics))
    exposed = f"{time(metrics['exposed_communication_s'])} exposed ({percent(metrics['exposed_communication_ratio'])})"
    yield from row("communication", f"{time(metrics['communication_s'])}, {exposed}")
    by_axis = {axis: time(seconds) for axis, seconds in result.exposed_s.items() if seconds}
    if len(by_axis) > 1:
        yield from row("  exposed", ", ".join(f"{axis} {seconds}" for axis, seconds in by_axis.items()))
    longest_s = max(result.ranks.get("bubble_s", ()), default=0.0)  # in another stage than the busiest one
    for label, what, most_s in (("bubble", "other stages", longest_s), ("idle", "other ranks", 0.0)):
        share, most = (percent(each_s / metrics["mean_iteration_s"]) for each_s in (metrics[f"{label}_s"], most_s))
        if {share, most} != {percent(0.0)}:
            longer = f"; another stage {time(most_s)} ({most})" if most not in (share, percent(0.0)) else ""
            yield from row(label, f"{time(metrics[f'{label}_s'])} waiting for {what} ({share}){longer}")
    for label, name, what in (("data", "data_s", "waiting for batches"), ("checkpoints", "checkpoint_s", "stopped")):
        if metrics[name]:
            share = percent(metrics[name] / metrics["mean_iteration_s"])
            yield from row(label, f"{time(metrics[name])} {what} per iteration ({share})")
    yield from row("throughput", ", ".join(_training_rates(metrics)))
    if "goodput" in metrics:
        yield from row("goodput", _goodput(metrics))
    compute = pretty(metrics["model_flop_per_s_per_gpu"], Dimension.FLOP_PER_SECOND)
    yield from row("compute", f"{compute} per GPU on {metrics['num_gpus']:,} GPUs, {_utilization(metrics)}")
    yield from training_economics(metrics)


def _iteration(metrics: Mapping[str, Any]) -> str:
    """The mean time, with the first and the steady iteration where they differ."""
    mean, first, steady = (time(metrics[f"{which}_iteration_s"]) for which in ("mean", "first", "steady"))
    differs = f"; first {first}, steady {steady}" if len({mean, first, steady}) > 1 else ""
    return f"{mean} (mean of {metrics['iterations']:,}{differs})"


def _computation(metrics: Mapping[str, Any]) -> str:
    """Time of the computation, and its part without kernels where that is seen."""
    launch_s = metrics.get("launch_s", 0.0)
    share = launch_s / metrics["mean_iteration_s"]
    waiting = f", {time(launch_s)} of it waiting for kernel launches ({percent(share)})" if share > SEEN else ""
    return time(metrics["compute_s"]) + waiting


def _goodput(metrics: Mapping[str, Any]) -> str:
    """Goodput under failures over weeks of training."""
    whole_s = metrics["campaign_s"]
    shares = {
        "lost work": metrics["lost_s"],
        "down": metrics["down_s"],
        "checkpoints": metrics["saving_s"],
    }
    parts = ", ".join(f"{name} {percent(seconds / whole_s)}" for name, seconds in shares.items())
    text = f"{percent(metrics['goodput'])} of {time(whole_s)}: {metrics['failures']:,} failures, {parts}"
    best = metrics.get("optimal_checkpoint_interval")
    return text + (f"; optimal checkpoint interval: {best:,} iterations (Young 1974)" if best else "")


def _utilization(metrics: Mapping[str, Any]) -> str:
    """MFU, and HFU where it differs."""
    model, hardware = percent(metrics["mfu"]), percent(metrics["hfu"])
    return f"MFU {model}" + (f", HFU {hardware}" if hardware != model else "")


def _training_rates(metrics: Mapping[str, Any]) -> Iterable[str]:
    yield f"{number(metrics['samples_per_s'])} samples/s"
    if metrics["tokens_per_s"] != metrics["samples_per_s"]:  # a sample without tokens counts as one
        yield f"{number(metrics['tokens_per_s_per_gpu'])} tokens/s per GPU"


def _memory(result: RunResult) -> list[str]:
    parts = ", ".join(f"{name.replace('_', ' ')} {_size(size)}" for name, size in result.memory_bytes.items() if size)
    held, capacity = ordered_sum(result.memory_bytes.values()), result.metrics["memory_capacity_bytes"]
    return row("memory per GPU", f"{_size(held)} of {_size(capacity)}: {parts}")


def _own(result: RunResult) -> Iterator[str]:
    """Metrics of the user's own."""
    shipped, known = shipped_metrics(), metrics_by_name()
    for name, value in result.metrics.items():
        if name not in shipped:
            unit = known[name].unit if name in known else ""
            yield from row(name, f"{number(value)}{HARD_SPACE}{unit}".rstrip() if unit else number(value))


def _why(result: RunResult) -> list[str]:
    """The largest losses of time, then the bottlenecks; each with its first remedy."""
    lines: list[str] = []
    for loss in largest_losses(result):
        lines += wrap(loss.text(), "  - ", "    ")
        lines += wrap(loss.remedy, "    > ", "      ")
    for found in find_bottlenecks(result):
        lines += wrap(f"{found.kind}: {found.evidence}", "  - ", "    ")
        lines += wrap("; ".join(found.recommendations[:1]), "    > ", "      ")
    return ["bottlenecks", *lines] if lines else []


def _simulation(result: RunResult) -> list[str]:
    wall_s = max(result.wall_s, 1e-9)
    text = (
        f"level of detail {result.lod}, contention {result.contention}: {time(result.simulated_s)} simulated in "
        f"{time(result.wall_s)}, {number(result.simulated_s / wall_s)} times faster than the real run; "
        f"{result.events:,} {'event' if result.events == 1 else 'events'}"
        f"{'; repeated work needs no events' if combination(result.lod).repeats else ''}"
    )
    return ["simulation", *wrap(text, "  ", "  ")]
