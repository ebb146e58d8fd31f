"""Small contents of runs for pictures, without a simulation."""

from __future__ import annotations

from typing import Any

from simsys.contents.printed import Printed
from simsys.contents.run import RunContent
from simsys.contents.sweep import SweepContent

GIB = 2.0**30
LONG = "a-name-that-goes-on-for-longer-than-any-title-has-room-for-" * 2


def training(stages: int = 4, iterations: int = 3, scale_s: float = 0.1, name: str = "train") -> RunContent:
    """Training with as many pipeline stages; its iterations differ slightly."""
    metrics = {
        "gpu_utilization": 0.8,
        "memory_capacity_bytes": 80 * GIB,
        "mean_iteration_s": 1.75 * scale_s,
        "communication_s": scale_s,
        "exposed_communication_ratio": 0.33,
    }
    parts = {"compute_s": 1.0, "optimizer_s": 0.1, "exposed_data_s": 0.5, "bubble_s": 0.2, "idle_s": 0.05}
    ranks = {"rank": [8 * stage for stage in range(stages)], "stage": list(range(stages))}
    ranks |= {part: [share * scale_s] * stages for part, share in parts.items()}
    rows = {"iteration_s": [1.75 * scale_s * (1 + 0.01 * (place % 2)) for place in range(iterations)]}
    tables = {"ranks": ranks, "iterations": rows, "activity": activity(stages, scale_s), "held": held(stages, scale_s)}
    tables |= {"passes": passes(stages), "links": links(stages * 8), "traffic": traffic(stages * 8)}
    result = {"name": name, "kind": "training", "metrics": metrics, "simulated_s": 1.75 * scale_s * iterations}
    return RunContent({**result, "memory_bytes": {"weights": 40 * GIB, "buckets": 0.0}}, {}, tables)


def activity(stages: int, scale_s: float, micro_batches: int = 4) -> dict[str, list[Any]]:
    """Forward passes down the stages, backward passes up, and gradients at the end."""
    rows: list[tuple[Any, ...]] = []
    for stage in range(stages):
        for place in range(micro_batches):
            start = 0.1 * (stage + place)
            rows.append((stage, 8 * stage, "forward", place, False, start, start + 0.1))
            start = 0.1 * (2 * stages - stage + 2 * place + micro_batches - 1)
            rows.append((stage, 8 * stage, "backward", place, False, start, start + 0.2))
        rows.append((stage, 8 * stage, "data", None, True, 0.1 * (3 * stages), 0.1 * (3 * stages) + 0.3))
    names = ("stage", "rank", "what", "micro_batch", "beside", "start_s", "end_s")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return columns | {name: [scale_s * value for value in columns[name]] for name in ("start_s", "end_s")}


def held(stages: int, scale_s: float) -> dict[str, list[Any]]:
    """Memory of each stage; the first stage holds most."""
    steps = [(stage, step) for stage in range(stages) for step in range(6)]
    return {
        "stage": [stage for stage, _ in steps],
        "rank": [8 * stage for stage, _ in steps],
        "time_s": [0.3 * scale_s * step for _, step in steps],
        "parameters": [20 * GIB for _ in steps],
        "activations": [(3 - abs(3 - step)) * 10 * GIB / (1 + stage) for stage, step in steps],
    }


def passes(stages: int = 1) -> dict[str, list[Any]]:
    """One memory-bound and two compute-bound kinds of pass, on the first rank of each stage."""
    roofs = {"device": "H100", "dtype": "bf16", "peak_flop_per_s": 989e12, "memory_bytes_per_s": 3.35e12}
    kinds = [("forward", 3e14, 2e11, 0.6), ("backward", 6e14, 4e11, 1.2), ("optimizer", 1e12, 2e12, 0.7)]
    rows = [(stage, 8 * stage, *each) for stage in range(stages) for each in kinds]
    columns = zip(*rows, strict=True)
    named = dict(zip(("stage", "rank", "name", "flop", "nbytes", "seconds"), map(list, columns), strict=True))
    return {**named, **{name: [value] * len(rows) for name, value in roofs.items()}}


def links(gpus: int, *, direct: bool = False) -> dict[str, list[Any]]:
    """Links of nodes of eight GPUs with a switch each, and a switch over all; or a ring."""
    rows: list[tuple[Any, ...]] = []

    def add(src: int, dst: int, names: tuple[str, str], share: float) -> None:
        rows.append((src, dst, *names, "nvlink", 1e11, 1e9 * share, share, 1e-3 * share))

    for gpu in range(gpus):
        name = f"gpu {gpu % 8} of node {gpu // 8}"
        if direct:
            other = (gpu + 1) % gpus
            add(gpu, other, (name, f"gpu {other % 8} of node {other // 8}"), 0.1 + 0.8 * gpu / gpus)
            continue
        add(gpu, gpus + gpu // 8, (name, f"nvswitch of node {gpu // 8}"), 0.5)
        add(gpu, 2 * gpus, (name, "switch"), 0.1 + 0.3 * gpu / gpus)
    names = ("src", "dst", "from", "to", "kind", "bytes_per_s", "nbytes", "utilization", "queued_s")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}


def traffic(gpus: int) -> dict[str, list[Any]]:
    """A ring of all GPUs."""
    return {
        "src": list(range(gpus)),
        "dst": [(gpu + 1) % gpus for gpu in range(gpus)],
        "nbytes": [1e9 * (1 + gpu % 8) for gpu in range(gpus)],
    }


def serving(requests: int = 5, output_tokens: int = 4, *, completed: bool = True, name: str = "serve") -> RunContent:
    """Serving of requests that come every second."""
    rows: dict[str, list[Any]] = {
        "arrival_s": [float(index) for index in range(requests)],
        "admitted_s": [index + 0.05 if completed else None for index in range(requests)],
        "first_token_s": [index + 0.1 + 0.01 * (index % 7) if completed else None for index in range(requests)],
        "finished_s": [index + 0.5 + 0.2 * (index % 3) if completed else None for index in range(requests)],
        "output_tokens": [output_tokens] * requests,
        "preemptions": [0] * requests,
    }
    metrics = {"gpu_utilization": 0.99, "memory_capacity_bytes": 80 * GIB, "p50_ttft_ms": 120.0, "p99_ttft_ms": 160.0}
    metrics["slo_ttft_ms"] = 150.0
    columns = ("waiting", "running", "batch_size", "output_tokens_per_s", "kv_cache_usage")
    timeline = {"time_s": [0.0, 0.1, 0.2]} | {name: [0.1, 0.5, 0.2] for name in columns}
    gaps = {"itl_ms": [10.0, 12.0, 40.0], "share_percent": [0.0, 50.0, 100.0]}
    tables = {"requests": rows, "timeline": timeline, "passes": passes()}
    tables |= {"gaps": gaps} if output_tokens > 1 else {}
    result = {"name": name, "kind": "serving", "metrics": metrics, "simulated_s": 0.25}
    memory = {"weights": 15 * GIB, "kv_cache": 55 * GIB}
    return RunContent({**result, "memory_bytes": memory}, {}, tables)


def load_sweep() -> SweepContent:
    """Serving on two GPUs at rising rates; latency explodes near the capacity."""
    rates = [2, 4, 8, 16, 32]
    rows = [(gpu, f"{rate} req/s", speed, rate) for gpu, speed in (("H100", 40), ("A100", 20)) for rate in rates]
    throughput = [100.0 * min(rate, speed) for _, _, speed, rate in rows]
    return SweepContent(
        "rates",
        {
            "hardware.gpu": [gpu for gpu, *_ in rows],
            "workload.arrivals.rate": [rate for _, rate, *_ in rows],
            "state": ["ok"] * len(rows),
            "output_throughput": throughput,
            "p99_ttft_ms": [50.0 / (1.02 - min(1.0, rate / speed)) for *_, speed, rate in rows],
            "p50_tpot_ms": [8.0 + rate / speed for *_, speed, rate in rows],
        },
        ["hardware.gpu", "workload.arrivals.rate"],
    )


def size_sweep() -> SweepContent:
    """Training on more and more nodes, with two networks."""
    rows = [(nodes, network) for network in ("fast", "slow") for nodes in (1, 2, 4, 8, 16)]
    return SweepContent(
        "sizes",
        {
            "hardware.num_nodes": [nodes for nodes, _ in rows],
            "network.name": [network for _, network in rows],
            "state": ["ok"] * len(rows),
            "num_gpus": [8 * nodes for nodes, _ in rows],
            "samples_per_s": [100.0 * n ** (0.98 if network == "fast" else 0.85) for n, network in rows],
            "mean_iteration_s": [1.0] * len(rows),
            "peak_memory_bytes": [GIB * (40 + n) for n, _ in rows],
        },
        ["hardware.num_nodes", "network.name"],
    )


def found() -> Printed:
    """Answers of a search over two settings."""
    best = [
        {
            "settings": {"parallelism.tp_degree": tp, "training.batch_size_per_gpu": size},
            "metrics": {
                "mean_iteration_s": 1.0 + 0.2 * tp + 0.1 / size,
                "samples_per_s": 30.0 / tp + size,
                "peak_memory_bytes": GIB * (10 + 4 * size / tp),
            },
            "group": 1,
        }
        for tp in (1, 2, 4, 8)
        for size in (1, 2, 4)
    ]
    goal = {"metric": "mean_iteration_s", "direction": "minimize"}
    return Printed("search", {"name": "found", "goal": goal, "best": best, "considered": 12}, "found")
