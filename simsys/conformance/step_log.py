"""Step logs of engines: JSON Lines, one object for each step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, NonNegativeInt, PositiveInt, ValidationError

from simsys.config.base import FrozenModel
from simsys.errors import ConfigError, Problem, UsageError
from simsys.input_files import read_text, unreadable
from simsys.serving.requests import RequestTable

RequestId = Annotated[str, Field(min_length=1, max_length=200)]


class Arrival(FrozenModel):
    """A request that reaches the scheduler before a step."""

    id: RequestId = Field(description="Name of the request")
    prompt_tokens: PositiveInt = Field(description="Tokens of the prompt")
    output_tokens: PositiveInt | None = Field(default=None, description="Tokens of the answer; else see `finished`")


class LoggedStep(FrozenModel):
    """A step of an engine, as one line of a log."""

    step: NonNegativeInt | None = Field(default=None, description="Number of the step, for messages")
    arrived: tuple[Arrival, ...] = Field(default=(), description="Requests that came since the step before")
    scheduled: dict[RequestId, PositiveInt] = Field(description="Tokens of each request in this step")
    preempted: tuple[RequestId, ...] = Field(default=(), description="Requests that lost their cache before it")
    finished: dict[RequestId, PositiveInt] = Field(
        default={}, description="Tokens of the answers that ended since the step before"
    )


@dataclass(frozen=True)
class StepLog:
    """A step log.

    Args:
        steps: The steps with tokens, in order.
        ids: The requests in the order of their arrival.
        requests: Their lengths; their times of arrival are 0, as the steps say when they come.
        before: By step, the numbers of the requests that arrive before it.
    """

    steps: tuple[LoggedStep, ...]
    ids: tuple[str, ...]
    requests: RequestTable
    before: tuple[tuple[int, ...], ...]


def read_step_log(path: Path) -> StepLog:
    """Read a step log.

    Raises:
        UsageError: If the file cannot be read.
        ConfigError: With every problem, each at its line.
    """
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None
    steps: list[LoggedStep] = []
    lines: list[int] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            steps.append(LoggedStep.model_validate(json.loads(line)))
            lines.append(number)
        except ValidationError as error:
            problems += [
                Problem(each["msg"], ".".join(map(str, each["loc"])), str(path), number) for each in error.errors()
            ]
        except (ValueError, RecursionError) as error:
            problems.append(Problem(f"not a JSON object: {error}", file=str(path), line=number))
    if not steps and not problems:
        problems.append(
            Problem('no steps; a line is such as {"arrived": […], "scheduled": {"a": 512}}', file=str(path))
        )
    if problems:
        raise ConfigError(problems)
    return _checked(path, steps, lines)


def _checked(path: Path, steps: list[LoggedStep], lines: list[int]) -> StepLog:
    """The log, if every request arrives once, before it is scheduled, and its answer has a length."""
    problems: list[Problem] = []
    lengths: dict[str, tuple[int, int | None]] = {}
    answers = {name: tokens for step in steps for name, tokens in step.finished.items()}
    for step, line in zip(steps, lines, strict=True):
        for each in step.arrived:
            if each.id in lengths:
                problems.append(Problem(f"request {each.id!r} arrives twice", "arrived", str(path), line))
            lengths[each.id] = each.prompt_tokens, each.output_tokens or answers.get(each.id)
            if lengths[each.id][1] is None:
                message = f"request {each.id!r} has no output_tokens, here or in a later 'finished'"
                problems.append(Problem(message, "arrived", str(path), line))
        unknown = [name for name in (*step.scheduled, *step.preempted) if name not in lengths]
        problems += [Problem(f"request {name!r} has not arrived", "scheduled", str(path), line) for name in unknown]
    if problems:
        raise ConfigError(problems)
    return _log(steps, lengths)


def _log(steps: list[LoggedStep], lengths: Mapping[str, tuple[int, Any]]) -> StepLog:
    numbers = {name: number for number, name in enumerate(lengths)}
    kept: list[LoggedStep] = []
    before: list[tuple[int, ...]] = []
    waiting: tuple[int, ...] = ()
    for step in steps:
        waiting += tuple(numbers[each.id] for each in step.arrived)
        if step.scheduled:
            kept.append(step)
            before.append(waiting)
            waiting = ()
    prompts, outputs = (list(column) for column in zip(*lengths.values(), strict=True)) if lengths else ([], [])
    return StepLog(tuple(kept), tuple(lengths), RequestTable([0.0] * len(lengths), prompts, outputs), tuple(before))
