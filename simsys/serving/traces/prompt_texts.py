"""Tokens of prompts that a trace has as texts: estimated by their characters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simsys.serving.traces.rows import BadRow, brief

CHARACTERS_PER_TOKEN = 4


def tokens_of(characters: int) -> int:
    """Estimate the tokens of a text, rounded up; English has about four characters for each."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def prompt_text_tokens(found: Mapping[str, Any]) -> int:
    """Estimate the tokens of a prompt: a text, texts, messages with their tools, or the body of a request.

    Raises:
        BadRow: If there is no text.
    """
    for name in ("text_input", "text", "texts", "messages", "prompt", "payload"):
        if found.get(name) is not None:
            value = found[name]
            if name == "payload" and isinstance(value, dict):
                return prompt_text_tokens({key: each for key, each in value.items() if key != "payload"})
            tools = found.get("tools") if name == "messages" else None
            characters = sum(map(len, _texts(value, name))) + sum(map(len, _texts(tools, "tools")))
            if not characters:
                raise BadRow(f"{name} without a text", brief(value))
            return tokens_of(characters)
    raise BadRow("no input_length and no text")


def _texts(value: object, name: str) -> Iterator[str]:
    """All texts of a JSON value: of messages, their contents; of tools, all."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, name)
    elif isinstance(value, dict):
        kind = str(value.get("type", "text"))
        if name != "tools" and any(each in kind for each in ("image", "audio", "video", "file")):
            raise BadRow(f"content of type {kind}, which is not modelled; give input_length")
        for key, each in value.items():
            if key not in ("role", "type", "id", "tool_call_id", "name") or name == "tools":
                yield from _texts(each, name)
