"""Settings of clients that give up: what belongs together, and what has no effect."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from simsys.config.cancellation import CancellationConfig
from tests.helpers.each_case import each_case

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "empty": ({}, "cancellation is empty; give ttft_timeout, timeout, or the share that users cancel"),
    "no effect": (
        {"ttft_timeout": "9 s", "timeout": "9 s"},
        "ttft_timeout has no effect, as it is not below timeout; remove one of them",
    ),
    "no share": (
        {"timeout": "9 s", "after": "3 s"},
        "after needs the share of the requests that users cancel, such as share: 0.1",
    ),
    "no time": ({"share": 0.5}, "with a share, give either after, such as 10 s, or after_tokens, such as 50"),
    "two ways": (
        {"share": 0.5, "after": "3 s", "after_tokens": 9},
        "with a share, give either after, such as 10 s, or after_tokens, such as 50",
    ),
    "trace": (
        {"share": 0.5, "after_tokens": {"kind": "trace"}},
        "after_tokens cannot come from a trace; give a number or a distribution",
    ),
    "above 1": ({"share": 1.5, "after": "3 s"}, "Input should be less than or equal to 1"),
    "no unit": ({"timeout": 3}, "3 has no unit; write e.g. '3 ms'"),
}


@each_case("name", list(WRONG))
def test_what_cannot_be_meant_is_refused(name: str) -> None:
    given, message = WRONG[name]
    with pytest.raises(ValidationError) as caught:
        CancellationConfig.model_validate(given)
    assert message in str(caught.value)


def test_a_retry_alone_is_for_requests_that_a_router_rejects() -> None:
    found = CancellationConfig.model_validate({"retry": {"attempts": 2}})
    assert found.retry is not None
    assert (found.retry.backoff, found.retry.factor, found.retry.max_backoff) == (1.0, 2.0, 60.0)
