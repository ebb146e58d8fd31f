"""What transfers have to do with those of other jobs, mirror by mirror."""

from __future__ import annotations

import pytest

from simsys.executors.meets import Meets
from simsys.executors.other_jobs import able_to_meet, exchanges, mirrored, most_loaded, sharing_mirrors
from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.topology import LinkSpec
from tests.executors.test_meets import LATENCY_S, SLOW, dumbbell


@pytest.mark.parametrize(("trunk", "able"), [(SLOW, {(0, 4)}), (2 * SLOW, set())])
def test_transfers_of_other_jobs_are_met_on_the_same_links(trunk: float, able: set[tuple[int, ...]]) -> None:
    network = FairNetwork(Environment(), dumbbell(trunk))
    one, other = Meets(network, lambda: 0.0), Meets(network, lambda: 0.0)
    one.use("here", [([(0, 4)], 1.0)], [0], user=(0, 4))
    other.use("there", [([(1, 5)], 1.0)], [0], user=(1, 5))
    assert able_to_meet(one, [other]) == able


def test_of_mirrors_only_those_on_the_same_links_are_met() -> None:
    """The first and the second are on the trunk with another job; the third has a link of its own."""
    network = FairNetwork(Environment(), dumbbell(SLOW, LinkSpec(2, 6, SLOW, LATENCY_S, "direct")))
    one, other = Meets(network, lambda: 0.0), Meets(network, lambda: 0.0)
    one.use("here", [([(0, 4)], 1.0)], [0, 1, 2], user=(0, 4))
    other.use("there", [([(3, 7)], 1.0)], [0], user=(3, 7))
    assert able_to_meet(one, [other]) == {(0, 4), (1, 5)}
    assert mirrored(one, {(1, 5)})
    assert not mirrored(other, {(3, 7)})
    assert sharing_mirrors(one) == {(0, 4), (1, 5), (2, 6)}
    assert most_loaded(one, [other]) == network.link_name(8)
    assert most_loaded(one, []) == ""


def test_every_mirror_exchanges_for_itself() -> None:
    network = FairNetwork(Environment(), dumbbell(SLOW))
    own = Meets(network, lambda: 0.0)
    own.use("here", [([(0, 4)], 1.0)], [0, 1], user=(0, 4))
    found = list(exchanges(own, 7, {(1, 5)}))
    assert [(each.job, each.kind, each.ranks) for each in found] == [(7, 0, (0, 4)), (7, 0, (1, 5))]
    assert [list(each.steps) for each in found] == [[], [[network.way(1, 5)]]]
