"""How fast traces and reports are written. Asserted are amounts; times are only reported."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from simsys import DistributedAISimulator, SimulationConfig
from simsys.html.page import write_page
from simsys.html.sources import page_of_paths
from simsys.report.export import write_results
from simsys.report.files import write_files
from simsys.traces.scenario_trace import ScenarioTrace

SLICES = 400_000
REQUESTS = 10_000


def test_a_trace_of_400_000_slices(timed: Any, tmp_path: Path) -> None:
    """64 ranks with FSDP at high, every operation a slice, compressed."""
    config = SimulationConfig(
        hardware={"profile": "dgx-h100", "num_nodes": 8},
        model={"name": "Llama3-8B"},
        parallelism={"strategy": "FSDP"},
        training={"batch_size_per_gpu": 1, "activation_recompute": "full", "num_iterations": 31},
        simulation={"lod": "high"},
    )
    trace = ScenarioTrace(config)
    result = DistributedAISimulator(config, [trace.probe]).run()
    writers = {trace.name: lambda text: trace.write(result, text)}
    (file,) = timed(lambda: write_files(tmp_path, writers), "slices of a trace", SLICES)
    with gzip.open(file, "rt", encoding="utf-8") as text:
        assert sum('"ph":"X"' in line for line in text) > SLICES


def test_a_report_of_10_000_requests(timed: Any, tmp_path: Path) -> None:
    config = SimulationConfig(
        hardware={"gpu": "H100-SXM"},
        model={"name": "Llama3-8B"},
        serving={"engine": "vllm"},
        workload={
            "arrivals": {"kind": "poisson", "rate": "8 req/s"},
            "prompt_tokens": 512,
            "output_tokens": 128,
            "num_requests": REQUESTS,
        },
    )
    write_results(config, DistributedAISimulator(config).run(), tmp_path)
    page = tmp_path / "report.html"
    timed(lambda: write_page(page_of_paths([tmp_path / config.name]), page), "requests of a report", REQUESTS)
    assert page.stat().st_size < 1_500_000
