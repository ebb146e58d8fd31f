"""Candidates simulated: in order, with earlier outcomes taken account of, and no longer than is of use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import simsys.simulation
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.searches.goal import Goal
from simsys.searches.simulated import MISSED, WORSE, Outcome, Simulations, Task, simulated
from simsys.user_modules import current

MEETING = SimulationConfig.model_validate(
    {
        "hardware": {"profile": "dgx-h100", "num_nodes": 4, "gpus_per_node": 2, "nic": {"bandwidth": "10 GB/s"}},
        "model": {"name": "GPT2-Small"},
        "parallelism": {"strategy": "PP_FSDP", "pp_stages": 2},
        "training": {"batch_size_per_gpu": 4, "gradient_accumulation_steps": 4, "num_iterations": 2},
    }
)
"""Messages between stages contend with gathered weights."""
GOAL = Goal("steady_iteration_s", largest=False)


def runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The treatments of links that are simulated from now on."""
    links, run = [], simsys.simulation._run

    def noted(job: Any, treatment: Any, *rest: Any, **more: Any) -> Any:
        links.append(treatment)
        return run(job, treatment, *rest, **more)

    monkeypatch.setattr(simsys.simulation, "_run", noted)
    return links


@pytest.mark.parametrize(("share", "count"), [(2.0, 2), (0.5, 1)])
def test_shared_links_are_not_simulated_once_idle_links_show_that_it_is_of_no_use(
    monkeypatch: pytest.MonkeyPatch, share: float, count: int
) -> None:
    task = Task(MEETING, {}, current(), goal=GOAL)
    whole = simulated(task).metrics[GOAL.metric]
    links = runs(monkeypatch)
    outcome = simulated(task._replace(most_key=share * whole))
    assert len(links) == count
    assert outcome == Outcome({}, WORSE) if count == 1 else outcome.metrics[GOAL.metric] == whole


def test_a_candidate_whose_whole_run_is_of_no_use_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(MEETING, {}, current(), goal=GOAL)
    whole, idle = (
        simulated(task._replace(settings=settings)).metrics[GOAL.metric]
        for settings in ({}, {"simulation.occupy_links": False})
    )
    assert idle < whole
    links = runs(monkeypatch)
    assert simulated(task._replace(most_key=(idle + whole) / 2.0)) == Outcome({}, WORSE)
    assert len(links) == 2


@pytest.mark.parametrize(("judged", "ttft"), [(True, "1 ms"), (True, "10 s"), (False, "1 ms")])
def test_a_judged_run_of_requests_ends_when_it_misses_its_slo(judged: bool, ttft: str) -> None:
    config = SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-a100", "gpus_per_node": 1},
            "model": {"name": "Llama2-7B"},
            "serving": {},
            "slo": {"ttft": ttft},
            "workload": {
                "arrivals": {"kind": "poisson", "rate": "2 req/s"},
                "prompt_tokens": 512,
                "output_tokens": 32,
                "num_requests": 20,
            },
        }
    )
    outcome = simulated(Task(config, {}, current(), judged=judged))
    if judged and ttft == "1 ms":
        assert outcome == Outcome({}, MISSED)
    else:
        assert outcome.metrics["completed"] == 20


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_task_is_asked_for_when_its_turn_comes(jobs: int) -> None:
    seen: list[int] = []

    def tasks() -> Iterator[Task]:
        for place in range(40):
            if len(seen) >= 5:
                return
            yield Task(MEETING, {"training.num_iterations": place + 1}, current())

    with Simulations(jobs) as simulations:
        for place, outcome in simulations.run(tasks(), 40):
            assert outcome.metrics[GOAL.metric] > 0.0
            seen.append(place)
    assert 5 <= len(seen) <= 5 + jobs + 1
    assert sorted(seen) == list(range(len(seen)))


def test_an_error_is_the_reason_of_its_candidate() -> None:
    outcome = simulated(Task(MEETING, {"parallelism.pp_stages": 5}, current()))
    assert not outcome.metrics
    assert "does not divide" in outcome.reason


def fail_after_one() -> None:
    with Simulations(2) as simulations:
        for _ in simulations.run([Task(MEETING, {}, current())] * 8, 8):
            raise UsageError("stop")


def test_an_error_of_the_caller_ends_the_processes() -> None:
    with pytest.raises(UsageError, match="stop"):
        fail_after_one()
