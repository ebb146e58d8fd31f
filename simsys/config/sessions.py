"""Settings of the experiment file for conversations, agents with tools and sub-agents, and reasoning."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from simsys.config.base import invalid
from simsys.config.discriminators import Part
from simsys.config.lengths import FixedLength, FixedTime, Length, Time, Tokens

ONE = FixedLength(tokens=1)
NO_TIME = FixedTime.model_validate({"time": "0 s"})


class BranchesConfig(Part):
    """Sub-agents that work side by side between two turns of a session.

    Before a `share` of the later turns, a number of `agents` start from the whole context so far, each with
    `prompt_tokens` of its own task, and take `turns` turns with the session's tools. The next turn of the session
    waits for all of them, and its prompt has their last answers.
    """

    share: Annotated[float, Field(strict=True, gt=0, le=1)] = Field(
        description="Share of the later turns of sessions that sub-agents work for"
    )
    agents: Length = Field(description="Sub-agents that work side by side")
    turns: Length = Field(default=ONE, description="Turns of a sub-agent")
    prompt_tokens: Length = Field(description="Tokens of the task of a sub-agent, after the context of its session")

    @model_validator(mode="after")
    def _drawn(self) -> Self:
        for name in ("agents", "turns", "prompt_tokens"):
            if getattr(self, name).kind == "trace":
                raise invalid(f"{name} cannot come from a trace; give a number or a distribution")
        return self


class SessionsConfig(Part):
    """Conversations of several `turns`, of people or of agents with tools.

    Each turn sends the history and new tokens, `think_time` after an answer: the time of a person, or of a tool call.
    New tokens are `prompt_tokens` of the workload, or `tool_result_tokens` after the first turn. The arrival process
    applies to first turns; each turn, of sub-agents too, counts as a request.
    """

    turns: Length = Field(description="Turns of a conversation")
    think_time: Time = Field(default=NO_TIME, description="Time from an answer to the next turn, or of a tool call")
    tool_result_tokens: Length | None = Field(
        default=None, description="New tokens of later turns, such as results of tools; by default as prompt_tokens"
    )
    branches: BranchesConfig | None = Field(default=None, description="Sub-agents between two turns")

    @model_validator(mode="after")
    def _drawn(self) -> Self:
        if self.turns.kind == "trace":
            raise invalid("turns cannot come from a trace; a trace of conversations has its own with multi_turn: true")
        if self.tool_result_tokens is not None and self.tool_result_tokens.kind == "trace":
            raise invalid("tool_result_tokens cannot come from a trace; give a number or a distribution")
        return self


class ReasoningConfig(Part):
    """Tokens of thought before an answer, on top of `output_tokens`, at most a `budget`.

    They are not part of the next turn's prompt, as chat templates leave them out, unless they are `returned`.
    """

    tokens: Length = Field(description="Tokens of thought before each answer")
    budget: Tokens | None = Field(default=None, description="Most tokens of thought of a request")
    returned: bool = Field(default=False, description="Whether thoughts stay in the context of later turns")

    @model_validator(mode="after")
    def _drawn(self) -> Self:
        if self.tokens.kind == "trace":
            raise invalid("tokens cannot come from a trace, whose outputs have their thoughts already")
        return self
