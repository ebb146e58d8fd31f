"""Which transfers hinder each other, and for how long they are under way together."""

from __future__ import annotations

import pytest

from simsys.executors.meets import Meets
from simsys.executors.uses import Use
from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.fifo import CutThroughNetwork
from simsys.platform.topology import LinkSpec, Topology

SLOW, FAST, LATENCY_S = 1e9, 4e9, 1e-6


def dumbbell(trunk_bytes_per_s: float, *more: LinkSpec) -> Topology:
    """GPUs 0 to 3 send to GPUs 4 to 7 over one trunk, each over a slow link of its own at both ends."""
    ends = [LinkSpec(gpu, 8, SLOW, LATENCY_S, "out") for gpu in range(4)]
    ends += [LinkSpec(9, 4 + gpu, SLOW, LATENCY_S, "in") for gpu in range(4)]
    trunk = LinkSpec(8, 9, trunk_bytes_per_s, LATENCY_S, "trunk")
    return Topology(8, 10, (*ends, trunk, *more), "dumbbell")


def meets(trunk_bytes_per_s: float, network: type[FairNetwork | CutThroughNetwork] = FairNetwork) -> Meets:
    return Meets(network(Environment(), dumbbell(trunk_bytes_per_s)), lambda: 0.0)


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
    assert found.narrowest() == found.network.link_name(8)


def test_mirrors_that_fall_out_of_step_are_noted() -> None:
    found = meets(SLOW)
    use = found.use("all_reduce", [([(0, 4)], 1.0)], [0, 1], splits=True)
    assert found.out_of_step is None
    found.note(use, 0.0, 1.0)
    assert found.out_of_step is use
    assert found.narrowest()


@pytest.mark.parametrize("exposed_s", [0.0, 0.25, 1.0])
def test_what_nobody_waits_for_delays_nobody(exposed_s: float) -> None:
    found = meets(SLOW)
    found.note(message(found, 0, "one"), 0.0, 1.0, exposed_s=exposed_s)
    found.note(message(found, 1, "other"), 0.0, 1.0, exposed_s=0.0)
    assert found.together_s == pytest.approx(0.5 * exposed_s)


def test_collectives_of_one_rank_do_not_meet_each_other() -> None:
    found = meets(SLOW)
    one, other = message(found, 0, "one"), message(found, 1, "other")
    found.note_in_turn([(one, 0.5, 0.5), (other, 0.5, 0.5)], 0.0, 1.0)
    assert found.together_s == 0.0
    found.note(message(found, 2, "third"), 0.0, 1.0)
    assert found.together_s == pytest.approx(1.0)


def test_delays_of_ranks_that_wait_for_different_transfers_do_not_add_up() -> None:
    found = meets(SLOW)
    uses = [found.use(f"to {gpu}", [([(gpu, gpu + 4)], 1.0)], [0], user=(gpu, gpu + 4), waits=gpu) for gpu in range(2)]
    for use in uses:
        found.note(use, 0.0, 1.0)
    assert found.together_s == pytest.approx(0.5), "each of two loses half of its time"


def test_steps_that_use_a_link_for_a_part_of_the_time_lose_no_more_there() -> None:
    """A quarter of the collective's time is on the trunk: three quarters of its bytes go between neighbours."""
    local = LinkSpec(0, 1, SLOW, LATENCY_S, "local")
    found = Meets(FairNetwork(Environment(), dumbbell(SLOW, local)), lambda: 0.0)
    found.note(found.use("collective", [([(0, 4)], 1.0), ([(0, 1)], 3.0)], [0]), 0.0, 1.0)
    found.note(message(found, 1, "message"), 0.0, 1.0)
    assert found.together_s == pytest.approx(0.25)


def three(found: Meets) -> list[Use]:
    """Two that are under way together for long, and one that is beside them for a moment."""
    uses = [found.use(f"to {gpu}", [([(gpu, gpu + 4)], 1.0)], [0], user=(gpu, gpu + 4)) for gpu in range(3)]
    for use, start_s in zip(uses, (0.0, 0.0, 0.99), strict=True):
        found.note(use, start_s, start_s + 1.0)
    return uses


@pytest.mark.parametrize(("slight_s", "users"), [(0.0, 3), (0.05, 2), (2.0, 0)])
def test_those_that_lose_hardly_anything_do_not_hinder_each_other(slight_s: float, users: int) -> None:
    found = meets(SLOW)
    uses = three(found)
    assert found.hindering(slight_s) == {use.user for use in uses[:users]}


def test_those_that_are_apart_in_time_can_still_meet() -> None:
    found = meets(SLOW)
    uses = [found.use(f"to {gpu}", [([(gpu, gpu + 4)], 1.0)], [0], user=(gpu, gpu + 4)) for gpu in range(2)]
    found.note(uses[0], 0.0, 1.0)
    found.note(uses[1], 2.0, 3.0)
    assert (found.together_s, found.able()) == (0.0, {(0, 4), (1, 5)})


def test_those_on_links_wide_enough_for_all_can_not() -> None:
    found = meets(3 * SLOW)
    three(found)
    assert found.able() == set()


def test_others_that_lose_little_however_often_they_meet_are_left_out() -> None:
    """Two of the same job that are never under way together; the second one for a moment only."""
    found = meets(SLOW)
    uses = [found.use(f"to {gpu}", [([(gpu, gpu + 4)], 1.0)], [0], user=(gpu, gpu + 4)) for gpu in range(2)]
    found.note(uses[0], 0.0, 0.02)
    found.note(uses[1], 2.0, 2.02)
    assert found.able(0.005) == {(0, 4), (1, 5)}
    assert found.able(0.05) == set()


def test_what_is_lost_is_compared_with_the_time_since_the_first_transfer() -> None:
    found = meets(SLOW)
    use = message(found, 0, "first")
    assert found.noted_s == 0.0
    found.note(use, 100.0, 101.5)
    assert found.noted_s == 1.5
