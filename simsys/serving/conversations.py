"""Conversations and shared system prompts: how long prompts get, and which blocks they share.

Requests are ordered by conversation and turn; `turns` says how many each conversation has, and one without further
turns is a plain request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from simsys.errors import UsageError

MAX_BLOCKS = 20_000_000
"""Limit of ids of all prompts together, which use some 40 bytes each."""


def turn_columns(turns: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Return `session`, `turn` and `after` of a request table.

    Example:
        >>> turn_columns([2, 1])
        ([0, 0, 1], [0, 1, 0], [-1, 0, -1])
    """
    session = [number for number, count in enumerate(turns) for _ in range(count)]
    turn = [place for count in turns for place in range(count)]
    return session, turn, [index - 1 if place else -1 for index, place in enumerate(turn)]


def whole_prompts(
    new_tokens: Sequence[int], output_tokens: Sequence[int], turns: Sequence[int], prefix_tokens: Sequence[int]
) -> list[int]:
    """Return the prompts of conversations: system prompt, previous turns, and new tokens.

    Args:
        new_tokens: New user tokens of each request.
        output_tokens: Answer tokens.
        turns: Requests of each conversation.
        prefix_tokens: System prompt tokens of each conversation.
    """
    prompts: list[int] = []
    for index, (first, count) in enumerate(_spans(turns)):
        history = prefix_tokens[index]
        for request in range(first, first + count):
            prompts.append(history + new_tokens[request])
            history = prompts[-1] + output_tokens[request]
    return prompts


def block_ids(
    prompt_tokens: Sequence[int],
    turns: Sequence[int],
    groups: Sequence[int],
    group_tokens: Sequence[int],
    block_tokens: int,
) -> list[tuple[int, ...]]:
    """Return the ids of the full blocks of each prompt: its group's system prompt, then the conversation.

    The block with the end of a system prompt belongs to the conversation. A conversation with one turn has ids of
    shared blocks only.

    Args:
        prompt_tokens: Whole prompts, as `whole_prompts` returns them.
        turns: Requests of each conversation.
        groups: Index in `group_tokens` of the system prompt of each conversation.
        group_tokens: Lengths of the system prompts.
        block_tokens: Tokens of a block.

    Raises:
        UsageError: If there are more than `MAX_BLOCKS` ids.
    """
    several = (prompt_tokens[first : first + count] for first, count in _spans(turns) if count > 1)
    blocks = sum(tokens // block_tokens for tokens in chain(group_tokens, *several))
    if blocks > MAX_BLOCKS:
        reason = "shorten prompts, or give a larger workload.hash_block_size"
        raise UsageError(f"prompts that may be shared have {blocks:,} blocks in all, at most {MAX_BLOCKS:,}; {reason}")
    longest = (prompt_tokens[first + count - 1] for first, count in _spans(turns) if count > 1)
    numbers = tuple(range(sum(tokens // block_tokens for tokens in chain(group_tokens, longest))))
    shared: list[tuple[int, ...]] = []
    unused = 0
    for tokens in group_tokens:
        shared.append(numbers[unused : unused + tokens // block_tokens])
        unused = unused + len(shared[-1])
    ids: list[tuple[int, ...]] = []
    for group, (first, count) in zip(groups, _spans(turns), strict=True):
        if count == 1:
            ids.append(shared[group])
            continue
        ends = [tokens // block_tokens for tokens in prompt_tokens[first : first + count]]
        own = ends[-1] - len(shared[group])
        whole = shared[group] + numbers[unused : unused + own]
        unused += own
        ids += [whole[:end] for end in ends]
    return ids


def _spans(turns: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first request of each conversation, and how many it has."""
    first = 0
    for count in turns:
        yield first, count
        first += count
