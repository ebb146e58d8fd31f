"""Which transfers hinder each other, and for how long they are under way together."""

from __future__ import annotations

import pytest

from simsys.executors.meets import Meets, Use
from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.fifo import CutThroughNetwork
from simsys.platform.topology import LinkSpec, Topology

SLOW, FAST, LATENCY_S = 1e9, 4e9, 1e-6


def meets(trunk_bytes_per_s: float, network: type[FairNetwork | CutThroughNetwork] = FairNetwork) -> Meets:
    """GPUs 0 to 3 send to GPUs 4 to 7 over one trunk, each over a slow link of its own at both ends."""
    ends = [LinkSpec(gpu, 8, SLOW, LATENCY_S, "out") for gpu in range(4)]
    ends += [LinkSpec(9, 4 + gpu, SLOW, LATENCY_S, "in") for gpu in range(4)]
    trunk = LinkSpec(8, 9, trunk_bytes_per_s, LATENCY_S, "trunk")
    return Meets(network(Environment(), Topology(8, 10, (*ends, trunk), "dumbbell")), lambda: 0.0)


def message(found: Meets, gpu: int, name: str) -> Use:
    return found.use(name, [([(gpu, gpu + 4)], 1.0)], [0])


@pytest.mark.parametrize(("trunk", "hindered_s"), [(SLOW, 0.5), (1.5 * SLOW, 0.25), (2 * SLOW, 0.0)])
def test_two_hinder_each_other_on_a_link_that_is_too_narrow_for_both(trunk: float, hindered_s: float) -> None:
    found = meets(trunk)
    found.note(message(found, 0, "one"), 0.0, 1.0)
    found.note(message(found, 1, "other"), 0.5, 1.5)
    assert found.together_s == pytest.approx(hindered_s)
    assert (found.busy_s, found.noted_s) == (2.0, 1.5)
    assert sum(found.pairs.values()) == found.together_s


def test_links_that_serve_in_turn_are_waited_for_however_wide_they_are() -> None:
    found = meets(100 * SLOW, CutThroughNetwork)
    found.note(message(found, 0, "one"), 0.0, 1.0)
    found.note(message(found, 1, "other"), 0.5, 1.5)
    assert found.together_s == pytest.approx(0.5)


def test_three_are_too_many_where_any_two_are_not() -> None:
    found = meets(2 * SLOW)
    for gpu in range(3):
        found.note(message(found, gpu, f"gpu {gpu}"), 0.0, 1.0)
    assert found.together_s == 1.0


def test_one_after_the_other_do_not_meet() -> None:
    found = meets(SLOW)
    found.note(message(found, 0, "one"), 0.0, 1.0)
    found.note(message(found, 1, "other"), 1.0, 2.0)
    assert (found.together_s, found.pairs, found.narrowest()) == (0.0, {}, "")


def test_a_part_of_the_time_counts_if_they_are_busy_for_a_part_of_it() -> None:
    found = meets(SLOW)
    found.note(message(found, 0, "one"), 0.0, 1.0, 0.25)
    found.note(message(found, 1, "other"), 0.0, 1.0, 0.75)
    assert found.together_s == pytest.approx(0.25)


def test_messages_of_a_program_meet_one_by_one() -> None:
    found = meets(SLOW)
    one, other = message(found, 0, "one"), message(found, 1, "other")
    found.note_messages([(one, [0.0, 4.0], 1.0, 2.0), (other, [0.5, 2.0], 1.0, 2.0)])
    assert found.pairs == {("other", "one"): pytest.approx(0.5)}


def test_the_narrowest_link_is_named() -> None:
    found = meets(1.5 * SLOW)
    found.note(message(found, 0, "one"), 0.0, 1.0)
    found.note(message(found, 1, "other"), 0.0, 1.0)
    assert found.narrowest() == found._network.link_name(8)


def test_mirrors_that_fall_out_of_step_are_noted() -> None:
    found = meets(SLOW)
    use = found.use("all_reduce", [([(0, 4)], 1.0)], [0, 1], splits=True)
    assert found.out_of_step is None
    found.note(use, 0.0, 1.0)
    assert found.out_of_step is use
    assert found.narrowest()
