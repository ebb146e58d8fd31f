"""DualPipe: the published bubble and activations, twice the weights, and gradients of both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from frameworks.dualpipe import DualPipe
from simsys.build.job import build_job
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.framework import Action, ActionKind
from simsys.parallel.pipeline_schedule import peak_in_flight
from simsys.simulation import simulate
from simsys.testing.schedules import check_schedule


def config_of(schedule: str = "dualpipe", stages: int = 4, steps: int = 8, **parallelism: Any) -> SimulationConfig:
    data = parallelism.get("ep_degree", 1)
    strategy = "EP_PP_DDP" if data > 1 else "PP"
    return SimulationConfig(
        hardware={"gpu": {"extends": "H200", "memory": "2 TB"}, "num_nodes": 1, "gpus_per_node": stages * data},
        model={"name": "Mixtral-8x7B", "sequence_length": 1024},
        parallelism={
            "strategy": strategy,
            "pp_stages": stages,
            "dp_degree": data,
            "schedule": schedule,
            **parallelism,
        },
        training={"batch_size_per_gpu": 1, "gradient_accumulation_steps": steps, "num_iterations": 1},
    )


def units(stage: int, stages: int, micro_batches: int) -> list[list[Action]]:
    """The passes of a stage; pairs of the main part, and whole backward passes, end at once."""
    order = DualPipe().actions(stage, stages, micro_batches, 2)
    place = min(stage, stages - 1 - stage)
    start = 5 * (stages // 2 - place - 1) + 2 * (place + 1)
    found = [[action] for action in order[:start]]
    while start < len(order):
        whole = [kind for kind, *_ in order[start : start + 3]]
        size = 3 if whole == ["forward", "backward", "weight"] else 2 if whole[:2] == ["backward", "weight"] else 1
        if size == 2 and order[start][1:] != order[start + 1][1:]:
            size = 1
        found.append(order[start : start + size])
        start += size
    return found


def bubbles(stages: int, micro_batches: int, seconds: dict[str, float]) -> list[float]:
    """The idle time of each stage, if messages take no time."""
    orders = [units(stage, stages, micro_batches) for stage in range(stages)]
    done: dict[tuple[str, int, int], float] = {}
    at, now_s, busy_s = [0] * stages, [0.0] * stages, [0.0] * stages
    while any(at[stage] < len(orders[stage]) for stage in range(stages)):
        before = list(at)
        for stage in range(stages):
            while at[stage] < len(orders[stage]):
                passes = [(k.value, n, stages - 1 - stage if c else stage) for k, n, c in orders[stage][at[stage]]]
                needed = inputs(passes, stages)
                if any(each not in done for each in needed):
                    break
                duration_s = sum(seconds[kind] for kind, _, _ in passes)
                now_s[stage] = max([now_s[stage], *(done[each] for each in needed)]) + duration_s
                busy_s[stage] += duration_s
                done.update(dict.fromkeys(passes, now_s[stage]))
                at[stage] += 1
        assert before != at, "deadlock"
    return [max(now_s) - each for each in busy_s]


def inputs(passes: Sequence[tuple[str, int, int]], stages: int) -> list[tuple[str, int, int]]:
    steps = {"forward": -1, "backward": 1}
    found = [(kind, number, place + steps[kind]) for kind, number, place in passes if kind in steps]
    return [each for each in found if 0 <= each[2] < stages]


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 4), (4, 8), (4, 12), (8, 16), (8, 32)])
@pytest.mark.parametrize(("forward_s", "inputs_s", "weights_s"), [(1.0, 1.0, 1.0), (1.0, 1.2, 0.7), (1.0, 1.0, 0.5)])
def test_the_bubble_is_the_published_one(
    stages: int, micro_batches: int, forward_s: float, inputs_s: float, weights_s: float
) -> None:
    """(p/2-1)(F&B + B - 3W), of pairs F&B that are not overlapped: DeepSeek-V3, table 2."""
    whole_s = inputs_s + weights_s
    bubble_s = (stages / 2 - 1) * (forward_s + whole_s + whole_s - 3 * weights_s)
    seconds = {"forward": forward_s, "backward": inputs_s, "weight": weights_s}
    assert bubbles(stages, micro_batches, seconds) == pytest.approx([bubble_s] * stages)


@pytest.mark.parametrize("stages", [2, 4, 8, 16])
def test_every_stage_keeps_one_micro_batch_more_than_there_are_stages(stages: int) -> None:
    """Activations of p + 1 micro-batches: DeepSeek-V3, table 2."""
    orders = [DualPipe().actions(stage, stages, 3 * stages, 2) for stage in range(stages)]
    assert [sum(peak_in_flight(order)) for order in orders] == [stages + 1] * stages


def test_orders_have_every_pass_once_and_no_deadlock() -> None:
    check_schedule(DualPipe)


def test_stages_hold_twice_the_weights_and_compute_as_much() -> None:
    both, plain = build_job(config_of()), build_job(config_of("1f1b"))
    sums = [[stage["parameters"] for stage in job.memory_by_stage] for job in (both, plain)]
    assert sums[0] == pytest.approx([own + other for own, other in zip(sums[1], reversed(sums[1]), strict=True)])
    flop = [sum(plan.flop for plan in job.plans[0]) for job in (both, plain)]
    assert flop[0] == pytest.approx(flop[1], rel=1e-12)


def test_a_pair_of_stages_with_equal_weights_exchanges_their_gradients() -> None:
    job = build_job(config_of())
    assert [job.layout.opposite(rank, "pipeline").ranks for rank in range(4)] == [(0, 3), (1, 2), (1, 2), (0, 3)]


@pytest.mark.parametrize("overlap", [False, True])
def test_it_is_faster_than_1f1b_and_hides_all_to_alls(overlap: bool) -> None:
    found = {
        schedule: simulate(config_of(schedule, steps=8, ep_degree=2, expert_overlap=overlap)).metrics
        for schedule in ("1f1b", "dualpipe")
    }
    assert found["dualpipe"]["bubble_s"] < 0.6 * found["1f1b"]["bubble_s"]
    exposed = simulate(config_of(steps=8, ep_degree=2)).metrics["exposed_expert_s"]
    assert (found["dualpipe"]["exposed_expert_s"] < 0.7 * exposed) == overlap


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"steps": 6}, "at least 2 x 4"),
        ({"steps": 9}, "even number"),
        ({"virtual_stages": 2}, "no virtual stages"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(numbers: dict[str, Any], message: str) -> None:
    assert any(message in each.message for each in check_config(config_of(**numbers)))


def test_gradients_of_weights_follow_at_once_or_last() -> None:
    order = DualPipe().actions(0, 4, 8, 2)
    assert [action.kind for action in order[-2:]] == [ActionKind.BACKWARD, ActionKind.WEIGHT]
