"""Traces of sessions as JSON lines: Mooncake rows of NVIDIA Dynamo and AIPerf, and AIPerf's inputs with texts.

Sources: Dynamo 1.4, lib/data-gen/src/mooncake.rs (`MooncakeRow`, `AgenticMooncakeRow`); AIPerf 0.13,
src/aiperf/dataset/loader/models.py (`MooncakeTrace`, `SingleTurn`, `MultiTurn`, `RawPayload`). Times and delays are
milliseconds. A session's later rows wait for the end of the row before; a row with `wait_for` waits for those that it
names. A line that is wrong ends the reading, as a session without one of its turns would be another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from simsys.errors import TraceError
from simsys.serving.traces.json_lines import Line, object_of
from simsys.serving.traces.prompt_texts import prompt_text_tokens
from simsys.serving.traces.rows import MOST_TICKS, BadRow, Rows, brief, time_value, tokens_value

MOONCAKE_BLOCK_TOKENS = 512
"""Tokens of a block of `hash_ids`, the default of Mooncake and of Dynamo's ``--trace-block-size``."""
SESSION_KEYS = frozenset(
    ("session_id", "request_id", "wait_for", "delay", "delay_ms", "tool_wait_ms", "input_tokens", "created_time")
)
TEXT_KEYS = frozenset(("text_input", "messages", "payload", "prompt", "text", "texts"))
MEDIA_KEYS = ("image", "images", "image_uuids", "audio", "audios", "video", "videos")


def is_sessions(found: Mapping[str, object]) -> str:
    """The format of lines with the keys of the first one; empty if it is none of these."""
    keys = found.keys()
    if isinstance(found.get("turns"), list):
        return "aiperf multi_turn"
    if {"input_length", "input_tokens"} & keys:
        return "mooncake" if SESSION_KEYS & keys or not {"timestamp", "output_length"} <= keys else ""
    if {"text_input", "payload"} & keys or (
        "messages" in keys and {"timestamp", "session_id", "output_length"} & keys
    ):
        return "mooncake"
    if {"text", "texts"} & keys:
        return "aiperf single_turn"
    return "aiperf raw_payload" if {"messages", "prompt"} & keys else ""


class SessionRows:
    """The rows so far, and the last turn of each session.

    Args:
        block_tokens: Tokens of a block of `hash_ids`.
        alone: Whether no turn continues the one before.
    """

    def __init__(self, block_tokens: int, *, alone: bool = False) -> None:
        self.rows, self._alone = Rows(1e3), alone
        self.block_tokens = block_tokens
        self._last: dict[str, int] = {}
        self._numbers: dict[str | int, int] = {}
        self._named: dict[str, int] = {}
        self._estimated = self._added = False
        self._timed = True
        self.extra: dict[str, list[Any]] = {
            name: [] for name in ("session", "turn", "after", "think_s", "joins", "hash_ids")
        }

    def add(self, found: Mapping[str, Any], history: int | None = None) -> None:
        """Add a request; `history` is the context that it continues, if its own tokens are new ones."""
        rows, place = self.rows, len(self.rows.times)
        name = found.get("session_id")
        before = self._last.get(str(name), -1) if name is not None else -1
        others = self._waited_for(found, before)
        before = others[0] if others else before
        prompt = self._prompt(found, before, history)
        output = self._output(found)
        time, delay = self._time(found, before), self._delay(found, before)
        rows.add(place, time, prompt, output)
        extra = self.extra
        extra["session"].append(self._numbers.setdefault(str(name) if name is not None else place, len(self._numbers)))
        extra["turn"].append(extra["turn"][before] + 1 if before >= 0 else 0)
        extra["after"].append(before)
        extra["think_s"].append(delay / 1e3)
        extra["joins"].append(tuple(others[1:]))
        extra["hash_ids"].append(self._ids(found, prompt))
        if name is not None:
            self._last[str(name)] = place
        if found.get("request_id") is not None:
            self._named[str(found["request_id"])] = place

    def _waited_for(self, found: Mapping[str, Any], before: int) -> list[int]:
        """The rows whose ends this one waits for, if it names any."""
        names = found.get("wait_for") or []
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise BadRow("wait_for that is no list of names", brief(names))
        unknown = next((each for each in names if each not in self._named), None)
        if unknown is not None:
            raise BadRow("wait_for of a request_id that is in no earlier line", unknown)
        return list(dict.fromkeys(self._named[each] for each in names))

    def _prompt(self, found: Mapping[str, Any], before: int, history: int | None) -> int:
        key = next((each for each in ("input_length", "input_tokens") if found.get(each) is not None), "")
        media = next((each for each in MEDIA_KEYS if found.get(each)), "")
        if media:
            raise BadRow(f"{media}, which are not modelled; give input_length", "")
        if key:
            tokens = tokens_value(key, found[key])
            whole = bool(found.get("hash_ids")) or "wait_for" in found or "context_mode" in found
        else:
            tokens, self._estimated = prompt_text_tokens(found), True
            whole = found.get("message_mode") != "delta"
        if history is None and before >= 0 and not whole:
            history = self.rows.prompt_tokens[before] + self.rows.output_tokens[before]
            self._added = True
        if before >= 0 and (history or not key):
            self.rows.continues = not self._alone
        return tokens + (history or 0)

    def _output(self, found: Mapping[str, Any]) -> int:
        payload = found.get("payload") if isinstance(found.get("payload"), dict) else found
        assert isinstance(payload, Mapping)
        for holder, names in (
            (found, ("output_length", "output_tokens")),
            (payload, ("max_completion_tokens", "max_tokens")),
        ):
            for name in names:
                if holder.get(name) is not None:
                    return tokens_value(name, holder[name])
        self.rows.answered = False
        return 1

    def _time(self, found: Mapping[str, Any], before: int) -> float:
        for name in ("timestamp", "created_time"):
            if found.get(name) is not None:
                return time_value(name, found[name])
        if before < 0:
            self._timed = False
        return self.rows.times[before] if before >= 0 else 0.0

    def _delay(self, found: Mapping[str, Any], before: int) -> float:
        """Milliseconds after the end of the row before: as given, or as between the time stamps."""
        given = [each for each in ("delay", "delay_ms", "tool_wait_ms") if found.get(each) is not None]
        total = 0.0
        for name in given:
            total += time_value(name, found[name])
        if total > MOST_TICKS:
            raise BadRow("a delay that is too long", str(total))
        if given or before < 0:
            return total if before >= 0 else 0.0
        return max(0.0, self._time(found, before) - self.rows.times[before])

    def _ids(self, found: Mapping[str, Any], prompt: int) -> tuple[int, ...]:
        ids = found.get("hash_ids") or []
        if not isinstance(ids, list) or not set(map(type, ids)) <= {int}:
            raise BadRow("hash_ids that are no list of whole numbers", brief(ids))
        if len(ids) > -(-prompt // self.block_tokens):
            raise BadRow(
                f"more hash_ids than blocks of {self.block_tokens} tokens; give hash_block_size", str(len(ids))
            )
        return tuple(ids[: prompt // self.block_tokens])

    def done(self) -> Rows:
        """The rows, with the columns that have something in them."""
        rows, extra = self.rows, self.extra
        rows.timed = self._timed
        if not rows.timed:
            rows.times = [0.0] * len(rows.times)
        if any(before >= 0 for before in extra["after"]):
            rows.extra = {name: extra[name] for name in ("session", "turn", "after", "think_s")}
            rows.extra |= {"joins": extra["joins"]} if any(extra["joins"]) else {}
        if any(extra["hash_ids"]):
            rows.extra["hash_ids"], rows.block_tokens = extra["hash_ids"], self.block_tokens
        if self._estimated:
            rows.notes.append("tokens of texts are estimated: one for 4 characters")
        if not rows.answered:
            rows.notes.append("some lines have no length of their output, which is to be given")
        if self._added:
            rows.notes.append("lengths of later turns without hash_ids are new tokens, after the context so far")
        return rows


def read_sessions(
    path: str, name: str, first: Line, lines: Iterator[Line], limit: int | None, block_tokens: int | None
) -> Rows:
    """Read a trace of sessions.

    Args:
        path: For messages.
        name: Its format, as `is_sessions` says.
        first: The first nonblank line, with its number.
        lines: The other lines.
        limit: Largest number of requests; None reads all.
        block_tokens: Tokens of a block of `hash_ids`; None for 512.

    Raises:
        TraceError: If a line is no request, with its place.
    """
    sessions = SessionRows(block_tokens or MOONCAKE_BLOCK_TOKENS, alone=name == "aiperf single_turn")
    for number, line in chain((first,), lines):
        try:
            found = object_of(line)
            if name == "aiperf multi_turn":
                _add_turns(sessions, found, number)
            elif name == "aiperf single_turn":
                sessions.add(found, 0)
            else:
                sessions.add(found)
        except BadRow as why:
            example = f": {why.found[:80]!r}" if why.found else ""
            raise TraceError(f"{path}:{number}: {why.reason}{example}") from None
        if limit is not None and len(sessions.rows.times) >= limit:
            break
    return sessions.done()


def _add_turns(sessions: SessionRows, found: Mapping[str, Any], number: int) -> None:
    """Add the turns of a conversation, each after the texts and answers before it."""
    turns = found.get("turns")
    if not isinstance(turns, list) or not turns or not all(isinstance(each, dict) for each in turns):
        raise BadRow("turns that are no list of turns", brief(turns))
    name = f"line {number}" if found.get("session_id") is None else str(found["session_id"])
    history = 0
    for each in turns:
        sessions.add({**each, "session_id": name}, history)
        history = sessions.rows.prompt_tokens[-1] + sessions.rows.output_tokens[-1]
