"""Groups that are not simulated because others stand for them: found by shifting those that are."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.executors.images import Images
from simsys.parallel.layout import GROUPS, Layout

LAYOUTS = [
    {"tensor": 4},
    {"tensor": 2, "data": 3},
    {"tensor": 2, "pipeline": 3, "data": 2},
    {"tensor": 2, "context": 2, "data": 4, "pipeline": 2, "expert": 4},
    {"data": 8, "expert": 2, "pipeline": 2, "order": ("pipeline", "data", "expert", "context", "tensor")},
    {"tensor": 2, "data": 4, "expert": 2, "order": ("data", "expert", "tensor", "context", "pipeline")},
]


@pytest.mark.parametrize("over", [axis for axis in GROUPS if axis != "pipeline"])
@pytest.mark.parametrize("layout", [Layout(**kwargs) for kwargs in LAYOUTS], ids=str)
def test_the_images_of_a_group_are_the_groups_along_the_same_axis_within_its_role(layout: Layout, over: str) -> None:
    roles = layout.roles()
    images = Images({rank: role[0] for role in roles for rank in role})
    for role in roles:
        group = layout.group(role[0], over).ranks
        found = sorted(tuple(rank + shift for rank in group) for shift in images.shifts(group))
        assert found == sorted({layout.group(rank, over).ranks for rank in role})


def test_the_images_of_a_message_are_those_of_all_ranks_like_the_sender() -> None:
    layout = Layout(tensor=2, data=2, pipeline=2)
    images = Images({rank: role[0] for role in layout.roles() for rank in role})
    assert images.shifts((0, 4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("ranks", [(0,), (2, 3), (3, 1, 0)])
def test_ranks_that_stand_for_themselves_have_no_images(ranks: Any) -> None:
    assert Images({rank: rank for rank in range(4)}).shifts(ranks) == [0]
