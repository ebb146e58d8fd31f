from __future__ import annotations

from typing import Any

import pytest

from simsys.config.conditions import parse_condition
from simsys.errors import UsageError

VALUES: dict[str, Any] = {"tp": 4, "pp": 2, "gpus": 8, "engine": "vllm", "parallelism.tp": 4, "flag": True}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("tp * pp <= gpus", True),
        ("tp * pp < gpus", False),
        ("gpus % tp == 0 and gpus // tp >= pp", True),
        ("engine == 'vllm' or tp > 4", True),
        ("engine in ['sglang', 'trtllm']", False),
        ("not (tp == 4)", False),
        ("1 < pp < tp", True),
        ("max(tp, pp) - min(tp, pp) == 2", True),
        ("parallelism.tp == 4", True),
        ("flag", True),
        ("-tp < 0 and tp / pp != 3", True),
        ("log2(gpus) == 3", True),
    ],
)
def test_a_condition_is_evaluated(text: str, holds: bool) -> None:
    assert parse_condition(text).holds(VALUES.__getitem__) == holds


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "tp.__class__.__mro__[0]",
        "(lambda: 1)()",
        "[x for x in (1, 2)]",
        "tp ** 999999999",
        "open('x')",
        "f'{tp}'",
        "tp if pp else 1",
        "(tp := 4)",
        "tp <=",
        "",
        "1 < 2",
        "max(key=tp)",
        "'a' * 4 == tp + " + "(" * 300,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_condition(text)


@pytest.mark.parametrize("text", ["engine < 4", "engine * 1000000000 == 'x'", "tp / (pp - 2) > 1", "tp in 4"])
def test_values_that_do_not_fit_name_the_settings(text: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be evaluated with .* = "):
        parse_condition(text).holds(VALUES.__getitem__)


def test_a_name_is_listed_once_in_order() -> None:
    assert parse_condition("pp < tp and pp > 1 and a.b == 2").names == ("pp", "tp", "a.b")
