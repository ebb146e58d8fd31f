"""Curves of efficiency and fixed times of kernels, as profiles write them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from simsys.config.kernel_schema import Curves, Floors

POINT = {"rows": 1, "compute": 0.5, "memory": 0.5}


def test_one_time_is_that_of_all_dtypes() -> None:
    floors = TypeAdapter(Floors)
    assert floors.validate_python("4 us") == {"default": 4e-6}
    assert floors.validate_python({"default": "4 us", "fp8": "5 us"}) == {"default": 4e-6, "fp8": 5e-6}


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ({"fp8": [POINT]}, "an entry named 'default' is needed"),
        ({"default": [POINT, POINT]}, "in order of increasing rows"),
        ({"default": []}, "at least 1 item"),
        ({"default": [{**POINT, "memory": 1.5}]}, "above 1"),
    ],
)
def test_curves_have_a_default_and_rows_that_increase(curves: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(Curves).validate_python(curves)
