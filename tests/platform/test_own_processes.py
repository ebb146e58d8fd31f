"""Scenarios beside SimPy processes of the user's own, at both levels of detail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import simpy
from simpy.events import Event

from simsys import DistributedAISimulator, VirtualHardwarePlatform
from simsys.config.experiment import SimulationConfig
from simsys.errors import ConfigError, DeadlockError, UnknownNameError, UsageError
from simsys.metrics.result import RunResult
from simsys.platform.platform import Platform
from simsys.simulation import Processes, simulate
from tests.helpers.random_scenarios import training_scenario

LEVELS = ("medium", "high")
FIFO = {"contention": "fifo"}


def training(lod: str, **parallelism: Any) -> SimulationConfig:
    return SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-h100", "num_nodes": 2},
            "network": FIFO,
            "model": {"name": "GPT2-Small"},
            "training": {"batch_size_per_gpu": 4, "num_iterations": 3},
            "parallelism": parallelism,
            "simulation": {"lod": lod},
        }
    )


def serving(lod: str) -> SimulationConfig:
    return SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-h100"},
            "network": FIFO,
            "model": {"name": "Llama3-8B"},
            "parallelism": {"tp_degree": 2},
            "workload": {
                "num_requests": 8,
                "arrivals": {"kind": "poisson", "rate": "20 req/s"},
                "prompt_tokens": 64,
                "output_tokens": 8,
            },
            "serving": {},
            "simulation": {"lod": lod},
        }
    )


def end_s(config: SimulationConfig, processes: Processes | None = None) -> float:
    return DistributedAISimulator(config, processes=processes).run().simulated_s


def hold(server: Any, env: simpy.Environment, seconds: float, pause_s: float = 0.0) -> Iterator[Event]:
    """Keep a server for a while; again and again after pauses, if there are any."""
    while True:
        with server.request() as turn:
            yield turn
            yield env.timeout(seconds)
        if not pause_s:
            return
        yield env.timeout(pause_s)


@pytest.mark.parametrize(
    "parallelism", [{}, {"strategy": "FSDP"}, {"pp_stages": 2}, {"strategy": "TP_DDP", "tp_degree": 4}]
)
def test_a_run_on_gpus_that_others_have_first_takes_as_much_longer(parallelism: dict[str, Any]) -> None:
    def all_first(platform: Platform) -> Iterator[Iterator[Event]]:
        return (hold(gpu, platform.env, 5.0) for gpu in platform.devices)

    ends = [(end_s(training(lod, **parallelism), all_first), end_s(training(lod, **parallelism))) for lod in LEVELS]
    for later_s, alone_s in ends:
        assert 5.0 + 0.95 * alone_s < later_s <= 5.0 + alone_s, "what the host launched meanwhile has been launched"
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


@pytest.mark.parametrize("lod", LEVELS)
def test_background_traffic_slows_what_shares_its_link(lod: str) -> None:
    def on_a_rail(platform: Platform) -> Iterator[Iterator[Event]]:
        yield hold(platform.get_links(0, 8)[1], platform.env, 5e-3, 5e-4)

    config = training(lod)
    alone_s = end_s(config)
    assert end_s(config, on_a_rail) > 1.2 * alone_s
    assert end_s(config, lambda _: []) == pytest.approx(alone_s, rel=1e-9)


def test_both_levels_agree_beside_processes_of_the_user() -> None:
    def busy(platform: Platform) -> Iterator[Iterator[Event]]:
        yield hold(platform.get_links(0, 8)[1], platform.env, 5e-3, 5e-4)
        yield hold(platform.devices[3], platform.env, 1e-2, 2e-3)

    assert end_s(training("medium"), busy) == pytest.approx(end_s(training("high"), busy), rel=1e-9)


@pytest.mark.parametrize("seed", [4, 9, 14, 29, 48])  # 9: collectives of three steps and messages meet on links
def test_at_medium_too_every_rank_is_a_process_on_shared_hardware(seed: int) -> None:
    def run(lod: str) -> RunResult:
        given = training_scenario(seed)
        given["simulation"]["lod"] = lod
        return simulate(SimulationConfig.model_validate(given), processes=lambda _: [])

    medium, high = run("medium"), run("high")
    assert medium.simulated_ranks == high.simulated_ranks == high.world_size
    assert medium.metrics["steady_iteration_s"] == pytest.approx(high.metrics["steady_iteration_s"], rel=1e-9)


def test_engines_refuse_requests_of_their_gpus_and_at_medium_of_links() -> None:
    def on_gpu(platform: Platform) -> Iterator[Iterator[Event]]:
        yield hold(platform.devices[0], platform.env, 1.0)

    def on_link(platform: Platform) -> Iterator[Iterator[Event]]:
        yield hold(platform.get_links(0, 1)[0], platform.env, 5e-3, 5e-4)

    for lod, processes in [("high", on_gpu), ("medium", on_gpu), ("medium", on_link)]:
        with pytest.raises(UsageError, match="cannot be requested"):
            end_s(serving(lod), processes)
    assert end_s(serving("high"), on_link) > 1.05 * end_s(serving("high"))


def test_a_process_that_keeps_a_gpu_for_ever_is_named() -> None:
    def for_ever(platform: Platform) -> Iterator[Iterator[Event]]:
        def keep() -> Iterator[Event]:
            yield platform.devices[0].request()

        yield keep()

    with pytest.raises((DeadlockError, UsageError), match=r"deadlock|keeps a GPU or a link for ever"):
        end_s(training("high"), for_ever)


def test_jobs_that_share_a_cluster_have_no_processes_beside_them() -> None:
    given = training("medium").model_dump(exclude_unset=True)
    config = SimulationConfig.model_validate({**given, "jobs": [{"name": "a", "gpus": 8}]})
    with pytest.raises(UsageError, match="need a single scenario"):
        simulate(config, processes=lambda _: [])


@pytest.mark.parametrize("env", [simpy.Environment(), None])
def test_a_platform_is_built_from_a_profile(env: simpy.Environment | None) -> None:
    platform = VirtualHardwarePlatform.from_profile("dgx-h100", nodes=2, env=env)
    assert isinstance(platform, VirtualHardwarePlatform)
    assert len(platform.devices) == 16
    assert platform.devices[15].spec.name == "H100-SXM"
    assert env is None or platform.env is env
    inside, between = platform.get_links(0, 1), platform.get_links(0, 8)
    assert len(inside) < len(between)
    platform.env.run(platform.submit_network_transfer_task(0, 8, 1e9))
    assert platform.env.now == pytest.approx(1e9 / 50e9, rel=0.2), "a NIC has 400 Gb/s"
    with between[1].request() as turn:
        platform.env.run(turn)


def test_a_profile_and_the_network_beside_it_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="dgx-h10"):
        VirtualHardwarePlatform.from_profile("dgx-h10")
    with pytest.raises(ConfigError, match="contention"):
        VirtualHardwarePlatform.from_profile("dgx-h100", network={"contention": "lifo"})
    fair = VirtualHardwarePlatform.from_profile("dgx-h100", network={"contention": "fair"})
    with pytest.raises(UsageError, match="have no turns"):
        fair.get_links(0, 1)[0].request()
