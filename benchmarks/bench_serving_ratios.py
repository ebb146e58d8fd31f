"""Serving speed as a ratio: requests per CPU-second over timeouts of bare SimPy in the same seconds.

Clocks of machines differ and change; the ratio of two measurements that alternate changes little.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import simpy
from conftest import FIGURES

from simsys.config.experiment import SimulationConfig
from simsys.framework import Chunk, Scheduler, register
from simsys.metrics.result import RunResult
from simsys.report.export import write_results
from simsys.simulation import simulate

TIMEOUTS = 100_000
ROUNDS = 3


@register("bench_shortest_first")
class ShortestFirst(Scheduler):
    """A policy as a user writes it: the shortest waiting prompts first, whole, in steps of at most 4,096 tokens."""

    def schedule(self) -> list[Chunk]:
        """Admit prompts while they fit."""
        left, chunks = 4096 - self.decode.size, []
        for request in sorted(self.waiting, key=self.tokens_to_compute):
            tokens = self.tokens_to_compute(request)
            if tokens > left or (chunk := self.admit(request, tokens)) is None:
                break
            chunks.append(chunk)
            left -= tokens
        return chunks


def scenario(requests: int, rate: float, *, replicas: int = 1, output: int = 128, **given: Any) -> dict[str, Any]:
    """Llama-2-7B on A100s; prompts of 512 tokens."""
    gpus = {"gpus_per_node": replicas} if replicas <= 8 else {"num_nodes": replicas // 8}
    return {
        "hardware": {"profile": "dgx-a100", **gpus},
        "model": {"name": "Llama-2-7B"},
        "serving": {"engine": "vllm", **given.get("serving", {})},
        "workload": {
            "arrivals": {"kind": "poisson", "rate": f"{rate} req/s"},
            "prompt_tokens": 512,
            "output_tokens": output,
            "num_requests": requests,
            **given.get("workload", {}),
        },
    }


CHAT = {
    "prompt_tokens": {"kind": "lognormal", "mean": 1155, "sigma": 1.1, "max": 3000},
    "output_tokens": {"kind": "lognormal", "mean": 211, "sigma": 0.8, "max": 1000},
}
DRAFTS = {"speculative": {"draft_tokens": 3, "acceptance_rate": 0.7, "draft_cost": "1 ms"}}
POOLS = {"disaggregated": {"prefill_replicas": 32, "decode_replicas": 32}}
TURNS = {"sessions": {"turns": 4, "think_time": {"kind": "fixed", "time": "2 s"}}}
CASES: dict[str, dict[str, Any]] = {
    "shipped policy": scenario(10_000, 6),
    "a user's scheduler": scenario(10_000, 6, serving={"scheduler": "bench_shortest_first"}),
    "prefix caching": scenario(
        10_000, 6, serving={"prefix_caching": True}, workload={"prefixes": {"groups": 16, "tokens": 256}}
    ),
    "lengths of the Azure conversation trace": scenario(5_000, 2, workload=CHAT),
    "8 replicas, least outstanding": scenario(10_000, 48, replicas=8, serving={"router": "least_outstanding"}),
    "64 replicas, round robin": scenario(10_000, 384, replicas=64, serving={"router": "round_robin"}),
    "64 replicas, least KV": scenario(10_000, 384, replicas=64, serving={"router": "least_kv"}),
    "64 replicas, central queue": scenario(10_000, 384, replicas=64, serving={"router": "central_queue"}),
    "prefill/decode 32 + 32": scenario(10_000, 192, replicas=64, serving=POOLS),
    "sessions, prefix caching, preemption": scenario(
        3_000, 2, serving={"prefix_caching": True, "gpu_memory_utilization": 0.24}, workload=TURNS
    ),
    "speculative, 128 output tokens": scenario(5_000, 6, serving=DRAFTS),
    "speculative, 2,000 output tokens": scenario(2_000, 0.3, output=2000, serving=DRAFTS),
}


def timeouts_per_s() -> float:
    """How many timeouts of one process SimPy carries out per CPU-second now."""

    def ticks(env: simpy.Environment) -> Iterator[simpy.Event]:
        for _ in range(TIMEOUTS):
            yield env.timeout(1.0)

    env = simpy.Environment()
    env.process(ticks(env))
    started_s = time.process_time()
    env.run()
    return TIMEOUTS / (time.process_time() - started_s)


@pytest.mark.parametrize("name", CASES)
def test_requests_over_timeouts(benchmark: Any, name: str) -> None:
    """All requests end, and neither they nor steps are events of SimPy, unless caches are sent over links."""
    config = SimulationConfig(**CASES[name])
    requests, cpu_s, yards = config.workload.num_requests or 0, list[float](), list[float]()

    def once() -> RunResult:
        yards.append(timeouts_per_s())
        started_s = time.process_time()
        result = simulate(config)
        cpu_s.append(time.process_time() - started_s)
        return result

    result = benchmark.pedantic(once, rounds=ROUNDS, warmup_rounds=1)
    yards.append(timeouts_per_s())
    per_s = requests / min(cpu_s)
    FIGURES.append((name, f"{per_s:>9,.0f} requests per CPU-s, {per_s / max(yards):.4f} of timeouts"))
    assert result.metrics["completed"] == requests
    assert result.events < (10 if "prefill" not in name else 10 * requests)


def test_result_files_beside_the_run(benchmark: Any, tmp_path: Path) -> None:
    """What writing all result files adds to a run."""
    config = SimulationConfig(**CASES["shipped policy"])
    shares = list[float]()

    def once() -> None:
        started_s = time.process_time()
        result = simulate(config)
        simulated_s = time.process_time()
        write_results(config, result, tmp_path / str(len(shares)))
        ended_s = time.process_time()
        shares.append((ended_s - simulated_s) / (ended_s - started_s))

    benchmark.pedantic(once, rounds=ROUNDS, warmup_rounds=1)
    FIGURES.append(("result files", f"{min(shares):.0%} of run and files"))
