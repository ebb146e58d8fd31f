"""The virtual hardware: tasks on GPUs and links, and how busy the GPUs were."""

from __future__ import annotations

import math
from typing import Any

import pytest

from simsys.errors import InfeasibleError, UsageError
from simsys.platform.contention import NETWORKS
from simsys.platform.environment import Environment
from simsys.platform.network import Network
from simsys.platform.platform import Platform
from simsys.platform.topology import ring
from tests.helpers.toys import BANDWIDTH, LATENCY, TOY


def toy_platform(gpus: int = 2) -> Platform:
    return Platform([TOY] * gpus, ring(gpus, BANDWIDTH, LATENCY))


def test_a_platform_has_one_device_per_gpu_of_its_topology_and_one_clock() -> None:
    env = Environment(4.0)
    platform = Platform([TOY] * 3, ring(3, BANDWIDTH, LATENCY), env)
    assert platform.env is platform.network.env is env
    assert [device.index for device in platform.devices] == [0, 1, 2]
    assert all(device.memory.capacity_bytes == TOY.memory_bytes for device in platform.devices)
    assert len({id(device.memory) for device in platform.devices}) == 3


def test_devices_and_topology_must_fit() -> None:
    with pytest.raises(UsageError, match="2 devices do not fit a topology of 3 GPUs"):
        Platform([TOY] * 2, ring(3, BANDWIDTH, LATENCY))


@pytest.mark.parametrize(
    ("task", "seconds"),
    [
        ({"flop": 5e12}, 5.0),
        ({"nbytes": 3e11}, 3.0),
        ({"flop": 5e12, "nbytes": 3e11}, 5.0),  # the roofline: the longer of the two
        ({"flop": 2e12, "nbytes": 3e11}, 3.0),
        ({}, 0.0),
    ],
)
def test_a_computation_takes_as_long_as_the_roofline_says(task: dict[str, float], seconds: float) -> None:
    platform = toy_platform()
    platform.env.run(platform.submit_computation_task(0, **task))
    assert platform.env.now == seconds


def test_tasks_of_one_gpu_run_in_order_and_those_of_two_side_by_side() -> None:
    platform, ends = toy_platform(), []
    for gpu, flop in [(0, 2e12), (0, 1e12), (1, 2.5e12)]:
        event = platform.submit_computation_task(gpu, flop=flop)
        event.callbacks.append(lambda _, gpu=gpu: ends.append((gpu, platform.env.now)))
    platform.env.run()
    assert ends == [(0, 2.0), (1, 2.5), (0, 3.0)]


def test_a_process_can_compute_and_then_send() -> None:
    platform = toy_platform()

    def work() -> Any:
        yield platform.submit_computation_task(0, flop=1e12)
        yield platform.submit_network_transfer_task(0, 1, 50e9)
        yield platform.submit_computation_task(1, flop=1e12)

    platform.env.run(platform.env.process(work()))
    assert platform.env.now == pytest.approx(3.0 + LATENCY)


def test_utilization_is_the_busy_share_so_far() -> None:
    platform = toy_platform()
    assert platform.utilization() == [0.0, 0.0]
    platform.submit_computation_task(0, flop=4e12)
    platform.submit_computation_task(0, flop=2e12)
    platform.env.run(until=3.0)
    assert platform.utilization() == [1.0, 0.0]
    platform.submit_computation_task(1, flop=1e12)
    platform.env.run(until=8.0)
    assert platform.utilization() == [0.75, 0.125]


def test_a_dtype_the_device_lacks_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="toy has no int4 arithmetic"):
        toy_platform().submit_computation_task(0, flop=1.0, dtype="int4")


@pytest.mark.parametrize("gpu", [-1, 2])
def test_a_gpu_that_does_not_exist_is_refused(gpu: int) -> None:
    platform = toy_platform()
    with pytest.raises(UsageError, match=f"0 to 1, not {gpu}"):
        platform.submit_computation_task(gpu, flop=1.0)
    with pytest.raises(UsageError, match=f"0 to 1, not {gpu}"):
        platform.submit_network_transfer_task(0, gpu, 1.0)


@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf])
def test_impossible_amounts_are_refused(amount: float) -> None:
    platform = toy_platform()
    with pytest.raises(UsageError, match="finite and not negative"):
        platform.submit_computation_task(0, flop=amount)
    with pytest.raises(UsageError, match="finite and not negative"):
        platform.submit_computation_task(0, nbytes=amount)
    with pytest.raises(UsageError, match="finite and not negative"):
        platform.submit_network_transfer_task(0, 1, amount)
    platform.env.run()
    assert platform.env.now == 0.0


def test_links_and_gpus_say_what_they_carried() -> None:
    hardware = toy_platform(3)
    hardware.submit_network_transfer_task(0, 1, 2e6)
    hardware.submit_network_transfer_task(0, 2, 1e6)
    hardware.submit_computation_task(2, flop=1e9)
    hardware.env.run()
    links, gpus = hardware.link_statistics(), hardware.gpu_statistics()
    assert list(zip(links["src"], links["dst"], links["nbytes"], strict=True)) == [(0, 1, 2e6), (0, 2, 1e6)]
    assert 0 < links["utilization"][1] < links["utilization"][0] <= 1
    assert links["queued_s"] == [0.0, 0.0]
    assert hardware.traffic() == {"src": [0, 0], "dst": [1, 2], "nbytes": [2e6, 1e6]}
    assert gpus["sent_bytes"] == [3e6, 0, 0]
    assert gpus["received_bytes"] == [0, 2e6, 1e6]
    assert [share > 0 for share in gpus["utilization"]] == [False, False, True]


@pytest.mark.parametrize("network", NETWORKS.values(), ids=lambda network: network.contention)
def test_the_model_of_contention_is_the_users_choice(network: type[Network[Any]]) -> None:
    hardware = Platform([TOY] * 3, ring(3, BANDWIDTH, LATENCY), network=network)
    for nbytes in (2e6, 1e6):
        hardware.submit_network_transfer_task(0, 1, nbytes)
    hardware.env.run()
    assert hardware.env.now == pytest.approx(3e6 / BANDWIDTH + LATENCY)
    (queued_s,) = hardware.link_statistics()["queued_s"]
    # First come, first served: the second waits for the first. Fair: both at half speed, until the smaller is through.
    assert queued_s == pytest.approx(2e6 / BANDWIDTH)


@pytest.mark.parametrize("contention", NETWORKS)
def test_links_are_brought_up_to_date_once_for_the_figures_of_all_gpus(
    contention: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = Platform([TOY] * 40, ring(40, BANDWIDTH, LATENCY), network=NETWORKS[contention])
    for gpu in range(39):
        platform.env.run(platform.network.transfer(gpu, gpu + 1, 1e6))
    kind, asked = type(platform.network), list[Any]()
    links = kind.links.fget
    monkeypatch.setattr(kind, "links", property(lambda network: asked.append(network) or links(network)))
    traffic = {"src": list(range(39)), "dst": list(range(1, 40)), "nbytes": [1e6] * 39}
    figures = platform.gpu_statistics(platform.payload(traffic))
    assert sum(figures["sent_bytes"]) == 39e6
    assert len(asked) <= 2
