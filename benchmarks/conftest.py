"""What the benchmarks share: running a scenario, and a table of events and rates at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.simulator import DistributedAISimulator

ROWS: list[tuple[str, str, float]] = []
FIGURES: list[tuple[str, str]] = []
"""Other figures, each with what they are of."""

Measure = Callable[..., RunResult]


@pytest.fixture
def measure(benchmark: Any, request: pytest.FixtureRequest) -> Measure:
    """Run a scenario a few times; report its events, and the best rates per CPU-second."""
    cpu_s: list[float] = []

    def run(config: dict[str, Any], unit: str, count: int, rounds: int = 3) -> RunResult:
        scenario = SimulationConfig(**config)

        def once() -> RunResult:
            started = time.process_time()
            result = DistributedAISimulator(scenario).run()
            cpu_s.append(time.process_time() - started)
            return result

        result: RunResult = benchmark.pedantic(once, rounds=rounds, warmup_rounds=1)
        best_s = min(cpu_s)
        benchmark.extra_info.update(
            events=result.events,
            events_per_cpu_s=result.events / best_s,
            **{f"{unit}_per_cpu_s": count / best_s},
        )
        ROWS.append((request.node.name, f"{result.events:,} events", result.events / best_s))
        ROWS.append(("", f"{count:,} {unit}", count / best_s))
        return result

    return run


@pytest.fixture
def timed(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Do some work a few times; report how much of it the best round did per CPU-second."""
    cpu_s: list[float] = []

    def run(work: Callable[[], Any], unit: str, count: int, rounds: int = 3) -> Any:
        def once() -> Any:
            started = time.process_time()
            result = work()
            cpu_s.append(time.process_time() - started)
            return result

        result = benchmark.pedantic(once, rounds=rounds)
        benchmark.extra_info[f"{unit}_per_cpu_s"] = count / min(cpu_s)
        ROWS.append((request.node.name, f"{count:,} {unit}", count / min(cpu_s)))
        return result

    return run


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table."""
    if FIGURES:
        terminalreporter.section("other figures (this machine)")
        for name, text in FIGURES:
            terminalreporter.write_line(f"{name:36} {text}")
    if not ROWS:
        return
    terminalreporter.section("amounts and rates (best of the rounds, this machine)")
    for name, amount, per_s in ROWS:
        terminalreporter.write_line(f"{name:44} {amount:>22} {per_s:>14,.0f} per CPU-s")
