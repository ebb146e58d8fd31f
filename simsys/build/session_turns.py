"""From the settings of conversations, agents and reasoning to the requests of their turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from simsys.build.distributions import draw_lengths, draw_times, draw_uniform, draw_weighted
from simsys.config.sessions import SessionsConfig
from simsys.config.workload import WorkloadConfig
from simsys.errors import UsageError
from simsys.serving.agents import Turn, ids_of, prompts_of, turns_with_agents
from simsys.serving.requests import RequestTable


def lengths_of(workload: WorkloadConfig, opens: list[bool], seed: int, folder: Path) -> tuple[list[int], list[int]]:
    """New tokens and tokens of answers; those that open no session have results of tools, if their length is given."""
    count, sessions = len(opens), workload.sessions
    prompts = draw_lengths(workload.prompt_tokens, count, seed, "prompt_tokens", folder)
    outputs = draw_lengths(workload.output_tokens, count, seed, "output_tokens", folder)
    if sessions is not None and sessions.tool_result_tokens is not None:
        results = draw_lengths(sessions.tool_result_tokens, count, seed, "sessions.tool_result_tokens", folder)
        prompts = [mine if first else other for first, mine, other in zip(opens, prompts, results, strict=True)]
    return prompts, outputs


def thoughts_of(workload: WorkloadConfig, count: int, seed: int, folder: Path) -> list[int]:
    """Tokens of thought before each answer; empty without reasoning."""
    reasoning = workload.reasoning
    if reasoning is None:
        return []
    drawn = draw_lengths(reasoning.tokens, count, seed, "reasoning.tokens", folder)
    return drawn if reasoning.budget is None else [min(tokens, reasoning.budget) for tokens in drawn]


def returned_of(workload: WorkloadConfig, outputs: list[int], thoughts: list[int]) -> list[int]:
    """Tokens that each answer adds to the context of the next turn."""
    kept = workload.reasoning is not None and workload.reasoning.returned
    return [answer + thought for answer, thought in zip(outputs, thoughts, strict=True)] if kept else outputs


def with_thoughts(workload: WorkloadConfig, table: RequestTable, thoughts: list[int]) -> RequestTable:
    """The requests with thoughts before their answers."""
    if workload.reasoning is None:
        return table
    outputs = [answer + thought for answer, thought in zip(table.output_tokens, thoughts, strict=True)]
    forgets = not workload.reasoning.returned
    return replace(table, output_tokens=outputs, reasoning_tokens=thoughts, forgets_thoughts=forgets)


def with_agents(
    workload: WorkloadConfig, sessions: SessionsConfig, starts: list[float], sizes: list[int], seed: int, folder: Path
) -> RequestTable:
    """Requests of sessions with sub-agents."""
    branches, count = sessions.branches, sum(sizes)
    assert branches is not None
    share = branches.share
    chosen = [drawn < share for drawn in draw_uniform(1.0, count, seed, "sessions.branches")]
    agents = draw_lengths(branches.agents, count, seed, "sessions.branches.agents", folder)
    agents = [number if each else 0 for each, number in zip(chosen, agents, strict=True)]
    lengths = draw_lengths(branches.turns, sum(agents), seed, "sessions.branches.turns", folder)
    turns = turns_with_agents(sizes, agents, iter(lengths))
    if workload.num_requests is not None:
        turns = turns[: workload.num_requests]
    elif len(turns) > workload.most_requests:
        advice = f"at most {workload.most_requests:,} are simulated, so give fewer turns, or num_requests"
        raise UsageError(f"conversations have {len(turns):,} turns in all; {advice}")
    new, outputs = lengths_of(workload, [each.first for each in turns], seed, folder)
    tasks = draw_lengths(branches.prompt_tokens, len(turns), seed, "sessions.branches.prompt_tokens", folder)
    new = [task if each.first and each.agent else mine for each, mine, task in zip(turns, new, tasks, strict=True)]
    thoughts = thoughts_of(workload, len(turns), seed, folder)
    returned = returned_of(workload, outputs, thoughts)
    groups, group_tokens = prefixes_of(workload, len(sizes), seed, folder)
    prompts = prompts_of(turns, new, returned, [group_tokens[group] for group in groups])
    after = [each.context for each in turns]
    table = RequestTable(
        [starts[each.session] for each in turns],
        prompts,
        outputs,
        session=[each.session for each in turns],
        turn=[each.turn for each in turns],
        agent=[each.agent for each in turns],
        after=after,
        joins=[each.joins for each in turns],
        think_s=between_turns(draw_times(sessions.think_time, len(turns), seed, "sessions.think_time"), after),
        hash_ids=ids_of(turns, prompts, returned, groups, group_tokens, workload.hash_block_size),
        hash_block_tokens=workload.hash_block_size,
    )
    return with_thoughts(workload, table, thoughts)


def with_shared_contexts(table: RequestTable, block_tokens: int) -> RequestTable:
    """Requests that continue the prompt and the answer of those they wait for, with the ids of their blocks.

    Args:
        table: The requests.
        block_tokens: Tokens of a block.
    """
    turns = [Turn(0, 0, 0, before < 0, before) for before in table.after]
    ids = ids_of(turns, table.prompt_tokens, table.output_tokens, [0], [0], block_tokens)
    pairs = zip(ids, table.prompt_tokens, strict=True)
    return replace(table, hash_ids=[each[: n // block_tokens] for each, n in pairs], hash_block_tokens=block_tokens)


def prefixes_of(workload: WorkloadConfig, count: int, seed: int, folder: Path) -> tuple[list[int], list[int]]:
    """The group of each of `count` conversations, and the tokens of each group's system prompt."""
    prefixes = workload.prefixes
    if prefixes is None:
        return [0] * count, [0]
    tokens = draw_lengths(prefixes.tokens, prefixes.groups, seed, "prefixes.tokens", folder)
    return draw_weighted(prefixes.weights or [1.0] * prefixes.groups, count, seed, "prefixes"), tokens


def between_turns(think_s: Sequence[float], after: Sequence[int]) -> list[float]:
    """Times before turns that follow others; 0 for the others."""
    return [time_s if before >= 0 else 0.0 for time_s, before in zip(think_s, after, strict=True)]
