"""The schedulers of simsys make the steps of an engine that is written down naively, step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simsys.config.experiment import SimulationConfig
from simsys.conformance.comparison import conformance
from simsys.errors import UsageError

BLOCK = 16


def scenario(blocks: int, seats: int, budget: int, **serving: Any) -> SimulationConfig:
    return SimulationConfig.model_validate(
        {
            "name": "logged",
            "hardware": {"gpu": "H100-SXM", "gpus_per_node": 1},
            "model": {"name": "Llama3-8B"},
            "serving": {
                "engine": "vllm",
                "max_num_seqs": seats,
                "max_num_batched_tokens": budget,
                "num_gpu_blocks_override": blocks,
                "block_size": BLOCK,
                "prefix_caching": False,
                "scheduler_reserve_full_isl": False,
                **serving,
            },
            "workload": {
                "num_requests": 1,
                "prompt_tokens": 8,
                "output_tokens": 8,
                "arrivals": {"kind": "all_at_once"},
            },
        }
    )


class NaiveEngine:
    """vLLM V1's loop: running requests in order of admission, then waiting ones, within tokens, seats and blocks."""

    def __init__(self, blocks: int, seats: int, budget: int) -> None:
        self.free, self.seats, self.budget = blocks, seats, budget
        self.waiting: list[str] = []
        self.running: list[str] = []
        self.state: dict[str, list[int]] = {}  # prompt, output, generated, computed, blocks

    def arrive(self, name: str, prompt: int, output: int) -> None:
        self.state[name] = [prompt, output, 0, 0, 0]
        self.waiting.append(name)

    def step(self) -> tuple[dict[str, int], list[str]]:
        budget, scheduled, preempted = self.budget, dict[str, int](), list[str]()
        for name in list(self.running):
            if name not in self.running:
                continue
            tokens = min(self._left(name), budget)
            while tokens and not self._take(name, tokens):
                victim = self.running[-1]
                self._preempt(victim)
                preempted.append(victim)
                budget += scheduled.pop(victim, 0)
                if victim == name:
                    tokens = 0
            if tokens:
                scheduled[name] = tokens
                budget -= tokens
        while self.waiting and len(self.running) < self.seats and budget and not preempted:
            name = self.waiting[0]
            tokens = min(self._left(name), budget)
            if not self._take(name, tokens):
                break
            self.running.append(self.waiting.pop(0))
            scheduled[name] = tokens
            budget -= tokens
        for name, tokens in scheduled.items():
            state = self.state[name]
            state[3] += tokens
            if state[3] == state[0] + state[2]:
                state[2] += 1
                if state[2] == state[1]:
                    self.free += state[4]
                    self.running.remove(name)
        return scheduled, preempted

    def _left(self, name: str) -> int:
        prompt, _, generated, computed, _ = self.state[name]
        return prompt + generated - computed

    def _take(self, name: str, tokens: int) -> bool:
        state = self.state[name]
        more = -(-(state[3] + tokens) // BLOCK) - state[4]
        if more > self.free:
            return False
        self.free -= more
        state[4] += more
        return True

    def _preempt(self, name: str) -> None:
        state = self.state[name]
        self.free += state[4]
        state[3] = state[4] = 0
        self.running.remove(name)
        self.waiting.insert(0, name)


def logged(path: Path, requests: list[tuple[int, int, int]], blocks: int, seats: int, budget: int) -> Path:
    """The log of requests: the number of steps since the arrival before, prompt and output."""
    engine, lines, pending = NaiveEngine(blocks, seats, budget), [], list(enumerate(requests))
    wait = pending[0][1][0] if pending else 0
    while pending or engine.waiting or engine.running:
        arrived = []
        while pending and (wait <= 0 or not (engine.waiting or engine.running)):
            number, (_, prompt, output) = pending.pop(0)
            engine.arrive(str(number), prompt, output)
            arrived.append({"id": str(number), "prompt_tokens": prompt, "output_tokens": output})
            wait = pending[0][1][0] if pending else 0
        scheduled, preempted = engine.step()
        lines.append({"arrived": arrived, "scheduled": scheduled, "preempted": preempted})
        wait -= 1
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


REQUESTS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 300), st.integers(1, 60)), min_size=1, max_size=12)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REQUESTS, st.integers(1, 8), st.integers(8, 256))
def test_all_decisions_are_those_of_the_naive_engine(
    tmp_path: Path, requests: list[tuple[int, int, int]], seats: int, budget: int
) -> None:
    path = logged(tmp_path / "steps.jsonl", requests, 10_000, seats, max(budget, seats))
    found = conformance(scenario(10_000, seats, max(budget, seats)), path)
    assert found.differences == ()
    assert found.figures == {"equal_share": 1.0, "equal_steps_at_first": found.steps}


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REQUESTS)
def test_preemptions_too(tmp_path: Path, requests: list[tuple[int, int, int]]) -> None:
    path = logged(tmp_path / "steps.jsonl", requests, 30, 8, 512)
    assert conformance(scenario(30, 8, 512), path).differences == ()


def test_a_difference_is_shown_with_its_requests(tmp_path: Path) -> None:
    path = logged(tmp_path / "steps.jsonl", [(0, 100, 5), (0, 100, 5), (3, 50, 5)], 1000, 8, 128)
    found = conformance(scenario(1000, 8, 120), path)
    assert found.differences[0].place == 0
    assert "1: 28 in the log, 20 here" in found.text()
    assert found.as_dict()["differences"][0]["kind"] == "other numbers of tokens"


def test_one_engine_of_serving_is_needed(tmp_path: Path) -> None:
    path = logged(tmp_path / "steps.jsonl", [(0, 10, 2)], 100, 8, 128)
    two = scenario(100, 8, 128).with_({"hardware.gpus_per_node": 2})
    with pytest.raises(UsageError, match="of one engine, but the scenario has 2"):
        conformance(two, path)
