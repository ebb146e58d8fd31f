"""The event history survives being written, and what is not one is refused."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from simsys import read_events
from simsys.errors import TraceError
from simsys.metrics.history import EventHistory
from simsys.simulation import simulate
from simsys.traces.event_file import EventRecord
from tests.helpers.traced_scenarios import JOBS, SERVING, of, training


def written(config_name: str, place: Path) -> EventRecord:
    config = {"training": training(), "serving": of(SERVING), "jobs": of(JOBS)}[config_name]
    record, text = EventRecord(config), io.StringIO()
    result = simulate(config, [record.probe])
    assert record.write(result, text) == len(record.events())
    place.write_text(text.getvalue())
    return record


@pytest.mark.parametrize("kind", ["training", "serving", "jobs"])
def test_events_read_back_as_they_were(kind: str, tmp_path: Path) -> None:
    record = written(kind, tmp_path / "one_events.jsonl")
    found = read_events(tmp_path / "one_events.jsonl")
    assert found == record.events() != []
    assert [event.timestamp for event in found] == sorted(event.timestamp for event in found)
    assert {event.job for event in found} == ({"small", "large", "chat"} if kind == "jobs" else {""})
    packed = tmp_path / "one_events.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "one_events.jsonl").read_bytes()))
    assert read_events(str(packed)) == found


def test_events_are_those_of_the_event_history(tmp_path: Path) -> None:
    history = EventHistory()
    simulate(training(), [history])
    written("training", tmp_path / "events")
    assert read_events(tmp_path / "events") == history.event_history


def test_what_is_cut_off_or_damaged_or_foreign_is_refused(tmp_path: Path) -> None:
    written("training", tmp_path / "whole")
    text = (tmp_path / "whole").read_text()
    packed = gzip.compress(text.encode())
    head, first, *_ = text.splitlines()
    cases = {
        "cut": (text[:-20].encode(), f":{text.count(chr(10))}: not an event, or cut off"),
        "packed cut": (packed[:-20], "cut off"),
        "packed damaged": (packed[:30] + b"\0\0\0\0" + packed[34:], "damaged"),
        "empty": (b"", ":1: not an event history"),
        "foreign": (b'{"traceEvents": []}\n', ":1: not an event history"),
        "csv": (b"a,b\n1,2\n", ":1: not an event history"),
        "later": (json.dumps({**json.loads(head), "version": 9}).encode() + b"\n", "version 9"),
        "type": (f"{head}\n{first.replace('_START', '_BEGIN')}\n".encode(), ":2: not an event"),
        "time": (
            f'{head}\n{{"time_s": NaN, "rank": 0, "type": "COMM_END", "name": "x"}}\n'.encode(),
            ":2: not an event",
        ),
        "binary": (b"\xff\xfe\x00", "not UTF-8"),
        "deep": (b"[" * 100_000, ":1: not an event history"),
    }
    for name, (content, expected) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TraceError) as raised:
            read_events(tmp_path / name)
        assert expected in str(raised.value), name
        assert str(tmp_path / name) in str(raised.value)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "a_events.jsonl.gz").touch()
    for name, expected in [
        ("b_events.jsonl.gz", "did you mean 'a_events.jsonl.gz'"),
        ("", "is a folder"),
        ("a\0", "cannot be read"),
    ]:
        with pytest.raises(TraceError, match=expected):
            read_events(tmp_path / name)
