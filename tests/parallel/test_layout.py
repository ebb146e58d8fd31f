"""Ranks and their groups: numbering, the partition into groups, and who works alike."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.errors import UsageError
from simsys.parallel.layout import AXES, GROUPS, Layout

degrees = st.integers(1, 5)
few = st.integers(1, 3)
layouts = st.builds(Layout, tensor=few, context=few, data=degrees, pipeline=few)


def degree(layout: Layout, over: str) -> int:
    """Ranks in a group along an axis."""
    return layout.replicas if over == "data" else int(getattr(layout, over))


@given(layouts)
def test_ranks_and_coordinates_are_inverse(layout: Layout) -> None:
    places = [layout.coordinates(rank) for rank in range(layout.world_size)]
    assert [layout.rank_of(place) for place in places] == list(range(layout.world_size))
    assert len({tuple(place.values()) for place in places}) == layout.world_size
    assert all(0 <= place[axis] < getattr(layout, axis) for place in places for axis in AXES)


@given(layouts, st.sampled_from(AXES))
def test_the_groups_of_an_axis_divide_the_ranks(layout: Layout, axis: str) -> None:
    groups = {layout.group(rank, axis) for rank in range(layout.world_size)}
    members = [rank for group in groups for rank in group.ranks]
    assert sorted(members) == list(range(layout.world_size))
    assert {group.size for group in groups} == {degree(layout, axis)}


@given(layouts, st.sampled_from(AXES))
def test_members_share_one_group_and_all_coordinates_but_one(layout: Layout, axis: str) -> None:
    """Ranks that hold the same weights may differ in their part of the sequence, too."""
    own = ("context", "data") if axis == "data" else (axis,)
    for rank in range(layout.world_size):
        group = layout.group(rank, axis)
        assert rank in group.ranks
        assert list(group.ranks) == sorted(group.ranks)
        for member in group.ranks:
            assert layout.group(member, axis) is group
            place, here = layout.coordinates(member), layout.coordinates(rank)
            assert {other for other in AXES if place[other] != here[other]} <= set(own)


@given(layouts, st.sampled_from(AXES), st.data())
def test_a_split_makes_a_grid_of_a_group(layout: Layout, axis: str, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([d for d in range(1, 6) if degree(layout, axis) % d == 0]))
    for rank in range(layout.world_size):
        whole = layout.group(rank, axis)
        inner, outer = layout.split(rank, axis, size)
        assert set(inner.ranks) & set(outer.ranks) == {rank}
        assert (inner.size, outer.size) == (size, whole.size // size)
        first = whole.ranks.index(inner.ranks[0])
        assert inner.ranks == whole.ranks[first : first + size]
        for member in inner.ranks:
            assert layout.split(member, axis, size)[0] is inner
        for place, member in enumerate(outer.ranks):
            assert layout.split(member, axis, size)[1] is outer
            assert whole.ranks.index(member) == place * size + inner.ranks.index(rank)


def test_the_whole_axis_is_one_run() -> None:
    layout = Layout(tensor=2, data=4)
    inner, outer = layout.split(3, "data", 4)
    assert inner is layout.group(3, "data")
    assert outer.ranks == (3,)


@pytest.mark.parametrize("size", [0, -1, 3, 8])
def test_a_group_cannot_be_split_into_unequal_runs(size: int) -> None:
    with pytest.raises(UsageError, match=f"group of 4 ranks cannot be divided into runs of {size}"):
        Layout(data=4).split(0, "data", size)


@given(layouts)
def test_groups_of_two_axes_meet_in_one_rank(layout: Layout) -> None:
    for rank in range(layout.world_size):
        for one, other in [("tensor", "data"), ("data", "pipeline"), ("tensor", "pipeline")]:
            common = set(layout.group(rank, one).ranks) & set(layout.group(rank, other).ranks)
            assert common == {rank}


def test_the_groups_with_the_most_traffic_are_neighbours() -> None:
    """Two nodes of eight GPUs: tensor groups lie side by side, data groups inside a node, stages on other nodes."""
    layout = Layout(tensor=4, data=2, pipeline=2)
    assert layout.world_size == 16
    assert layout.group(5, "tensor").ranks == (4, 5, 6, 7)
    assert layout.group(5, "data").ranks == (1, 5)
    assert layout.group(5, "pipeline").ranks == (5, 13)
    assert layout.roles() == (tuple(range(8)), tuple(range(8, 16)))


@given(layouts)
def test_roles_are_the_pipeline_stages(layout: Layout) -> None:
    roles = layout.roles()
    assert sorted(rank for role in roles for rank in role) == list(range(layout.world_size))
    for stage, role in enumerate(roles):
        assert {layout.coordinates(rank)["pipeline"] for rank in role} == {stage}


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("degree", [0, -2])
def test_degrees_start_at_one(axis: str, degree: int) -> None:
    with pytest.raises(UsageError, match=f"the {axis}-parallel degree must be at least 1, not {degree}"):
        Layout(**{axis: degree})


@pytest.mark.parametrize("rank", [-1, 8])
def test_a_rank_outside_is_refused(rank: int) -> None:
    with pytest.raises(UsageError, match=rf"rank {rank} is outside 0\.\.7"):
        Layout(data=8).group(rank, "data")


def test_an_axis_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="no parallel axis 'experts'; known: tensor, context, data, expert, expert_d"):
        Layout().group(0, "experts")


def test_the_ends_of_a_pipeline_share_one_group() -> None:
    layout = Layout(tensor=2, data=2, pipeline=4)
    assert layout.ends(1, "pipeline").ranks == (1, 13)
    assert layout.ends(13, "pipeline") is layout.ends(5, "pipeline")
    assert Layout(data=2).ends(1, "pipeline").ranks == (1,)


@pytest.mark.parametrize("order", list(itertools.permutations(AXES)))
def test_in_any_order_ranks_and_coordinates_are_inverse_and_roles_are_stages(order: tuple[str, ...]) -> None:
    layout = Layout(tensor=2, context=1, data=3, pipeline=4, order=order)
    assert [layout.rank_of(layout.coordinates(rank)) for rank in range(24)] == list(range(24))
    assert layout.group(0, order[0]).ranks == tuple(range(degree(layout, order[0]))), "the fastest axis has neighbours"
    assert sorted(rank for role in layout.roles() for rank in role) == list(range(24))
    assert all(len({layout.coordinates(rank)["pipeline"] for rank in role}) == 1 for role in layout.roles())


def test_an_order_names_every_axis_once() -> None:
    with pytest.raises(UsageError, match="each of tensor, context, data, pipeline once, not tensor, data"):
        Layout(order=("tensor", "data"))


@given(layouts, st.data())
def test_experts_divide_the_ranks_that_hold_the_same_weights(layout: Layout, data: st.DataObject) -> None:
    experts = data.draw(st.sampled_from([d for d in range(1, 16) if layout.replicas % d == 0]))
    order = data.draw(st.permutations([*AXES, "expert"]))
    layout = replace(layout, expert=experts, order=tuple(order))
    for rank in range(layout.world_size):
        whole, apart, alike = (layout.group(rank, over) for over in ("data", "expert", "expert_data"))
        assert (apart.size, alike.size) == (experts, layout.replicas // experts)
        assert set(apart.ranks) & set(alike.ranks) == {rank}
        assert set(apart.ranks) | set(alike.ranks) <= set(whole.ranks)


@pytest.mark.parametrize(
    ("order", "apart", "alike"),
    [
        (("tensor", "context", "expert", "data", "pipeline"), (0, 1, 2, 3), (0, 4)),
        (("tensor", "context", "data", "pipeline"), (0, 1, 2, 3), (0, 4)),
        (("tensor", "context", "data", "expert", "pipeline"), (0, 2, 4, 6), (0, 1)),
    ],
)
def test_experts_are_neighbours_unless_data_comes_first(
    order: tuple[str, ...], apart: tuple[int, ...], alike: tuple[int, ...]
) -> None:
    layout = Layout(data=8, expert=4, order=order)
    assert layout.group(0, "expert").ranks == apart
    assert layout.group(0, "expert_data").ranks == alike


def test_experts_may_span_the_parts_of_a_sequence() -> None:
    """As in Megatron-LM, whose expert groups divide data and context parallelism together."""
    layout = Layout(context=2, data=2, expert=4)
    assert layout.group(0, "expert").ranks == layout.group(0, "data").ranks == (0, 1, 2, 3)
    assert layout.group(0, "expert") is not layout.group(0, "data"), "each has a communicator of its own"


def test_experts_that_do_not_divide_the_replicas_are_refused() -> None:
    with pytest.raises(UsageError, match="expert-parallel degree 3 does not divide the 4 ranks"):
        Layout(data=4, expert=3)


def test_every_kind_of_group_has_its_axis() -> None:
    layout = Layout(tensor=2, context=2, data=2, pipeline=2, expert=2)
    assert [layout.group(0, over).axis for over in GROUPS] == list(GROUPS)
