"""Sub-agents between turns: contexts, joins and shared blocks, by hand and for random sessions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.errors import UsageError
from simsys.serving import agents
from simsys.serving.agents import Turn, ids_of, prompts_of, turns_with_agents
from simsys.serving.conversations import block_ids, turn_columns, whole_prompts
from simsys.serving.requests import RequestTable
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import serve


def test_a_turn_waits_for_the_last_turns_of_its_sub_agents() -> None:
    found = turns_with_agents([1, 3], [7, 7, 2, 0], iter([1, 2]))
    assert found == [
        Turn(0, 0, 0, True, -1),
        Turn(1, 0, 0, True, -1),
        Turn(1, 1, 1, True, 1),
        Turn(1, 1, 2, True, 1),
        Turn(1, 1, 2, False, 3),
        Turn(1, 1, 0, False, 1, (2, 4)),
        Turn(1, 2, 0, False, 5),
    ]


def test_prompts_continue_their_context_and_have_the_answers_of_sub_agents() -> None:
    turns = turns_with_agents([2], [0, 2], iter([1, 2]))
    new, answers = [100, 10, 20, 5, 7], [30, 3, 4, 6, 8]
    prompts = prompts_of(turns, new, answers, [50])
    assert prompts == [150, 180 + 10, 180 + 20, 200 + 4 + 5, 180 + 7 + 3 + 6]


def test_sub_agents_share_the_context_of_their_session_and_nothing_else() -> None:
    turns = turns_with_agents([2], [0, 2], iter([1, 2]))
    answers = [30, 3, 4, 6, 8]
    prompts = prompts_of(turns, [100, 10, 20, 5, 7], answers, [50])
    ids = ids_of(turns, prompts, answers, [0], [50], 10)
    assert [len(each) for each in ids] == [prompt // 10 for prompt in prompts]
    context = ids[1][:18]
    assert context[:15] == ids[0]
    assert ids[2][:18] == ids[4][:18] == context, "the prompt of the first turn and its answer"
    assert not set(ids[1][18:]) & set(ids[2][18:]) | set(ids[4][18:]) & set(ids[2][18:])
    assert ids[3][: len(ids[2])] == ids[2]


@given(
    turns=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    block=st.integers(1, 30),
    data=st.data(),
)
def test_without_sub_agents_they_are_conversations(turns: list[int], block: int, data: st.DataObject) -> None:
    count = sum(turns)
    new, outputs = (data.draw(st.lists(st.integers(1, 60), min_size=count, max_size=count)) for _ in range(2))
    groups = [0] * len(turns)
    found = turns_with_agents(turns, [0] * count, iter(()))
    prompts = prompts_of(found, new, outputs, [33] * len(turns))
    assert prompts == whole_prompts(new, outputs, turns, [33] * len(turns))
    assert [each.context for each in found] == turn_columns(turns)[2]
    ids, known = ids_of(found, prompts, outputs, groups, [33], block), block_ids(prompts, turns, groups, [33], block)
    for one in range(count):
        for other in range(one):
            shared = len(set(ids[one]) & set(ids[other]))
            plain = len(set(known[one]) & set(known[other]))
            assert shared == plain or (shared > plain and found[one].session == found[other].session)


def test_too_many_blocks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "MAX_BLOCKS", 10)
    turns = turns_with_agents([1], [0], iter(()))
    with pytest.raises(UsageError, match="prompts that may be shared have 20 blocks in all, at most 10"):
        ids_of(turns, [200], [5], [0], [0], 10)


def table(**columns: Any) -> RequestTable:
    """A first turn, two sub-agents after it, and the turn that waits for both."""
    given: dict[str, Any] = {"after": [-1, 0, 0, 0], "joins": [(), (), (), (1, 2)], "think_s": [0.0, 1e-4, 3e-4, 2e-4]}
    return RequestTable([0.0] * 4, [8] * 4, [10, 40, 20, 5], **given | columns)


def test_a_turn_arrives_when_all_of_its_sub_agents_have_ended() -> None:
    served = serve(table(), Limits(num_blocks=1000))
    ends_s = served.times("finished")
    assert served.arrived[1] == pytest.approx(ends_s[0] + 1e-4)
    assert served.arrived[2] == pytest.approx(ends_s[0] + 3e-4)
    assert served.arrived[3] == pytest.approx(max(ends_s[1], ends_s[2]) + 2e-4)


def test_a_turn_is_not_sent_if_a_sub_agent_gave_up() -> None:
    served = serve(table(cancel_tokens=[0, 3, 0, 0]), Limits(num_blocks=1000))
    assert sorted(served.arrived) == [0, 1, 2]
    assert (sorted(served.times("finished")), sorted(served.cancelled)) == ([0, 2], [1])


def test_joins_must_be_earlier() -> None:
    with pytest.raises(UsageError, match=r"joins must be earlier requests, beside after, not \(3,\) for request 3"):
        table(joins=[(), (), (), (3,)])
