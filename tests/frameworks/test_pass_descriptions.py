"""Passes as data: memory of a whole pass against what the memory model counts, and hooks once for each gradient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from frameworks.pass_descriptions import Description, Piece, held_by, held_by_whole
from frameworks.training import Training
from frameworks.zero_bubble import ZeroBubbleH1
from simsys.framework import ActionKind, Block, DataParallel, Pass, Rank
from simsys.model.model_db import load_model
from simsys.model.work import Precision, Work
from simsys.parallel.activations import BlockMemory, Recompute, chunk_memory
from simsys.parallel.layout import Layout
from simsys.parallel.passes import forward_pass
from simsys.parallel.plan import Part, StepSettings, TrainingPlan
from simsys.parallel.training import training_plan
from tests.helpers.toys import simulate, work_of

HALF = Precision()
LEVELS = ("high", "medium")
NO_OPERATIONS = Pass(())


def described(kind: ActionKind, memories: list[BlockMemory], shared: int = 0) -> Description:
    """A pass through blocks that hold so much, in the order of the pass."""
    blocks = [Block("block", (), (), 0.0, memory=memory) for memory in memories]
    pieces = tuple(Piece(block, NO_OPERATIONS, *held_by(kind, block), completes=False) for block in blocks)
    ends = (("activations", shared),)
    forward = kind is ActionKind.FORWARD
    return Description(kind, pieces, None, None, ends if forward else (), () if forward else ends)


def amounts(held: tuple[tuple[str, int], ...]) -> dict[str, int]:
    return {name: nbytes for name, nbytes in held if nbytes}


def test_a_forward_pass_keeps_activations_and_holds_logits_for_a_while() -> None:
    takes, gives = held_by_whole(
        described(ActionKind.FORWARD, [BlockMemory(kept=3), BlockMemory(kept=2, logits=7)], shared=1)
    )
    assert amounts(takes) == {"activations": 6, "logits": 7}
    assert amounts(gives) == {"logits": 7}


def test_what_a_pass_gives_back_itself_is_held_once_and_by_no_other_name() -> None:
    takes, gives = held_by_whole(described(ActionKind.FORWARD, [BlockMemory(kept=3, logits=7), BlockMemory(logits=4)]))
    assert takes == (("activations", 3), ("logits", 7))
    assert gives == (("logits", 7),)


def test_a_backward_pass_holds_what_its_fullest_moment_needs() -> None:
    blocks = [BlockMemory(kept=2, logits=7), BlockMemory(kept=3, recomputed=10)]
    takes, gives = held_by_whole(described(ActionKind.BACKWARD, blocks, shared=1))
    assert amounts(takes) == {"logits": 8}, "10 to compute the second block again, when 2 have been given back"
    assert amounts(gives) == {"logits": 8, "activations": 6}


def test_a_pass_of_put_off_gradients_holds_nothing() -> None:
    takes, gives = held_by_whole(described(ActionKind.WEIGHT, [BlockMemory(kept=3, recomputed=5, logits=7)]))
    assert amounts(takes) == amounts(gives) == {}


@pytest.mark.parametrize("recompute", list(Recompute))
@pytest.mark.parametrize("name", ["GPT2-Small", "T5-Large", "Llama3-8B"])
def test_whole_passes_hold_what_the_memory_model_counts(name: str, recompute: Recompute) -> None:
    model = load_model(name)
    chunk = forward_pass(model)
    batch = model.training_batch(2, 512)
    settings = StepSettings(precision=HALF, recompute=recompute)
    plan = training_plan([chunk], batch, settings, vocab_size=model.vocab_size)
    counted = chunk_memory(chunk, batch, HALF, vocab_size=model.vocab_size, recompute=recompute)
    (blocks,) = plan.chunks
    forward = held_by_whole(described(ActionKind.FORWARD, [block.memory for block in blocks], counted.shared))
    backward = held_by_whole(described(ActionKind.BACKWARD, [block.memory for block in blocks[::-1]], counted.shared))
    assert amounts(forward[0]) == amounts(
        (("activations", counted.kept), ("logits", max(block.memory.logits for block in blocks)))
    )
    assert sum(amounts(backward[0]).values()) == counted.passing
    assert amounts(backward[1])["activations"] == counted.kept


class Counting(DataParallel):
    """Counts the gradients that are handed over."""

    every_micro_batch = False
    seen: Counter[tuple[int, str]]

    def after_backward(self, block: Block, *, last_micro_batch: bool) -> None:
        if last_micro_batch:
            self.seen[self.rank.index, block.name] += 1


class EveryPass(Counting):
    """The same, without planned passes."""

    every_micro_batch = True


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", [Counting, EveryPass])
def test_gradients_are_handed_over_once_although_only_some_are_put_off(kind: type[Counting], level: str) -> None:
    part = (Part(work_of(1e-3)),)
    blocks = (Block("at once", part, part, 8.0), Block("put off", part, part, 8.0, weight=part))
    plan = TrainingPlan((blocks,), 4, Work(), (0.0,), (0.0,))
    seen: Counter[tuple[int, str]] = Counter()

    def program(rank: Rank) -> Iterator[Any]:
        module = kind(rank, plan, kind.Options())
        module.seen = seen
        return Training(rank, plan, module, ZeroBubbleH1()).step()

    simulate(level, program, Layout(pipeline=2))
    assert seen == {(rank, block.name): 1 for rank in (0, 1) for block in blocks}
