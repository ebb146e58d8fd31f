"""An engine that schedules each step while the one before is on the GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.serving.requests import RequestTable
from simsys.serving.scheduled_ahead import ScheduledAhead
from simsys.simulation import simulate
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import serve

FIGURES = ("mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "duration", "completed", "steps")


def run(ahead: bool, lod: str = "medium", users: int = 12, **serving: Any) -> RunResult:
    """A few users of a small model."""
    config: dict[str, Any] = {
        "simulation": {"lod": lod},
        "hardware": {"profile": "dgx-h100", "gpus_per_node": 1},
        "model": {"name": "GPT2-Small"},
        "serving": {"engine": "vllm", "async_scheduling": ahead, **serving},
        "workload": {
            "arrivals": {"kind": "closed_loop", "concurrency": users},
            "num_requests": 8 * users,
            "prompt_tokens": {"kind": "uniform", "low": 20, "high": 200},
            "output_tokens": {"kind": "uniform", "low": 5, "high": 90},
        },
    }
    return simulate(SimulationConfig(**config))


@pytest.mark.parametrize("scheduler", ["vllm_v0", "chunked_prefill", "orca", "shortest_job_first"])
def test_jumping_stepping_and_high_agree(scheduler: str) -> None:
    jumped = run(True, scheduler=scheduler).metrics
    stepped = run(True, scheduler=scheduler, stepping=True).metrics
    assert [jumped[name] for name in FIGURES] == [stepped[name] for name in FIGURES]
    high = run(True, "high", scheduler=scheduler).metrics
    assert [high[name] for name in FIGURES] == pytest.approx([jumped[name] for name in FIGURES], rel=1e-9)


@pytest.mark.parametrize("came_s", [1e-6, 30e-6])
def test_who_comes_during_a_step_is_in_the_step_after_the_next(came_s: float) -> None:
    """The second and the third request come in the step with the prompt of the first, or while it decodes."""
    requests = RequestTable([0.0, came_s, came_s], [6, 4, 4], [400, 2, 2])
    runs, steps = (
        serve(requests, Limits(num_blocks=1000), level=level, intake=ScheduledAhead)
        for level in ("medium", "stepping")
    )
    assert runs.history() == steps.history()
    started_s = [step.started_s for step in steps.steps]
    under_way = sum(time_s < came_s for time_s in started_s) - 1
    assert [started_s.index(steps.times("admitted")[request]) for request in (1, 2)] == [under_way + 2] * 2


def test_an_engine_that_would_rest_begins_at_once() -> None:
    """The first request ends with its prompt, during which the second one comes."""
    requests = RequestTable([0.0, 1e-6], [6, 4], [1, 2])
    runs = serve(requests, Limits(num_blocks=1000), intake=ScheduledAhead)
    assert [step.chunks for step in runs.steps[:2]] == [[(0, 6)], [(1, 4)]]


def test_one_user_never_waits() -> None:
    later, at_once = (run(ahead, users=1).metrics["mean_queue_ms"] for ahead in (True, False))
    assert later == at_once
