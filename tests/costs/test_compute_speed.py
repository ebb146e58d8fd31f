"""GPUs that are slow for some time, and links that are weak for some time, in whole runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.build.job import build_job
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import overlaid
from simsys.costs.compute_speed import ComputeSpeed, WorkCost
from simsys.metrics.result import RunResult
from simsys.ops import Compute
from simsys.parallel.layout import Layout
from simsys.platform.device_spec import DeviceSpec
from simsys.platform.platform import Platform
from simsys.platform.timeline import Period, timeline
from simsys.platform.topology import full_mesh
from simsys.simulation import simulate
from tests.agreement.test_training_mixes import config_of
from tests.costs.test_jitter import assert_equal_rows
from tests.helpers.thorough import cases
from tests.helpers.toys import TOY, work_of


def halved(spec: DeviceSpec, start_s: float, end_s: float) -> Any:
    slow = spec.__class__(**{**{name: getattr(spec, name) for name in spec.__slots__}, "speed": 0.5})
    return timeline([Period(start_s, end_s)], lambda inside: slow if inside else spec)


def test_a_computation_keeps_the_speed_that_it_begins_with() -> None:
    platform = Platform([TOY] * 2, full_mesh(2, 1e9, 0.0), speeds={1: halved(TOY, 10.0, 20.0)})
    speed = ComputeSpeed(platform.devices, 0.0, 0.0, None, {0: [0], 1: [1]})
    op = Compute(1, work_of(4.0), "work")
    seconds = [speed.seconds(op, start_s) for start_s in (0.0, 9.0, 10.0, 19.0, 20.0)]
    assert seconds == pytest.approx([4.0, 4.0, 8.0, 8.0, 4.0])
    assert speed.seconds(Compute(0, work_of(4.0), "work"), 15.0) == pytest.approx(4.0)


def test_a_team_is_as_fast_as_its_slowest_device_at_the_time() -> None:
    platform = Platform([TOY] * 2, full_mesh(2, 1e9, 0.0), speeds={1: halved(TOY, 10.0, 20.0)})
    speed = ComputeSpeed(platform.devices, 0.0, 0.0, None, {0: [0], 1: [1]})
    team = Layout(tensor=2).group(0, "tensor")
    assert [speed.team_spec(team, time_s).speed for time_s in (0.0, 15.0, 25.0)] == [1.0, 0.5, 1.0]


def test_a_gpu_that_waits_for_its_launches_is_not_busy() -> None:
    platform = Platform([TOY], full_mesh(1, 1e9, 0.0))
    (gpu,) = platform.devices
    speed = ComputeSpeed(platform.devices, 0.0, 3.0, None, {0: [0]})
    launched, waits = Compute(0, work_of(4.0), "work"), Compute(0, replace(work_of(1.0), layers=2), "work")
    ends_s = [gpu.compute(0.0, partial(speed.seconds, op)) for op in (launched, waits)]
    assert ends_s == pytest.approx([4.0, 6.0])
    assert gpu.busy_s == pytest.approx(5.0)


def test_power_is_equal_at_both_levels_where_launches_limit_and_ranks_vary() -> None:
    config = SimulationConfig(
        hardware={"profile": "dgx-h100", "jitter": {"compute": 0.1}},
        model={"name": "BERT-Large", "sequence_length": 128},
        parallelism={"strategy": "FSDP", "dp_degree": 8},
        training={"batch_size_per_gpu": 4, "num_iterations": 30},
    )
    high, medium = (
        simulate(config.model_copy(update={"simulation": config.simulation.model_copy(update={"lod": lod})}))
        for lod in ("high", "medium")
    )
    assert medium.metrics["gpu_power_watt"] == pytest.approx(high.metrics["gpu_power_watt"], rel=5e-3)


def ddp(lod: str = "medium", iterations: int = 12, network: Any = None, **hardware: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100", "num_nodes": 2, **hardware},
        network=network or {},
        model={"name": "GPT2-Small"},
        parallelism={"strategy": "DDP"},
        training={"batch_size_per_gpu": 8, "num_iterations": iterations, "communication_pattern": "ring"},
        simulation={"lod": lod},
    )


def run(config: SimulationConfig) -> RunResult:
    assert check_config(config) == []
    return simulate(config)


SLOW = {"gpus": [3], "from": "100 ms", "until": "300 ms", "speed": 0.5}


def test_iterations_are_slow_while_a_gpu_is() -> None:
    high, medium = (run(ddp(lod, slowdowns=[SLOW])) for lod in ("high", "medium"))
    assert_equal_rows(high, medium)
    plain = run(ddp()).rows["iteration_s"][0]
    always = run(ddp(exceptions=[{"gpus": [3], "speed": 0.5}])).rows["iteration_s"][0]
    starts_s, now = [], 0.0
    for seconds in high.rows["iteration_s"]:
        starts_s.append(now)
        now += seconds
    for start_s, seconds in zip(starts_s, high.rows["iteration_s"], strict=True):
        end_s = start_s + seconds
        if end_s < 0.1 or start_s > 0.3:
            assert seconds == pytest.approx(plain, rel=1e-9)
        elif start_s > 0.1 and end_s < 0.3:
            assert seconds == pytest.approx(always, rel=1e-9)
        else:
            assert plain * (1 - 1e-9) < seconds < always * (1 + 1e-9)


def test_a_slowdown_from_beginning_to_end_is_an_exception() -> None:
    slowed = run(ddp(slowdowns=[{"nodes": [1], "speed": 0.7}]))
    different = run(ddp(exceptions=[{"nodes": [1], "speed": 0.7}]))
    assert list(slowed.rows["iteration_s"]) == list(different.rows["iteration_s"])


def test_slowdowns_that_overlap_multiply() -> None:
    twice = run(ddp(slowdowns=[{"gpus": [3], "speed": 0.5}, {"nodes": [0], "speed": 0.5}]))
    once = run(ddp(exceptions=[{"gpus": [3], "speed": 0.25}, {"gpus": [0, 1, 2, 4, 5, 6, 7], "speed": 0.5}]))
    assert list(twice.rows["iteration_s"]) == list(once.rows["iteration_s"])


def test_iterations_are_told_on_each_side_of_a_change_and_simulated_across_it() -> None:
    """Hundreds of iterations, and two changes: few of them are simulated."""
    slow = {**SLOW, "from": "8 s", "until": "10 s"}
    steady, changing = run(ddp(iterations=200)), run(ddp(iterations=200, slowdowns=[slow]))
    per_iteration = run(ddp(iterations=200, jitter={"compute": 0.01})).events / 200
    assert changing.events < steady.events * 4 + 30 * per_iteration
    high = run(ddp("high", iterations=200, slowdowns=[slow]))
    assert_equal_rows(high, changing)


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Any]:
    tensor, stages, data = (draw(st.sampled_from(degrees)) for degrees in ((1, 2), (1, 2, 4), (1, 2)))
    gpus = tensor * stages * data
    slow = []
    for _ in range(draw(st.integers(1, 3))):
        start_ms, length_ms = draw(st.floats(0.01, 20.0)), draw(st.floats(0.1, 20.0))
        slow.append(
            {
                "gpus": draw(st.lists(st.integers(0, gpus - 1), min_size=1, max_size=2, unique=True)),
                "from": f"{start_ms} ms",
                "until": f"{start_ms + length_ms} ms",
                "speed": draw(st.sampled_from([0.3, 0.8])),
            }
        )
    return {
        "tensor": tensor,
        "stages": stages,
        "data": data,
        "schedule": draw(st.sampled_from(["1f1b", "gpipe", "zero_bubble"])),
        "micro_batches": draw(st.integers(1, 4)),
        "hardware": {"gpu": "H100-SXM", "num_nodes": gpus, "gpus_per_node": 1, "slowdowns": slow},
    }


@settings(max_examples=cases(40))
@given(changes())
def test_levels_agree_whatever_is_slow_when(mix: dict[str, Any]) -> None:
    configs = [config_of(lod=lod, **mix) for lod in ("high", "medium")]
    assert check_config(configs[0]) == []
    assert_equal_rows(*map(simulate, configs))


def test_a_serving_team_is_slow_while_a_gpu_of_it_is() -> None:
    def served(lod: str, **slow: Any) -> RunResult:
        return run(
            SimulationConfig(
                hardware={"profile": "dgx-h100", "gpus_per_node": 2, **slow},
                model={"name": "Llama3-8B"},
                parallelism={"strategy": "TP", "tp_degree": 2},
                serving={},
                workload={
                    "arrivals": {"kind": "all_at_once"},
                    "prompt_tokens": 64,
                    "output_tokens": 100,
                    "num_requests": 4,
                },
                simulation={"lod": lod},
            )
        )

    slow = {"slowdowns": [{"gpus": [1], "from": "200 ms", "until": "350 ms", "speed": 0.25}]}
    high, medium = (served(lod, **slow) for lod in ("high", "medium"))
    plain = served("medium").metrics["mean_tpot_ms"]
    always = served("medium", exceptions=[{"gpus": [1], "speed": 0.25}]).metrics["mean_tpot_ms"]
    assert medium.metrics["mean_tpot_ms"] == pytest.approx(high.metrics["mean_tpot_ms"], rel=1e-9)
    assert plain < medium.metrics["mean_tpot_ms"] < always


def test_a_pass_through_a_stage_is_as_fast_as_the_gpu_when_it_begins_there() -> None:
    """And not when its batch entered the pipeline: the GPU of the second stage may have become slow meanwhile."""

    def finished_s(lod: str) -> list[float]:
        config = SimulationConfig(
            hardware={
                "profile": "dgx-h100",
                "gpus_per_node": 2,
                "slowdowns": [{"gpus": [1], "from": "200 ms", "until": "350 ms", "speed": 0.25}],
            },
            model={"name": "Llama3-8B"},
            parallelism={"strategy": "PP", "pp_stages": 2},
            serving={},
            workload={
                "arrivals": {"kind": "all_at_once"},
                "prompt_tokens": 64,
                "output_tokens": 100,
                "num_requests": 1,
            },
            simulation={"lod": lod},
        )
        return list(run(config).rows["finished_s"])

    assert finished_s("medium") == pytest.approx(finished_s("high"), rel=1e-9)


# --- links ---

LEVELS = ("high", "medium")
WEAK_NICS = {"links": {"kind": "nic", "nodes": [1]}, "bandwidth": 0.2, "latency_factor": 2}


@pytest.mark.parametrize("contention", ["fifo", "fair"])
@pytest.mark.parametrize(
    "links",
    [
        {"kind": "nic"},
        {"kind": "nic", "nodes": [1]},
        {"kind": "nvswitch", "nodes": [0]},
        {"from": "gpu 3 of node 1"},
        {"ids": [0, 40]},
    ],
    ids=str,
)
def test_levels_agree_on_links_that_are_always_weak(links: dict[str, Any], contention: str) -> None:
    network = {"contention": contention, "degradations": [{"links": links, "bandwidth": 0.2, "latency_factor": 2}]}
    assert_equal_rows(*(run(ddp(lod, iterations=3, network=network)) for lod in ("high", "medium")))


@pytest.mark.parametrize(("tensor", "nic"), [(8, 2), (2, 6)])
def test_roles_split_where_only_some_groups_pass_a_weak_link(tensor: int, nic: int) -> None:
    """Of the groups across nodes, one goes over the weak card; its tensor-parallel mates wait for it."""

    def config(lod: str, *weak: dict[str, Any]) -> SimulationConfig:
        return SimulationConfig(
            hardware={"profile": "dgx-h100", "num_nodes": 4},
            network={"degradations": list(weak)},
            model={"name": "GPT2-Medium"},
            parallelism={"strategy": "TP_DDP", "tp_degree": tensor},
            training={"batch_size_per_gpu": 1, "num_iterations": 2, "communication_pattern": "ring"},
            simulation={"lod": lod},
        )

    weak = {"links": {"from": f"gpu {nic} of node 3", "kind": "nic"}, "bandwidth": 0.05}
    high, medium = (simulate(config(lod, weak)) for lod in ("high", "medium"))
    assert high.rows["iteration_s"][0] > 1.2 * simulate(config("medium")).rows["iteration_s"][0]
    assert_equal_rows(high, medium)
    assert len(build_job(config("medium", weak)).roles()) < 32 or tensor < 8


def test_collectives_take_the_links_as_they_are_when_they_begin() -> None:
    """At medium for all of their time; at high their later steps see the change. Away from changes both agree."""
    plain = run(ddp()).rows["iteration_s"][0]
    always = run(ddp(network={"degradations": [WEAK_NICS]})).rows["iteration_s"][0]
    weak = {**WEAK_NICS, "from": f"{5.5 * plain} s", "until": f"{5.5 * plain + 6.5 * always} s"}
    high, medium = (run(ddp(lod, 16, network={"degradations": [weak]})).rows["iteration_s"] for lod in LEVELS)
    assert list(medium[:5]) == pytest.approx([plain] * 5, rel=1e-9)
    assert list(high[:5]) == pytest.approx([plain] * 5, rel=1e-9)
    assert list(medium[6:11]) == pytest.approx(list(high[6:11]), rel=1e-9)
    # Protocols are chosen with the links of the beginning, so they need not cost what they cost on weak links.
    assert medium[6] == pytest.approx(always, rel=0.05)
    assert high[-1] == pytest.approx(plain, rel=1e-9)
    assert medium[-1] == pytest.approx(plain, rel=1e-9)
    assert sum(high) == pytest.approx(sum(medium), rel=0.01)


def test_a_serving_team_across_weak_links_waits_for_them() -> None:
    def served(lod: str, *weak: dict[str, Any]) -> float:
        config = SimulationConfig(
            hardware={"profile": "dgx-h100", "num_nodes": 2},
            network={"degradations": list(weak)},
            model={"name": "Llama3-8B"},
            parallelism={"strategy": "TP", "tp_degree": 4},
            serving={"communication_pattern": "ring"},
            workload={
                "arrivals": {"kind": "all_at_once"},
                "prompt_tokens": 64,
                "output_tokens": 16,
                "num_requests": 8,
            },
            simulation={"lod": lod},
        )
        return float(run(config).metrics["mean_tpot_ms"])

    weak = {"links": {"kind": "nvswitch", "nodes": [1]}, "bandwidth": 0.05}
    assert served("medium", weak) == pytest.approx(served("high", weak), rel=1e-9)
    half, all_of_it = served("medium", weak), served("medium", {**weak, "links": {"kind": "nvswitch"}})
    assert half - served("medium") == pytest.approx((all_of_it - served("medium")) / 2, rel=1e-6), "two teams of four"


def test_a_computation_ends_when_it_is_done_and_launched() -> None:
    platform = Platform([TOY], full_mesh(1, 1e9, 0.0))
    speed = ComputeSpeed(platform.devices, 0.25, 1.0, None, {0: [0]})
    short, long = (Compute(0, work_of(seconds, layers=1.0), "work") for seconds in (0.5, 4.0))
    assert speed.seconds(short, 0.0) == 1.25, "what the host needs for a layer"
    assert speed.seconds(short, 1.25) == 1.25
    assert speed.seconds(short, 3.5) == 0.75, "launched while the GPU did something else"
    assert speed.seconds(long, 4.25) == 4.25
    assert speed.seconds(short, 8.5) == 0.75


def test_launches_run_ahead_of_tensor_parallel_collectives() -> None:
    def step_s(lod: str, launch: str, bandwidth: str) -> float:
        config = config_of(4, 2, 1, lod=lod, bandwidth=bandwidth)
        with overlaid({("engine", "pytorch"): {"launch_per_layer": launch}}):
            return float(run(config).rows["iteration_s"][0])

    for launch in ("0 s", "100 us", "2 ms"):
        assert step_s("high", launch, "50 GB/s") == pytest.approx(step_s("medium", launch, "50 GB/s"), rel=1e-9)
    bound, quick = step_s("medium", "2 ms", "50 GB/s"), step_s("medium", "2 ms", "400 GB/s")
    exchange_s = step_s("medium", "0 s", "50 GB/s") - step_s("medium", "0 s", "400 GB/s")
    assert 0.0 <= bound - quick < 0.1 * exchange_s, "collectives take place while the host launches"


def test_the_cost_of_work_is_that_of_its_kernels_and_layers() -> None:
    cost = WorkCost(0.25)
    assert cost.seconds(work_of(2.0, layers=3.0), TOY) == 2.75
    work = work_of(1.0)
    slower = replace(TOY, peak_flop_per_s={"bf16": 5e11})
    assert [cost.seconds(work, spec) for spec in (TOY, slower, TOY, slower)] == [1.0, 2.0, 1.0, 2.0]
