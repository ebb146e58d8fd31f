"""The encoder of an engine: what it encodes, how long embeddings stay, and where chunks end."""

from __future__ import annotations

from typing import Any, cast

import simpy

from simsys.model.batch import Batch
from simsys.model.image_grids import ImageWork
from simsys.parallel.layout import Group
from simsys.probes import Probe, Probes
from simsys.serving.image_encoder import ImageEncoder, ImageLimits
from simsys.serving.requests import RequestTable
from simsys.serving.sequences import Sequences
from simsys.teams import Team

TOKENS = 10
"""Of an image in a prompt."""


class Encoded(Probe):
    """Numbers of images of all passes, and look-ups."""

    def __init__(self) -> None:
        self.passes: list[int] = []
        self.lookups: list[tuple[int, bool]] = []

    def image_lookup(self, request: int, hit: bool) -> None:
        self.lookups.append((request, hit))

    def images_encoded(self, rank: int, images: int, started_s: float, ended_s: float) -> None:
        self.passes.append(images)


class Instant:
    """A team whose passes take no time."""

    def __init__(self) -> None:
        self.env, self.group = simpy.Environment(), Group((0,), "tensor")

    def forward(self, batch: Batch, *, host_s: float = 0.0, name: str = "") -> Any:
        return self.env.timeout(0)


class Case:
    """Requests with prompts of 5 tokens and images after them, and their encoder."""

    def __init__(self, images: list[tuple[int, ...]], *, per_step: int = 9, cached: int = 9) -> None:
        count = len(images)
        prompts = [5 + TOKENS * len(each) for each in images]
        work = ImageWork(4, 16, 16, TOKENS, TOKENS)
        table = RequestTable([0.0] * count, prompts, [1] * count, images=images, image=work)
        self.team, self.probe = Instant(), Encoded()
        self.sequences, self.prefilling = Sequences(table), dict.fromkeys(range(count))
        limits, team = ImageLimits(per_step, cached), cast(Team, self.team)
        self.encoder = ImageEncoder(table, limits, team, lambda images: Batch(images), Probes([self.probe]))
        self.encoder.serve(self.sequences, self.prefilling)

    def step(self, *wanted: tuple[int, int]) -> list[int]:
        """Schedule chunks of requests with up to a number of tokens, and process them; return their tokens."""
        encoder, computed, chunks = self.encoder, self.sequences.computed_tokens, list[tuple[int, int]]()
        encoder.prepare()
        for request, tokens in wanted:
            allowed = encoder.reach(request, computed[request], tokens)
            if allowed:
                encoder.take(request, computed[request], allowed)
            chunks.append((request, allowed))
        encoder.copies(chunks)
        self.team.env.run()
        for request, tokens in chunks:
            computed[request] += tokens
            if computed[request] == self.sequences.prompt_tokens[request]:
                del self.prefilling[request]
        return [tokens for _, tokens in chunks]


def test_text_needs_no_encoder() -> None:
    case = Case([(0,)])
    assert case.step((0, 5)) == [5]
    assert case.probe.passes == []


def test_images_that_a_chunk_reaches_are_encoded_whole_in_one_pass() -> None:
    case = Case([(0, 1, 2)])
    assert case.step((0, 16)) == [16]
    assert case.probe.passes == [2]
    assert case.step((0, 19)) == [19]
    assert case.probe.passes == [2, 1]


def test_a_chunk_ends_before_an_image_beyond_the_budget() -> None:
    case = Case([(0, 1, 2), (3,)], per_step=2)
    assert case.step((0, 35), (1, 15)) == [25, 5]
    assert case.probe.passes == [2]
    assert case.step((0, 10), (1, 10)) == [10, 10]
    assert case.probe.passes == [2, 2]


def test_a_full_cache_holds_up_others_until_a_prompt_has_passed_its_image() -> None:
    case = Case([(0,), (1,)], cached=1)
    assert case.step((0, 10), (1, 15)) == [10, 5]
    assert case.step((0, 5), (1, 10)) == [5, 0]
    assert case.step((1, 10)) == [10]
    assert case.probe.passes == [1, 1]


def test_an_image_is_encoded_once_for_all_that_have_it() -> None:
    case = Case([(7,), (7, 7), (7,)])
    assert case.step((0, 15), (1, 25)) == [15, 25]
    assert case.step((2, 15)) == [15]
    assert case.probe.passes == [1]
    assert case.probe.lookups == [(0, False), (1, True), (1, True), (2, True)]


def test_the_embeddings_freed_first_give_way() -> None:
    case = Case([(0,), (1,), (2,), (1,), (0,)], cached=2)
    for request in range(5):
        assert case.step((request, 15)) == [15]
    assert [hit for _, hit in case.probe.lookups] == [False, False, False, True, False]


def test_an_image_that_comes_again_later_in_a_prompt_does_not_hold_its_place() -> None:
    case = Case([(0, 1, 0)], cached=1)
    assert case.step((0, 35)) == [15]
    assert case.step((0, 20)) == [10]
    assert case.step((0, 10)) == [10]
    assert case.probe.passes == [1, 1, 1]


def test_a_preempted_request_gives_up_images_before_they_are_encoded() -> None:
    case = Case([(0,), (1,)])
    case.encoder.prepare()
    for request in (0, 1):
        case.encoder.take(request, 0, 15)
    case.encoder.leave(0)
    case.encoder.copies([(1, 15)])
    case.team.env.run()
    assert case.probe.passes == [1]
    assert case.step((0, 15)) == [15]
    assert case.probe.passes == [1, 1]
