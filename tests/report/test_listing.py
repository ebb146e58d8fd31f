"""Facts on one screen."""

from __future__ import annotations

import pytest

from simsys.report.catalogue import facts
from simsys.report.listing import description, outline


@pytest.mark.parametrize(("kind", "name"), [("gpu", "H100"), ("engine", "vllm"), ("node", "dgx-h100")])
def test_a_profile_fits_a_screen_and_says_what_is_left_out(kind: str, name: str) -> None:
    text, short = outline(facts(kind, name))
    assert short
    assert len(text.splitlines()) <= 40 < len(description(facts(kind, name)).splitlines())
    assert max(map(len, text.splitlines())) <= 80
    assert "\nsources: " in text


def test_a_gpu_says_its_short_names() -> None:
    assert "H100" in facts("gpu", "H100-SXM")["aliases"]


def test_short_facts_are_written_whole() -> None:
    assert outline(facts("fabric", "infiniband-ndr")) == (description(facts("fabric", "infiniband-ndr")), False)
