"""Turns of agents, drawn by the seed: results of tools, sub-agents, thoughts with a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from simsys.build.workload import build_requests
from simsys.config.workload import WorkloadConfig
from simsys.serving.prefix_cache import block_chains
from simsys.serving.requests import RequestTable

BASE: dict[str, Any] = {
    "arrivals": {"kind": "poisson", "rate": "1 req/s"},
    "prompt_tokens": 1000,
    "output_tokens": 50,
    "num_requests": 400,
    "sessions": {"turns": 6, "think_time": {"kind": "lognormal", "mean": "2 s", "sigma": 0.5}},
}
BRANCHES = {"share": 0.4, "agents": {"kind": "uniform", "low": 2, "high": 3}, "turns": 2, "prompt_tokens": 70}


def build(seed: int = 1, sessions: dict[str, Any] | None = None, **given: Any) -> RequestTable:
    workload = BASE | {"sessions": BASE["sessions"] | (sessions or {})} | given
    return build_requests(WorkloadConfig.model_validate(workload), seed, Path())


def test_later_turns_bring_results_of_tools() -> None:
    found = build(sessions={"tool_result_tokens": 300})
    assert found.prompt_tokens[:4] == [1000, 1350, 1700, 2050]
    gaps_s = [time_s for time_s, before in zip(found.think_s, found.after, strict=True) if before >= 0]
    assert sum(gaps_s) / len(gaps_s) == pytest.approx(2.0, rel=0.1)
    assert all(time_s > 0 for time_s in gaps_s)


def test_other_traffic_is_what_it_was() -> None:
    """A share of nothing more: the first turns of sessions are drawn alike."""
    plain, with_agents = build(), build(sessions={"branches": BRANCHES})
    assert plain.agent == plain.joins == []
    firsts = [row for row, before in enumerate(with_agents.after) if before < 0]
    known = [row for row, before in enumerate(plain.after) if before < 0]
    pairs = zip(firsts, known, strict=False)
    assert all(with_agents.arrival_s[row] == plain.arrival_s[other] for row, other in pairs)


def test_sub_agents_work_before_a_share_of_the_later_turns() -> None:
    found = build(sessions={"branches": BRANCHES, "tool_result_tokens": 300}, num_requests=4000)
    main = [row for row, agent in enumerate(found.agent) if not agent]
    later = [row for row in main if found.turn[row]]
    joined = [row for row in later if found.joins[row]]
    assert len(joined) / len(later) == pytest.approx(0.4, abs=0.04)
    assert {len(found.joins[row]) for row in joined} == {2, 3}
    for row in joined:
        context = found.after[row]
        base = found.prompt_tokens[context] + 50
        assert found.prompt_tokens[row] == base + 300 + 50 * len(found.joins[row])
        for last in found.joins[row]:
            first = found.after[last]
            assert found.after[first] == context
            assert found.prompt_tokens[first] == base + 70
            assert found.prompt_tokens[last] == base + 70 + 50 + 300
            assert found.hash_ids[first][: base // 16] == found.hash_ids[row][: base // 16]
            assert found.session[first] == found.session[row]


def test_a_limit_cuts_the_last_session() -> None:
    found = build(sessions={"branches": BRANCHES}, num_requests=37)
    assert len(found) == 37
    assert found.prompt_tokens == build(sessions={"branches": BRANCHES}, num_requests=400).prompt_tokens[:37]


def test_thoughts_are_within_their_budget_and_forgotten() -> None:
    thoughts = {"tokens": {"kind": "uniform", "low": 1, "high": 400}, "budget": 200}
    found = build(reasoning=thoughts)
    assert max(found.reasoning_tokens) == 200
    assert sum(tokens == 200 for tokens in found.reasoning_tokens) / 400 == pytest.approx(0.5, abs=0.08)
    assert found.output_tokens == [50 + tokens for tokens in found.reasoning_tokens]
    assert found.prompt_tokens == build().prompt_tokens
    kept = build(reasoning=thoughts | {"returned": True})
    assert kept.prompt_tokens[1] == 1000 + kept.output_tokens[0] + 1000


def test_an_answer_after_forgotten_thoughts_is_not_found_in_the_cache() -> None:
    """Its blocks are at other places of the next prompt."""
    thoughts = {"tokens": 100}
    forgotten, kept = (build(reasoning=thoughts | {"returned": returned}) for returned in (False, True))
    for table, known in ((forgotten, 1000 // 16), (kept, 2150 // 16)):
        assert len(block_chains(table, 16).of[0]) == known


def test_reasoning_without_conversations_makes_outputs_longer() -> None:
    workload = {key: value for key, value in BASE.items() if key != "sessions"}
    table = build_requests(WorkloadConfig.model_validate(workload | {"reasoning": {"tokens": 100}}), 1, Path())
    assert set(table.output_tokens) == {150}
    assert table.session == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "share": ({"branches": BRANCHES | {"share": 0.0}}, "Input should be greater than 0"),
    "agents": ({"branches": BRANCHES | {"agents": {"kind": "trace"}}}, "agents cannot come from a trace"),
    "results": ({"tool_result_tokens": {"kind": "trace"}}, "tool_result_tokens cannot come from a trace"),
    "gap": ({"think_time": {"kind": "uniform", "low": "3 s", "high": "1 s"}}, "low (3 s) must not exceed high (1 s)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_meant_is_refused(name: str) -> None:
    sessions, message = WRONG[name]
    with pytest.raises(ValidationError) as caught:
        build(sessions=sessions)
    assert message in str(caught.value)


def test_reasoning_needs_outputs_that_are_drawn() -> None:
    given = {"trace": "chat.csv", "reasoning": {"tokens": 100}}
    with pytest.raises(ValidationError, match="output_tokens of kind trace are whole already"):
        WorkloadConfig.model_validate(given)
