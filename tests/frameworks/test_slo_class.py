"""Routing by headroom: who is preferred, who is shed, and what is learnt of the time of a prompt."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from frameworks.slo_class import SLOClass
from simsys.serving.admission import LATE
from simsys.serving.headroom import HeadroomChoice, HeadroomOptions
from simsys.serving.kv_cache import PagedKVCache


class Seen(SimpleNamespace):
    """What the router sees of a replica."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def replica(used_blocks: int = 0, cached: int = 0, outstanding: int = 1) -> Any:
    return Seen(
        kv=PagedKVCache(1000, 16),
        free_blocks=lambda: 1000 - used_blocks,
        cached_tokens=lambda _: cached,
        sequences=SimpleNamespace(prompt_tokens=[100] * 100, priority=[0, 5] * 50, generated_tokens=[1] * 100),
        outstanding=outstanding,
        now_s=0.0,
        prompt_watchers=[],
    )


def router(replicas: list[Any], **options: Any) -> SLOClass:
    made = SLOClass(replicas, 1, SLOClass.Options(**options))
    made.load.token_s = 1e-3
    return made


def test_headroom_is_that_of_the_class_of_a_request() -> None:
    replicas = [replica(), replica(used_blocks=995)]
    made = router(replicas, ttft_slo={0: "150 ms", 5: "4 s"})
    made.load.send(replicas[0], 2)
    assert made.headroom(replicas[0], 0) == (pytest.approx(-0.05), 1000 - 7)
    assert made.headroom(replicas[0], 1) == (pytest.approx(3.8), 1000 - 7)
    assert made.headroom(replicas[1], 0) == (pytest.approx(0.05), 5 - 7)


def test_the_lowest_classes_are_shed_where_all_would_be_late() -> None:
    made = router([replica(), replica()], ttft_slo={0: "50 ms", 5: "50 ms"}, sheddable_from=3)
    assert (made.refusal(0), made.refusal(1)) == ("", LATE)
    made.load.token_s = 1e-4
    assert made.refusal(1) == ""
    assert router([replica()], ttft_slo={}).refusal(1) == "", "none may be shed"


def test_the_time_of_a_token_is_learnt() -> None:
    one = replica()
    made = SLOClass([one], 1)
    made.load.send(one, 0)
    made.load.send(one, 1)
    one.now_s = 0.4
    for told in one.prompt_watchers:
        told(0)
    assert made.load.token_s == pytest.approx(0.4 / 100)
    for told in one.prompt_watchers:
        told(1)
    assert made.load.token_s == pytest.approx(0.9 * 0.4 / 100 + 0.1 * 0.4 / 200)
    assert (len(one.prompt_watchers), made.load.tokens(one)) == (1, 0)


def choices(headrooms: list[tuple[float, float]], near: tuple[float, ...] = (0, 0, 0), **options: Any) -> Counter[int]:
    made = SLOClass([replica()] * 3, 7)
    given = HeadroomOptions(**options)
    choice = HeadroomChoice(given, made.draw, made.draw_by)
    engines: list[Any] = [replica(), replica(), replica(outstanding=0)]
    return Counter(choice.chosen(headrooms, near, engines) for _ in range(4000))


def test_replicas_with_least_headroom_are_packed_unless_most_is_asked_for() -> None:
    """Weights of the source: 101 for the tightest, 2 for the one with the most headroom, of both kinds."""
    tight = choices([(1.0, 10), (2.0, 20), (9.0, 90)])
    assert tight[0] / 4000 == pytest.approx(101 / (101 + 88 + 2), abs=0.03)
    assert tight[2] / 4000 == pytest.approx(2 / (101 + 88 + 2), abs=0.01)
    spread = choices([(1.0, 10), (2.0, 20), (9.0, 90)], headroom_selection_strategy="most")
    assert spread[2] > 10 * spread[0]


def test_a_replica_without_headroom_is_taken_once_in_a_hundred() -> None:
    found = choices([(1.0, 10), (-2.0, 20), (3.0, -1)])
    assert 0.002 < (found[1] + found[2]) / 4000 < 0.025
    assert found[1] == 0, "of those, an idle one is preferred"


def test_without_headroom_the_least_late_is_preferred() -> None:
    found = choices([(-1.0, 10), (-9.0, 10), (-5.0, 10)], near=(0.9, 0.9, 0.0))
    assert set(found) == {2}, "the idle one"
    engines: list[Any] = [replica(), replica()]
    made = SLOClass(engines, 7)
    choice = HeadroomChoice(HeadroomOptions(), made.draw, made.draw_by)
    late = Counter(choice.chosen([(-1.0, 10), (-9.0, 10)], (0.0, 0.0), engines) for _ in range(2000))
    assert late[0] > 3 * late[1]


def test_a_cached_prompt_is_preferred_with_headroom() -> None:
    found = choices([(1.0, 10), (2.0, 20), (9.0, 90)], near=(0.1, 0.2, 0.85))
    assert found[2] / 4000 > 0.98
