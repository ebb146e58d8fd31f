from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.build.workload import build_requests
from simsys.config.workload import WorkloadConfig
from simsys.errors import UsageError
from simsys.serving.conversations import block_ids, turn_columns, whole_prompts

TURNS = st.lists(st.integers(1, 5), min_size=1, max_size=8)


def test_a_prompt_is_all_that_was_said_before() -> None:
    assert whole_prompts([10, 3, 7, 20], [5, 6, 1, 2], [3, 1], [100, 0]) == [110, 110 + 5 + 3, 118 + 6 + 7, 20]


def test_blocks_by_hand() -> None:
    ids = block_ids([40, 70, 36, 35], [2, 1, 1], [0, 0, 1], [33, 0], 16)
    assert ids == [(0, 1), (0, 1, 2, 3), (0, 1), ()]


@given(turns=TURNS, block=st.integers(1, 40), data=st.data())
def test_two_prompts_share_just_the_blocks_whose_tokens_they_share(
    turns: list[int], block: int, data: st.DataObject
) -> None:
    count = sum(turns)
    new, outputs = (data.draw(st.lists(st.integers(1, 60), min_size=count, max_size=count)) for _ in range(2))
    group_tokens = data.draw(st.lists(st.integers(0, 90), min_size=1, max_size=3))
    groups = data.draw(st.lists(st.integers(0, len(group_tokens) - 1), min_size=len(turns), max_size=len(turns)))
    prompts = whole_prompts(new, outputs, turns, [group_tokens[group] for group in groups])
    ids = block_ids(prompts, turns, groups, group_tokens, block)
    session, turn, after = turn_columns(turns)
    assert all(len(each) * block <= prompt for each, prompt in zip(ids, prompts, strict=True))
    for request, before in enumerate(after):
        if before >= 0:  # the next turn begins with the whole prompt of the last one
            assert session[before] == session[request]
            assert ids[request][: len(ids[before])] == ids[before]
            assert len(ids[before]) == prompts[before] // block
            assert prompts[request] == prompts[before] + outputs[before] + new[request]
    for request, number in enumerate(session):
        for other, other_number in enumerate(session[:request]):
            if number != other_number:
                same_group = groups[number] == groups[other_number]
                shared = group_tokens[groups[number]] // block if same_group else 0
                assert set(ids[request]) & set(ids[other]) == set(ids[request][:shared])
    assert turn == [place for size in turns for place in range(size)]


@given(turns=TURNS)
def test_turns_wait_for_the_one_before(turns: list[int]) -> None:
    session, turn, after = turn_columns(turns)
    first = [0, *accumulate(turns)][:-1]
    assert [request for request, before in enumerate(after) if before < 0] == first
    assert [session[request] for request in first] == list(range(len(turns)))
    assert all(turn[request] == turn[before] + 1 for request, before in enumerate(after) if before >= 0)


@pytest.mark.parametrize(
    "workload",
    [
        {"prefixes": {"tokens": 1_000_000_000}},
        {"sessions": {"turns": 3, "think_time": "1 s"}, "prompt_tokens": 900_000_000},
    ],
)
def test_ids_that_no_memory_holds_are_refused_before_they_are_made(workload: dict[str, Any]) -> None:
    plain = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 9, "output_tokens": 9, "num_requests": 6}
    with pytest.raises(UsageError, match=r"have [\d,]+ blocks in all, at most 20,000,000"):
        build_requests(WorkloadConfig.model_validate({**plain, **workload}), 0, Path())
