"""Layers of a profile: what is its own, and what it takes over from the profile that it extends."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.document import parse_document
from simsys.config.profile_layers import Layer, fit_layer, merged, profile_layer, taken_over

BASE = """
vendor: NVIDIA
memory: 80 GB
price: {usd_per_hour: 2 $/h, source: a cloud}
efficiency: {gemm: 0.5, attention: 0.4}
nccl: hopper
sources: {memory: sheet, efficiency: measured}
"""


def layers(own: dict[str, Any], fit: str | None = None, base_fit: str | None = None) -> list[Layer]:
    """A profile that extends BASE, nearest first, each with what was fitted for it before it."""
    found = [fit_layer(parse_document(fit, "own.yaml"))] if fit else []
    found.append(Layer({"extends": "base", **own}, None))
    found += [fit_layer(parse_document(base_fit, "base.yaml"))] if base_fit else []
    return [*found, profile_layer(parse_document(BASE, "folder/base.yaml"))]


def test_a_profile_without_a_parent_takes_nothing_over() -> None:
    assert taken_over([profile_layer(parse_document(BASE, "base.yaml"))]) == ("", frozenset())


@pytest.mark.parametrize(
    ("own", "fit", "kept"),
    [
        ({}, None, {"price", "efficiency", "nccl", "memory"}),
        ({"memory": "96 GB"}, None, {"price", "efficiency", "nccl"}),
        ({"price": "1 $/h"}, None, {"efficiency", "nccl", "memory"}),
        ({"price": {"usd_per_hour": "1 $/h"}}, None, {"efficiency", "nccl", "memory"}),  # a price goes whole
        ({"price": None, "nccl": None}, None, {"efficiency", "memory"}),
        ({"efficiency": {"gemm": 0.6}}, None, {"price", "efficiency", "nccl", "memory"}),  # attention is left
        ({"efficiency": {"gemm": 0.6, "attention": 0.6}}, None, {"price", "nccl", "memory"}),
        ({}, "efficiency: {gemm: 0.6, attention: 0.6}", {"price", "nccl", "memory"}),  # fitted for itself
        ({"efficiency": {"gemm": 0.6}}, "efficiency: {attention: 0.3}", {"price", "nccl", "memory"}),
    ],
)
def test_what_is_neither_written_nor_fitted_for_a_profile_is_taken_over(
    own: dict[str, Any], fit: str | None, kept: set[str]
) -> None:
    name, fields = taken_over(layers(own, fit))
    assert name == "base"
    assert fields & {"price", "efficiency", "nccl", "memory"} == kept


def test_a_fit_of_the_parent_is_taken_over_too() -> None:
    found = layers({"efficiency": {"gemm": 0.6}}, base_fit="efficiency: {attention: 0.9}")
    assert "efficiency" in taken_over(found)[1]
    assert merged(found).data["efficiency"] == {"gemm": 0.6, "attention": 0.9}


def test_numbers_of_an_experiment_are_the_users_without_a_word_and_files_say_their_sources() -> None:
    data = {"name": "mine", "memory": "1 GB", "link": {"latency": "1 us"}, "price": "1 $/h"}
    assert merged([Layer(data, None)]).data["sources"] == {"memory": "user", "link.latency": "user"}
    assert "sources" not in merged([profile_layer(parse_document("memory: 1 GB\n", "x.yaml"))]).data
