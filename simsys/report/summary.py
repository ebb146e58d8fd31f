"""The answer of a run as plain text: a headline, a table, what holds it up, what it rests on, and what it took."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from simsys.analysis.bottlenecks import find_bottlenecks
from simsys.metrics.result import RunResult
from simsys.report.listing import table
from simsys.units import GIB, MIB, Dimension, pretty

WIDTH = 80
LABEL = 16
HARD_SPACE = "\xa0"
"""Where no line is broken; written as a space."""
_COLUMNS = ("mean", "p50", "p90", "p99")
_TIMES = {"TTFT": "ttft", "TPOT": "tpot", "ITL": "itl", "E2E": "e2el"}


def summary_text(result: RunResult) -> str:
    """Describe a run: the headline on the first line, then lines of at most 80 columns."""
    blocks = [
        [headline(result)],
        *_figures(result),
        _why(result),
        ["assumptions", *(line for text in result.assumptions for line in _wrap(text, "  - ", "    "))],
        _simulation(result),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _figures(result: RunResult) -> list[list[str]]:
    if result.kind == "jobs":
        return [job_table(result).split("\n"), *([headline(job)] for job in result.jobs)]
    figures = _training if result.kind == "training" else _serving
    return [[*figures(result), *_memory(result)]]


def headline(result: RunResult) -> str:
    """The answer in one line."""
    metrics = result.metrics
    if result.kind == "jobs":
        return (
            f"{result.name}: {metrics['jobs']:,} jobs in {_time(metrics['makespan_s'])}, "
            f"waiting {_time(metrics['mean_wait_s'])} on average, "
            f"GPUs allocated {_percent(metrics['gpu_allocation'])}"
        )
    if result.kind == "training":
        return (
            f"{result.name}: {_time(metrics['mean_iteration_s'])} per iteration, "
            f"{number(metrics['samples_per_s'])} samples/s, MFU {_percent(metrics['mfu'])}, "
            f"communication exposed {_percent(metrics['communication_ratio'])}"
        )
    if not metrics["completed"]:
        return f"{result.name}: no request was completed, {metrics['failed']:,} rejected"
    return (
        f"{result.name}: {number(metrics['request_throughput'])} req/s, TTFT p50 {_ms(metrics['p50_ttft_ms'])} / "
        f"p99 {_ms(metrics['p99_ttft_ms'])}, TPOT p50 {_ms(metrics['p50_tpot_ms'])}"
    )


def job_table(result: RunResult) -> str:
    """When each job came, waited and ran, and where, as text."""
    names = ("job", "gpus", "nodes", "arrival_s", "wait_s", "started_s", "ended_s")
    columns = [result.rows[name] for name in names]
    return table([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])


def number(value: float | None) -> str:
    """Write a figure with three significant digits and no exponent; a dash if there is none.

    Example:
        >>> number(49847.2), number(5.8455), number(None)
        ('49,800', '5.85', '-')
    """
    return "-" if value is None else f"{Decimal(f'{value:.2e}'):,f}"


def _time(seconds: float) -> str:
    return pretty(seconds, Dimension.SECONDS)


def _ms(value: float | None) -> str:
    return "-" if value is None else _time(value / 1e3)


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _size(nbytes: float) -> str:
    """Device memory, in the binary units that it is sold in."""
    return f"{number(nbytes / GIB)}{HARD_SPACE}GiB" if nbytes >= GIB / 10 else f"{number(nbytes / MIB)}{HARD_SPACE}MiB"


def _wrap(text: str, first: str, rest: str) -> list[str]:
    """Break text into lines; a word too long for a line, such as a path, stays whole."""
    wrapper = textwrap.TextWrapper(WIDTH, first, rest, break_long_words=False, break_on_hyphens=False)
    return [line.replace(HARD_SPACE, " ") for line in wrapper.wrap(text)]


def _row(label: str, text: str) -> list[str]:
    return _wrap(text, f"  {label:<{LABEL}}", " " * (LABEL + 2))


def _serving(result: RunResult) -> Iterator[str]:
    metrics = result.metrics
    yield f"  {'ms':<{LABEL}}" + "".join(f"{column:>12}" for column in _COLUMNS)
    for label, name in _TIMES.items():
        values = (metrics[f"{column}_{name}_ms"] for column in _COLUMNS)
        yield f"  {label:<{LABEL}}" + "".join(f"{number(value):>12}" for value in values)
    yield ""
    yield from _row("throughput", _throughput(metrics))
    if metrics["request_goodput"] is not None:
        yield from _row("goodput", f"{number(metrics['request_goodput'])} req/s met the targets")
    yield from _row("requests", _requests(result))


def _throughput(metrics: Mapping[str, Any]) -> str:
    return (
        f"{number(metrics['request_throughput'])} req/s, {number(metrics['output_throughput'])} output tokens/s, "
        f"{number(metrics['total_token_throughput'])} tokens/s with prompts"
    )


def _requests(result: RunResult) -> str:
    metrics = result.metrics
    text = (
        f"{metrics['completed']:,} completed, {metrics['failed']:,} rejected, {metrics['preemptions']:,} preemptions"
    )
    reasons = Counter(reason for reason in result.rows["reason"] if reason)
    why = "; ".join(f"{count:,} x {reason}" for reason, count in reasons.most_common())
    return f"{text} (rejected: {why})" if why else text


def _training(result: RunResult) -> Iterator[str]:
    metrics = result.metrics
    yield from _row("iteration", _iteration(metrics))
    yield from _row("computation", _time(metrics["compute_s"]))
    exposed = f"{_time(metrics['exposed_communication_s'])} exposed ({_percent(metrics['communication_ratio'])})"
    yield from _row("communication", f"{_time(metrics['communication_s'])}, {exposed}")
    by_axis = {axis: _time(seconds) for axis, seconds in result.exposed_s.items() if seconds}
    if len(by_axis) > 1:
        yield from _row("  exposed", ", ".join(f"{axis} {seconds}" for axis, seconds in by_axis.items()))
    for label, what in (("bubble", "waiting for other stages"), ("idle", "waiting for other ranks")):
        share = _percent(metrics[f"{label}_s"] / metrics["mean_iteration_s"])
        if share != _percent(0.0):
            yield from _row(label, f"{_time(metrics[f'{label}_s'])} {what} ({share})")
    for label, name, what in (("data", "data_s", "waiting for batches"), ("checkpoints", "checkpoint_s", "stopped")):
        if metrics[name]:
            share = _percent(metrics[name] / metrics["mean_iteration_s"])
            yield from _row(label, f"{_time(metrics[name])} {what} per iteration ({share})")
    yield from _row("throughput", ", ".join(_training_rates(metrics)))
    if "goodput" in metrics:
        yield from _row("goodput", _goodput(metrics))
    compute = pretty(metrics["model_flop_per_s_per_gpu"], Dimension.FLOP_PER_SECOND)
    yield from _row("compute", f"{compute} per GPU on {metrics['num_gpus']:,} GPUs, {_utilization(metrics)}")


def _iteration(metrics: Mapping[str, Any]) -> str:
    """Its mean, and what differs from that: the first one, and the others."""
    mean, first, steady = (_time(metrics[f"{which}_iteration_s"]) for which in ("mean", "first", "steady"))
    differs = f"; first {first}, steady {steady}" if len({mean, first, steady}) > 1 else ""
    return f"{mean} (mean of {metrics['iterations']:,}{differs})"


def _goodput(metrics: Mapping[str, Any]) -> str:
    """What failures leave of weeks of training."""
    whole_s = metrics["campaign_s"]
    shares = {
        "lost work": metrics["lost_s"],
        "down": metrics["down_s"],
        "checkpoints": metrics["saving_s"],
    }
    parts = ", ".join(f"{name} {_percent(seconds / whole_s)}" for name, seconds in shares.items())
    text = f"{_percent(metrics['goodput'])} of {_time(whole_s)}: {metrics['failures']:,} failures, {parts}"
    best = metrics.get("optimal_checkpoint_interval")
    return text + (f"; a checkpoint every {best:,} iterations would be best (Young 1974)" if best else "")


def _utilization(metrics: Mapping[str, Any]) -> str:
    """MFU, and HFU if it is another."""
    model, hardware = _percent(metrics["mfu"]), _percent(metrics["hfu"])
    return f"MFU {model}" + (f", HFU {hardware}" if hardware != model else "")


def _training_rates(metrics: Mapping[str, Any]) -> Iterable[str]:
    yield f"{number(metrics['samples_per_s'])} samples/s"
    if metrics["tokens_per_s"] != metrics["samples_per_s"]:  # a sample without tokens counts as one
        yield f"{number(metrics['tokens_per_s_per_gpu'])} tokens/s per GPU"


def _memory(result: RunResult) -> list[str]:
    parts = ", ".join(f"{name.replace('_', ' ')} {_size(size)}" for name, size in result.memory_bytes.items() if size)
    held, capacity = sum(result.memory_bytes.values()), result.metrics["memory_capacity_bytes"]
    return _row("memory per GPU", f"{_size(held)} of {_size(capacity)}: {parts}")


def _why(result: RunResult) -> list[str]:
    """What holds the run up, each with the first of the remedies; nothing if nothing does."""
    lines: list[str] = []
    for found in find_bottlenecks(result):
        lines += _wrap(f"{found.kind}: {found.evidence}", "  - ", "    ")
        lines += _wrap("; ".join(found.recommendations[:1]), "    > ", "      ")
    return ["bottlenecks", *lines] if lines else []


def _simulation(result: RunResult) -> list[str]:
    wall_s = max(result.wall_s, 1e-9)
    text = (
        f"level of detail {result.lod}, contention {result.contention}: {result.events:,} events in "
        f"{_time(result.wall_s)} ({number(result.events / wall_s)} events/s); {_time(result.simulated_s)} simulated, "
        f"{number(result.simulated_s / wall_s)} s per second of wall time"
    )
    return ["simulation", *_wrap(text, "  ", "  ")]
