"""The content of a result file of ``vllm bench serve``, checked when it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from simsys.config.places import located
from simsys.errors import ConfigError, Problem, UsageError
from simsys.fidelity.case import measurable
from simsys.input_files import parse_json, read_text, unreadable
from simsys.model.fields import shown

RATES = ("request_throughput", "output_throughput", "total_token_throughput")
TIMES = tuple(f"{stat}_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el") for stat in ("mean", "median", "p99"))
NEEDED = ("completed", "total_input_tokens", "total_output_tokens")
LISTS = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")
DETAILS = LISTS[:3]
"""Lists of every detailed result."""


def read_content(path: Path) -> Mapping[str, Any]:
    """Read a result.

    Returns:
        Its keys; figures, lists and load have valid types and sizes. Lengths and start times of requests are checked
        by the reader of traces, which skips requests that it cannot replay.

    Raises:
        UsageError: The file cannot be read, or is not such a result.
    """
    try:
        found = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None
    if not isinstance(found, dict):
        raise UsageError(f"{path}:1: no result of vllm bench serve, which is one JSON object")
    try:
        _Content(str(path), found).check()
    except ConfigError as error:
        raise located(error) from None
    return found


class _Content:
    """Checks the content of a file."""

    def __init__(self, file: str, found: Mapping[str, Any]) -> None:
        self._file, self._found = file, found

    def check(self) -> None:
        """Check everything that is read; raises ConfigError."""
        for key in NEEDED:
            if not _is_count(value := self._found.get(key)):
                self._fail(key, f"a result of vllm bench serve needs {key}, a whole number from 1, not {shown(value)}")
        for key in (*RATES, *TIMES):
            self._check_figure(key, self._found.get(key))
        self._check_sending()
        self._check_lists()
        if all(self._found.get(key) for key in DETAILS):
            self._check_times()

    def _check_figure(self, path: str, value: object) -> None:
        if value is not None and not (_is_number(value) and (value == 0 or measurable(value))):  # type: ignore[arg-type]
            self._fail(path, f"a finite number from 0 is needed, not {shown(value)}")

    def _check_sending(self) -> None:
        rate, burstiness, most = (self._found.get(key) for key in ("request_rate", "burstiness", "max_concurrency"))
        if rate not in (None, "inf") and not (_is_number(rate) and (rate == math.inf or measurable(rate))):
            self._fail("request_rate", f"a number above 0 or inf is needed, not {shown(rate)}")
        if burstiness is not None and not (_is_number(burstiness) and measurable(burstiness)):
            self._fail("burstiness", f"a number above 0 is needed, not {shown(burstiness)}")
        if most is not None and not _is_count(most):
            self._fail("max_concurrency", f"a whole number from 1 is needed, not {shown(most)}")

    def _check_lists(self) -> None:
        """All lists have a value for each request."""
        counts = {}
        for key in LISTS:
            value = self._found.get(key)
            if value or (value == [] and key in DETAILS):  # other lists may be empty instead of left out
                if not isinstance(value, list):
                    self._fail(key, f"a list with a value for each request is needed, not {shown(value)}")
                counts[key] = len(value)
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{count} {key}" for key, count in counts.items())
            self._fail(next(iter(counts)), f"the lists of a detailed result must be equally long, not {listed}")

    def _check_times(self) -> None:
        """The measured times of the requests that succeeded."""
        ttfts = self._found["ttfts"]
        gaps, errors = (self._found.get(key) or [None] * len(ttfts) for key in ("itls", "errors"))
        for place, (first_s, between_s, failed) in enumerate(zip(ttfts, gaps, errors, strict=True)):
            if failed:
                continue
            self._check_figure(f"ttfts[{place}]", 0 if first_s is None else first_s)
            if not isinstance(between_s, list | None):
                self._fail(f"itls[{place}]", f"a list of times is needed, not {shown(between_s)}")
            for number, gap_s in enumerate(between_s or ()):
                self._check_figure(f"itls[{place}][{number}]", gap_s if gap_s is not None else math.nan)

    def _fail(self, path: str, message: str) -> NoReturn:
        raise ConfigError([Problem(message, path, self._file)])


def _is_number(value: object) -> bool:
    return type(value) in (int, float)  # a boolean is none


def _is_count(value: object) -> bool:
    return _is_number(value) and 1 <= value <= 1e15 and value == int(value)  # type: ignore[operator,call-overload]
