"""Rules of engines' options: chunks of answers."""

from __future__ import annotations

import pytest

from simsys.build.job import build
from simsys.config.experiment import SimulationConfig


@pytest.mark.parametrize(
    ("engine", "interval", "warned"),
    [("vllm", 4, True), ("vllm", 1, False), ("tensorrt-llm", 4, False), ("tensorrt-llm", 1, False)],
)
def test_chunks_that_change_no_time_are_a_warning(engine: str, interval: int, warned: bool) -> None:
    config = SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": 1},
        model={"name": "Llama3-8B"},
        serving={"engine": engine, "stream_interval": interval},
        workload={
            "arrivals": {"kind": "poisson", "rate": "1 req/s"},
            "prompt_tokens": 64,
            "output_tokens": 4,
            "num_requests": 1,
        },
    )
    warnings = [each.path for each in build(config).jobs[0].doubts]
    assert ("serving.stream_interval" in warnings) is warned
