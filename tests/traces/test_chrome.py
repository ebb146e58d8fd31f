"""Events as text: valid JSON with exact times, whatever the names are."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.traces import chrome

ODD = 'a/b "quoted" \\ <script> ü \u2028 \x01 名'


@given(st.integers(0, 9 * 10**18))
def test_times_are_exact(nanoseconds: int) -> None:
    whole, _, fraction = chrome.micros(nanoseconds).partition(".")
    assert (int(whole) * 1000 + int(fraction), len(fraction)) == (nanoseconds, 3)


@pytest.mark.parametrize("name", ["plain", ODD])
def test_every_event_is_json_with_its_name(name: str) -> None:
    texts = [
        *chrome.named_process(1, name, name),
        *chrome.named_lane(1, 2, name, 3),
        *chrome.counter(1, name, name, [0, 5], [1.0, 2.0]),
        chrome.request_begins(1, 2, name, 3, {"why": name}),
        chrome.request_ends(1, 2, name, 4),
    ]
    events = [json.loads(text) for text in texts]
    shown = {each["name"] for each in events} | {each.get("args", {}).get("name") for each in events}
    assert name in shown
    assert all(text.isascii() for text in texts)


def test_a_counter_has_one_event_for_each_change() -> None:
    found = [json.loads(text) for text in chrome.counter(0, "x", "y", [0, 1000, 2000, 3000], [1, 1, 2, 2])]
    assert [(each["ts"], each["args"]["y"]) for each in found] == [(0.0, 1), (2.0, 2)]


def test_rates_add_up_while_transfers_overlap() -> None:
    starts, ends, nbytes = np.array([0, 10, 20]), np.array([20, 30, 20]), np.array([40.0, 60.0, 1.0])
    assert chrome.rates(starts, ends, nbytes) == ([0, 10, 20, 30], [2.0, 5.0, 3.0, 0.0])


@pytest.mark.parametrize("count", [0, 1, 25_000])
def test_a_document_holds_all_events(count: int) -> None:
    file = io.StringIO()
    assert chrome.write_events(file, {"traceName": ODD}, (f'{{"ts":{number}}}' for number in range(count))) == count
    found = json.loads(file.getvalue())
    assert [each["ts"] for each in found["traceEvents"]] == list(range(count))
    assert (found["traceName"], found["schemaVersion"]) == (ODD, 1)
