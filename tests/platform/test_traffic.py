"""The communication graph: what was counted, pair by pair."""

from __future__ import annotations

import pytest

from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.fifo import CutThroughNetwork
from simsys.platform.network import Network
from simsys.platform.topology import single_switch
from simsys.platform.traffic import Traffic


def test_transfers_and_what_goes_together_are_added_up_in_order() -> None:
    traffic = Traffic()
    exchange = traffic.account(lambda: [(1, 0, 0.5), (0, 1, 0.25), (1, 0, 0.5)])
    exchange.nbytes += 8.0
    traffic.between(0, 1).nbytes += 1.0
    traffic.between(0, 1).nbytes += 2.0
    traffic.between(2, 0).nbytes += 4.0
    assert traffic.columns() == {"src": [0, 1, 2], "dst": [1, 0, 0], "nbytes": [5.0, 8.0, 4.0]}


def test_what_was_never_sent_or_stayed_at_home_is_left_out() -> None:
    traffic = Traffic()
    traffic.account(lambda: [(0, 1, 1.0)])
    traffic.between(3, 3).nbytes += 5.0
    assert traffic.columns() == {"src": [], "dst": [], "nbytes": []}


def test_what_was_counted_in_between_can_be_repeated() -> None:
    traffic = Traffic()
    traffic.between(0, 1).nbytes += 3.0
    before = traffic.counted()
    traffic.between(0, 1).nbytes += 2.0
    traffic.repeat([after - since for after, since in zip(traffic.counted(), before, strict=True)], 10)
    traffic.between(1, 0).nbytes += 1.0
    assert traffic.columns()["nbytes"] == [25.0, 1.0]


@pytest.mark.parametrize("kind", [CutThroughNetwork, FairNetwork])
def test_a_network_counts_from_gpu_to_gpu_and_not_link_by_link(kind: type[Network]) -> None:
    network = kind(Environment(), single_switch(3, 1.0, 0.0))
    network.transfer(0, 2, 5.0)
    network.transfer(0, 2, 2.0)
    network.transfer(1, 0, 0.0)
    assert network.traffic.columns() == {"src": [0], "dst": [2], "nbytes": [7.0]}
