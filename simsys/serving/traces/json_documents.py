"""Traces as one JSON document. A format is an entry of `DOCUMENT_FORMATS`: its recognition and its reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simsys.errors import TraceError
from simsys.input_files import parse_json, unreadable
from simsys.serving.traces.prompt_texts import CHARACTERS_PER_TOKEN, tokens_of
from simsys.serving.traces.rows import BadRow, Rows, brief, time_value, tokens_value
from simsys.serving.traces.session_lines import SessionRows

_SPEAKERS = {"human": 0, "user": 0, "system": 0, "gpt": 1, "assistant": 1, "chatgpt": 1, "bing": 1, "bard": 1}


def parse_document(path: str, text: str) -> object:
    """Parse JSON; `path` is for messages.

    Raises:
        TraceError: If it is none.
    """
    try:
        return parse_json(text)
    except ValueError as error:
        raise TraceError(unreadable(Path(path), error)) from None


def read_document(path: str, found: object, limit: int | None, *, multi_turn: bool) -> tuple[str, Rows]:
    """Read a trace.

    Args:
        path: For messages.
        found: The whole document.
        limit: Stop after that many requests; None reads all.
        multi_turn: Whether to read whole conversations where there are any.

    Returns:
        The name of the format, and the requests.

    Raises:
        TraceError: If it is no format that is known.
    """
    for name, (is_it, read) in DOCUMENT_FORMATS.items():
        if is_it(found):
            return name, read(path, found, limit, multi_turn)
    known = (
        "JSON lines of mooncake, aiperf or llmservingsim, a list of ShareGPT conversations, and "
        "vLLM's --save-detailed result"
    )
    raise TraceError(f"{path}:1: unknown kind of JSON ({_outline(found)}); known: {known}")


def _outline(found: object) -> str:
    if isinstance(found, dict):
        return f"an object with {', '.join(list(found)[:8])[:80] or 'no keys'}"
    if isinstance(found, list):
        return f"a list whose first entry is {_outline(found[0])}" if found else "an empty list"
    return f"a {type(found).__name__}"


def _is_sharegpt(found: object) -> bool:
    return isinstance(found, list) and any(isinstance(each, dict) and "conversations" in each for each in found[:100])


def _read_sharegpt(_: str, found: Sequence[object], limit: int | None, multi_turn: bool) -> Rows:
    """ShareGPT conversations with texts: tokens are estimated, and there are no times.

    By default the first two messages are a request, as in vLLM's benchmarks; with `multi_turn`, every message and its
    answer are a turn of a session, with all previous messages in the prompt.
    """
    rows = Rows(timed=False)
    rows.notes.append(f"tokens are estimated: one for {CHARACTERS_PER_TOKEN} characters")
    if multi_turn:
        rows.extra = {"session": [], "turn": [], "after": []}
    sessions = 0
    for number, entry in enumerate(found, start=1):
        try:
            turns = _turns(entry)
        except BadRow as why:
            rows.skip(number, why)
            continue
        history = 0
        for turn, (said, answered) in enumerate(turns if multi_turn else turns[:1]):
            place = len(rows.times)
            if place == limit:
                return rows
            rows.add(place, 0.0, history + said, answered)
            history += said + answered
            if multi_turn:
                for name, value in (("session", sessions), ("turn", turn), ("after", place - 1 if turn else -1)):
                    rows.extra[name].append(value)
        sessions += 1
    return rows


def _turns(entry: object) -> list[tuple[int, int]]:
    """Estimated tokens of alternating questions and answers; text before the first question belongs to it."""
    messages = entry.get("conversations") if isinstance(entry, dict) else None
    if not isinstance(messages, list):
        raise BadRow("no list of conversations", brief(entry))
    turns: list[list[int]] = []
    speaker = 1
    for message in messages:
        who = _SPEAKERS.get(str(message.get("from"))) if isinstance(message, dict) else None
        text = message.get("value") if isinstance(message, dict) else None
        if who is None or not isinstance(text, str):
            raise BadRow("a message without a known speaker or a text", brief(message))
        if who == 0 and speaker == 1:
            turns.append([0, 0])
        speaker = who
        if turns:  # an answer to nothing, where the beginning was cut off, is left out
            turns[-1][who] += len(text)
    pairs = [(tokens_of(said), tokens_of(answered)) for said, answered in turns if said and answered]
    if not pairs:
        raise BadRow("no question with an answer")
    return pairs


def _is_vllm(found: object) -> bool:
    return isinstance(found, dict) and "input_lens" in found and "output_lens" in found


def _read_vllm(path: str, found: Mapping[str, Any], limit: int | None, _: bool) -> Rows:
    """The result of vLLM's ``bench serve --save-detailed``; newer versions save when requests started."""
    columns = {key: found[key] for key in ("input_lens", "output_lens", "start_times", "errors") if key in found}
    strange = [key for key, column in columns.items() if not isinstance(column, list)]
    if strange:
        raise TraceError(f"{path}:1: {strange[0]} must be a list, not {brief(columns[strange[0]])}")
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) != 1:
        listed = ", ".join(f"{count} {key}" for key, count in lengths.items())
        raise TraceError(f"{path}:1: the lists of a vLLM result must be equally long, not {listed}")
    rows = Rows(timed="start_times" in columns)
    if not rows.timed:
        rows.notes.append("the result holds no start_times, so all requests arrive at once")
    starts = columns.get("start_times", [0.0] * lengths["input_lens"])
    failures = columns.get("errors", [""] * lengths["input_lens"])
    everything = zip(starts, columns["input_lens"], columns["output_lens"], failures, strict=True)
    for place, (start, prompt, output, failure) in enumerate(everything):
        try:
            if failure:
                raise BadRow("an error", brief(failure))
            row = (
                time_value("start_times", start),
                tokens_value("input_lens", prompt),
                tokens_value("output_lens", output),
            )
        except BadRow as why:
            rows.skip(place + 1, why)
            continue
        rows.add(place, *row)
        if len(rows.times) == limit:
            break
    return rows


def _is_inputs(found: object) -> bool:
    sessions = found.get("data") if isinstance(found, dict) else None
    return isinstance(sessions, list) and any(isinstance(each, dict) and "payloads" in each for each in sessions[:100])


def _read_inputs(path: str, found: Mapping[str, Any], limit: int | None, _: bool) -> Rows:
    """AIPerf's ``inputs.json`` (AIPerf 0.13, `InputsJsonSession`): the bodies of the requests of each session."""
    sessions = SessionRows(1)
    for number, entry in enumerate(found["data"]):
        bodies = entry.get("payloads") if isinstance(entry, dict) else None
        for turn, body in enumerate(bodies if isinstance(bodies, list) else [None]):
            try:
                sessions.add({"payload": body, "session_id": f"{number}"})
            except BadRow as why:
                raise TraceError(f"{path}:1: data[{number}].payloads[{turn}]: {why.reason}") from None
            if len(sessions.rows.times) == limit:
                return sessions.done()
    return sessions.done()


DOCUMENT_FORMATS: dict[str, tuple[Callable[[object], bool], Callable[[str, Any, int | None, bool], Rows]]] = {
    "sharegpt": (_is_sharegpt, _read_sharegpt),
    "aiperf inputs_json": (_is_inputs, _read_inputs),
    "vllm": (_is_vllm, _read_vllm),
}
