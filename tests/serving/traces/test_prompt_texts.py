"""Tokens of texts, by their characters."""

from __future__ import annotations

import pytest

from simsys.serving.traces.prompt_texts import prompt_text_tokens, tokens_of
from simsys.serving.traces.rows import BadRow


def test_four_characters_are_a_token_rounded_up() -> None:
    assert [tokens_of(characters) for characters in (1, 4, 5)] == [1, 1, 2]


def test_texts_of_messages_and_tools_count_and_names_do_not() -> None:
    messages = [
        {"role": "system", "content": "1234"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "function": {"arguments": "12345678"}}]},
        {"role": "tool", "tool_call_id": "abc", "content": "1234"},
    ]
    assert prompt_text_tokens({"messages": messages}) == 4
    tools = [{"type": "function", "function": {"name": "abcd"}}]
    assert prompt_text_tokens({"messages": messages, "tools": tools}) == 4 + 3


def test_without_a_text_there_are_none() -> None:
    with pytest.raises(BadRow, match="no input_length and no text"):
        prompt_text_tokens({"model": "m"})
