"""Sessions with sub-agents: who waits for whom, how long prompts get, and which blocks they share.

A turn is a `Turn`. Each continues the context of an earlier turn: its whole prompt and what its answer adds.
Sub-agents continue the turn of their session before them, side by side; the session's next turn continues the same
turn, and has the last answers of its sub-agents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simsys.errors import UsageError
from simsys.serving.conversations import MAX_BLOCKS


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a session or of one of its sub-agents.

    Args:
        session: The session.
        turn: Place of the session's turn that it is, or that it works for.
        agent: 0, or the number of the sub-agent in its session.
        first: Whether it is the first one of its session or sub-agent.
        context: The turn that it continues, or -1.
        joins: Last turns of the sub-agents that it waits for.
    """

    session: int
    turn: int
    agent: int
    first: bool
    context: int
    joins: tuple[int, ...] = ()


def turns_with_agents(turns: Sequence[int], agents: Sequence[int], agent_turns: Iterator[int]) -> list[Turn]:
    """Return the turns of sessions, those of sub-agents before the turn that waits for them.

    Args:
        turns: Turns of each session.
        agents: Sub-agents before each turn of each session, one after another; those before a first turn are ignored.
        agent_turns: Turns of one sub-agent after another.

    Example:
        >>> [(each.agent, each.context, each.joins) for each in turns_with_agents([2], [0, 2], iter([1, 2]))]
        [(0, -1, ()), (1, 0, ()), (2, 0, ()), (2, 2, ()), (0, 0, (1, 3))]
    """
    found: list[Turn] = []
    places = iter(agents)
    for session, count in enumerate(turns):
        before, number = -1, 0
        for turn in range(count):
            joins: list[int] = []
            working = next(places)
            for _ in range(working if turn else 0):
                number += 1
                context = before
                for place in range(next(agent_turns)):
                    found.append(Turn(session, turn, number, place == 0, context))
                    context = len(found) - 1
                joins.append(context)
            found.append(Turn(session, turn, 0, turn == 0, before, tuple(joins)))
            before = len(found) - 1
    return found


def prompts_of(
    turns: Sequence[Turn], new_tokens: Sequence[int], returned_tokens: Sequence[int], prefix_tokens: Sequence[int]
) -> list[int]:
    """Return the whole prompts of turns.

    Args:
        turns: The turns.
        new_tokens: New tokens of each.
        returned_tokens: Tokens that the answer to each adds to the context.
        prefix_tokens: Tokens of the system prompt of each session.
    """
    prompts: list[int] = []
    for each, new in zip(turns, new_tokens, strict=True):
        context = each.context
        history = prefix_tokens[each.session] if context < 0 else prompts[context] + returned_tokens[context]
        prompts.append(history + new + sum(returned_tokens[other] for other in each.joins))
    return prompts


def ids_of(
    turns: Sequence[Turn],
    prompts: Sequence[int],
    returned_tokens: Sequence[int],
    groups: Sequence[int],
    group_tokens: Sequence[int],
    block_tokens: int,
) -> list[tuple[int, ...]]:
    """Return the ids of the full blocks of each prompt; what continues one context begins with the same blocks.

    Args:
        turns: The turns.
        prompts: Their whole prompts.
        returned_tokens: Tokens that the answer to each adds to the context.
        groups: The system prompt of each session, a place in `group_tokens`.
        group_tokens: Tokens of the system prompts.
        block_tokens: Tokens of a block.

    Raises:
        UsageError: If there are more than `MAX_BLOCKS` ids.
    """
    blocks = sum(group_tokens) // block_tokens + sum(prompts) // block_tokens
    if blocks > MAX_BLOCKS:
        reason = "shorten prompts, or give a larger workload.hash_block_size"
        raise UsageError(f"prompts that may be shared have {blocks:,} blocks in all, at most {MAX_BLOCKS:,}; {reason}")
    unused = 0

    def longer(ids: tuple[int, ...], tokens: int) -> tuple[int, ...]:
        nonlocal unused
        more = tokens // block_tokens - len(ids)
        unused += max(0, more)
        return (*ids, *range(unused - more, unused)) if more > 0 else ids

    shared = [longer((), tokens) for tokens in group_tokens]
    found: list[tuple[int, ...]] = []
    contexts: dict[int, tuple[int, ...]] = {}
    for each, prompt in zip(turns, prompts, strict=True):
        history = shared[groups[each.session]] if each.context < 0 else contexts[each.context]
        found.append(longer(history, prompt))
        contexts[len(found) - 1] = longer(found[-1], prompt + returned_tokens[len(found) - 1])
    return found
