"""Compare simsys with published measurements that nobody fitted it to row by row: how wrong is it?

    python scripts/check_published.py              every figure, then the groups
    python scripts/check_published.py --markdown   the same as Markdown tables
    python scripts/check_published.py --json       the same as JSON

``experiments/published_figures.csv`` holds the figures; times in seconds. They were chosen by rule, not by how well
they fit:

1. What this version can simulate: training with data parallelism alone and no activation recomputation; static
   batches, all requests at once, of dense models of the model DB in 16 bit or fp8; all-reduce of 1 MiB to 1 GiB
   within one or two nodes; on hardware that has a node profile.
2. Left out: figures above what the hardware can do, benchmarks that stopped early, rows without the settings that
   decide the figure, and mixture-of-experts models, whose routing on synthetic prompts is not published.
3. Of each source, sorted by hardware, model, GPUs, precision, batch, lengths and message size, at most five rows,
   evenly spaced.

Not every source is independent of the profiles: ``used_for`` names the coefficient that was set with the help of the
same source, if any, and the groups are summarised with and without such rows. Besides, nccl-tests on H200 and A100
nodes served to confirm bandwidths that come from elsewhere.

The error is predicted / measured - 1 of the figure as
it stands in the table, so a positive one is too slow for a time and too fast for a throughput.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import mean, median
from typing import Any

from simsys.build.cluster import build_cluster
from simsys.collectives.choose import named
from simsys.config.cluster import HardwareConfig, NetworkConfig
from simsys.config.experiment import SimulationConfig
from simsys.executors import LEVELS
from simsys.executors.base import ExecutionModel
from simsys.model.work import Precision
from simsys.parallel.layout import Layout
from simsys.rank import Rank
from simsys.simulator import DistributedAISimulator

FIGURES = Path(__file__).resolve().parents[1] / "experiments" / "published_figures.csv"
ENGINE_PROFILES = {"mxnet": "pytorch", "vllm-2023": "pytorch-eager"}
"""The nearest profile of engines that have none of their own: training, no CUDA graphs."""
GROUPS = {
    "iteration_s": "training",
    "output_tokens_per_s": "serving throughput",
    "ttft_s": "serving latency",
    "tpot_s": "serving latency",
    "e2el_s": "serving latency",
    "all_reduce_s": "collectives >= 1 MiB",
}
"""Metrics of the table, and the groups in which their errors are summarised."""


@dataclass(frozen=True)
class Figure:
    """One published measurement.

    Args:
        source: Where it stands, in words.
        engine: Software that ran.
        model: Name in the model DB; empty for a collective.
        profile: Node profile.
        num_nodes: Nodes.
        gpus_per_node: GPUs of each node that took part.
        precision: Of the computation.
        optimizer: The nearest that simsys has; training only.
        batch_size: Sequences or samples: of a micro-batch on one GPU in training, of all requests in serving.
        gradient_accumulation_steps: Micro-batches of an iteration.
        input_tokens: Prompt length, or training sequence length.
        output_tokens: Tokens generated for each request.
        message_bytes: Size of a collective.
        metric: A key of `GROUPS`.
        measured: Its value, in seconds or tokens per second.
        used_for: The coefficient of a profile that this source helped to set; empty if it is independent.
    """

    source: str
    engine: str
    model: str
    profile: str
    num_nodes: int
    gpus_per_node: int
    precision: str
    optimizer: str
    batch_size: int
    gradient_accumulation_steps: int
    input_tokens: int
    output_tokens: int
    message_bytes: int
    metric: str
    measured: float
    used_for: str

    @property
    def group(self) -> str:
        """Which errors it is summarised with."""
        return GROUPS[self.metric]

    @property
    def hardware(self) -> dict[str, Any]:
        """Its hardware as an experiment file has it."""
        return {"profile": self.profile, "num_nodes": self.num_nodes, "gpus_per_node": self.gpus_per_node}

    @property
    def label(self) -> str:
        """What was measured, in short."""
        gpus = f"{self.num_nodes} x " * (self.num_nodes > 1) + f"{self.gpus_per_node} GPUs of {self.profile}"
        if not self.model:
            return f"all-reduce of {self.message_bytes / 2**20:g} MiB, {gpus}"
        batch = f"batch {self.batch_size}" + f" x {self.gradient_accumulation_steps}" * (self.group == "training")
        lengths = f", {self.input_tokens}" * bool(self.input_tokens) + f"/{self.output_tokens}" * bool(
            self.output_tokens
        )
        return f"{self.model} {self.precision}, {batch}{lengths}, {gpus}, {self.engine}"


@dataclass(frozen=True)
class Outcome:
    """A figure and what simsys says."""

    figure: Figure
    predicted: float

    @property
    def error(self) -> float:
        """Relative error; 0.1 is 10 % too much."""
        return self.predicted / self.figure.measured - 1.0


def read_figures(path: Path = FIGURES) -> list[Figure]:
    """Read the table; an empty number is 0."""
    kinds: dict[str, Callable[[str], Any]] = {"str": str, "int": lambda text: int(text or 0), "float": float}
    columns = {field.name: kinds[str(field.type)] for field in fields(Figure)}
    with path.open(encoding="utf-8", newline="") as file:
        return [Figure(**{name: read(row[name]) for name, read in columns.items()}) for row in csv.DictReader(file)]


def predict(figure: Figure) -> float:
    """What simsys says at medium detail, in the unit of the figure.

    Raises:
        SimsysError: If it cannot be simulated.
    """
    if figure.metric == "all_reduce_s":
        return all_reduce_s(figure)
    metrics = DistributedAISimulator(scenario(figure)).run().metrics
    match figure.metric:
        case "iteration_s":
            return float(metrics["mean_iteration_s"])
        case "output_tokens_per_s":
            return float(metrics["output_throughput"])
        case _:
            return float(metrics[f"mean_{figure.metric.removesuffix('_s')}_ms"]) / 1e3


def scenario(figure: Figure) -> SimulationConfig:
    """The experiment that a training or serving figure describes."""
    engine = ENGINE_PROFILES.get(figure.engine, figure.engine)
    shared = {"hardware": figure.hardware, "simulation": {"lod": "medium"}}
    if figure.group == "training":
        training = {
            "engine": engine,
            "batch_size_per_gpu": figure.batch_size,
            "gradient_accumulation_steps": figure.gradient_accumulation_steps,
            "precision": figure.precision,
            "mixed_precision": figure.precision in ("fp16", "bf16"),
            "optimizer": figure.optimizer,
            "num_iterations": 2,
        }
        model = {"name": figure.model, "sequence_length": figure.input_tokens or None}
        return SimulationConfig.model_validate({**shared, "model": model, "training": training})
    serving = {  # a static batch: all prompts in one step, then decoding, without an API; it did fit into memory
        "engine": engine,
        "api_overhead": "0 s",
        "precision": figure.precision,
        "max_num_seqs": figure.batch_size,
        "max_num_batched_tokens": figure.batch_size * figure.input_tokens,
        "gpu_memory_utilization": 1.0,
    }
    workload = {
        "arrivals": {"kind": "all_at_once"},
        "num_requests": figure.batch_size,
        "prompt_tokens": figure.input_tokens,
        "output_tokens": figure.output_tokens,
    }
    parallelism = {"strategy": "TP", "tp_degree": figure.gpus_per_node}
    model = {"name": figure.model}
    return SimulationConfig.model_validate(
        {**shared, "model": model, "parallelism": parallelism, "serving": serving, "workload": workload}
    )


def all_reduce_s(figure: Figure) -> float:
    """Seconds of one all-reduce over all GPUs of the cluster, the algorithm chosen by simsys."""
    cluster = build_cluster(HardwareConfig.model_validate(figure.hardware), NetworkConfig())
    platform = cluster.platform()
    layout = Layout(data=cluster.num_gpus)
    executor = LEVELS["medium"](platform, ExecutionModel(named("auto", cluster.tuning), Precision()), layout.roles())
    for index in executor.ranks():
        Rank(index, layout, executor).all_reduce(figure.message_bytes, over="data")
    platform.env.run()
    return float(platform.env.now)


def summarise(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Number of figures, median and mean size of the error, its mean (bias), and the figure that is worst."""
    sizes = [abs(outcome.error) for outcome in outcomes]
    independent = [abs(outcome.error) for outcome in outcomes if not outcome.figure.used_for]
    worst = max(outcomes, key=lambda outcome: abs(outcome.error))
    return {
        "rows": len(outcomes),
        "median_abs_error": median(sizes),
        "mean_abs_error": mean(sizes),
        "independent_rows": len(independent),
        "independent_median_abs_error": median(independent) if independent else None,
        "bias": mean(outcome.error for outcome in outcomes),
        "worst": worst.figure.label,
        "worst_error": worst.error,
    }


def by_group(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """`summarise` for each group that has figures."""
    members = {group: [o for o in outcomes if o.figure.group == group] for group in GROUPS.values()}
    return {group: summarise(found) for group, found in members.items() if found}


def tables(outcomes: Sequence[Outcome], *, markdown: bool) -> str:
    """The groups and the figures as two tables."""
    groups = [["group", "rows", "median error", "mean error", "bias", "independent rows, median error", "worst"]]
    for group, s in by_group(outcomes).items():
        shares = [f"{s[key]:.0%}" for key in ("median_abs_error", "mean_abs_error")]
        independent = (
            f"{s['independent_rows']}, {s['independent_median_abs_error']:.0%}" if s["independent_rows"] else "0"
        )
        worst = f"{s['worst_error']:+.0%}: {s['worst']}"
        groups.append([group, str(s["rows"]), *shares, f"{s['bias']:+.0%}", independent, worst])
    rows = [["figure", "metric", "predicted", "measured", "error", "source", "source also used for"]]
    for o in outcomes:
        figure = o.figure
        values = [f"{o.predicted:.4g}", f"{figure.measured:.4g}", f"{o.error:+.0%}"]
        rows.append([figure.label, figure.metric, *values, figure.source, figure.used_for])
    return "\n\n".join(_table(table, markdown) for table in (groups, rows))


def _table(rows: list[list[str]], markdown: bool) -> str:
    if markdown:
        rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def main() -> None:
    """Simulate every figure and print what comes out."""
    parser = argparse.ArgumentParser(description="Compare simsys with published measurements.")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown tables")
    arguments = parser.parse_args()
    outcomes = [Outcome(figure, predict(figure)) for figure in read_figures()]
    if arguments.json:
        rows = [{**asdict(o.figure), "predicted": o.predicted, "error": o.error} for o in outcomes]
        print(json.dumps({"groups": by_group(outcomes), "rows": rows}, indent=2))
    else:
        print(tables(outcomes, markdown=arguments.markdown))


if __name__ == "__main__":
    main()
