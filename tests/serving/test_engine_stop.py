"""An engine between two runs of steps: it has no run under way, whatever the last one was."""

from __future__ import annotations

import pytest

from frameworks.chunked_prefill import ChunkedPrefill
from simsys.framework import Chunk, Scheduler, Team
from simsys.parallel.layout import Layout
from simsys.parallel.passes import forward_pass
from simsys.serving.engine import Engine
from simsys.serving.requests import RequestTable
from simsys.testing import EngineHarness, EngineParts, toy_executor, toy_model

PARTS = EngineParts(num_blocks=400, options=ChunkedPrefill.Options(max_num_batched_tokens=16))


def engine_of(level: str, requests: RequestTable) -> tuple[EngineHarness, Engine]:
    layout = Layout()
    executor = toy_executor(level, layout, roles=[(0,)])
    harness = EngineHarness(executor, requests)
    return harness, harness.engine(Team(layout.group(0, "tensor"), forward_pass(toy_model()), executor), PARTS)


@pytest.mark.parametrize("level", ["medium", "high"])
@pytest.mark.parametrize("after_s", [1e-6, 1e-4, 4e-4, 8e-4, 1e-3])
def test_a_stopped_engine_has_no_run_under_way(level: str, after_s: float) -> None:
    """It is stopped in the chunks of a long prompt, or in the decode steps after it."""
    harness, engine = engine_of(level, RequestTable([0.0, 0.0], [900, 8], [60, 60]))
    harness.start()
    harness.executor.env.run(until=after_s)
    assert engine.left > 0, "a run is under way"
    engine.stop()
    assert (engine.left, engine.free_blocks()) == (0, engine.kv.free_blocks)
    harness.executor.env.run()
    assert (engine.left, engine.free_blocks()) == (0, engine.kv.free_blocks)


@pytest.mark.parametrize("level", ["medium", "high"])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_request_that_comes_to_an_idle_engine_takes_no_blocks_before_its_step(level: str, stopped: bool) -> None:
    harness, engine = engine_of(level, RequestTable([0.0, 1.0], [900, 8], [60, 60]))
    harness.start()
    harness.executor.env.run(until=0.5)
    assert not engine.busy
    engine.submit(1)
    assert (engine.free_blocks(), engine.left) == (400, 0)
    if stopped:
        engine.stop()
        assert engine.free_blocks() == 400


@pytest.mark.parametrize(("num_blocks", "asked"), [(3, [0, 1, 1]), (4, [0]), (400, [0])])
def test_a_policy_is_asked_only_if_requests_wait_or_blocks_may_lack(num_blocks: int, asked: list[int]) -> None:
    """The prompt fills two blocks, the answer a third one; the last two steps might need a fourth one."""
    layout, calls = Layout(), list[int]()
    executor = toy_executor("high", layout, roles=[(0,)])
    harness = EngineHarness(executor, RequestTable([0.0], [8], [4]))
    team = Team(layout.group(0, "tensor"), forward_pass(toy_model()), executor)

    def watch(scheduler: Scheduler) -> None:
        choose = scheduler.choose

        def counted() -> list[Chunk]:
            calls.append(len(scheduler.running))
            return choose()

        vars(scheduler)["choose"] = counted

    harness.engine(team, EngineParts(num_blocks=num_blocks), watch=watch)
    harness.run()
    assert calls == asked
