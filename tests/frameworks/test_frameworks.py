"""Every shipped framework module passes the conformance kit, and the kit finds what is wrong with broken ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.ddp import DDP
from frameworks.gpipe import GPipe
from frameworks.llm_decode import LLMDecode
from frameworks.llm_prefill import LLMPrefill
from frameworks.one_f_one_b import OneForwardOneBackward
from frameworks.training import Training
from simsys.errors import UsageError
from simsys.framework import (
    FRAMEWORKS,
    Action,
    ActionKind,
    Chunk,
    DataParallel,
    FrozenModel,
    Schedule,
    Steps,
)
from simsys.model.batch import Batch
from simsys.testing import check_framework, check_scheduler, record, toy_requests
from simsys.testing.runs import cases


@pytest.mark.parametrize("name", FRAMEWORKS.names())
def test_shipped_modules_conform(name: str) -> None:
    check_framework(FRAMEWORKS.get(name, object))


@pytest.mark.parametrize("options", [{"overlap": False}, {"bucket_size": "1 kB", "first_bucket_size": "100 B"}])
def test_ddp_conforms_with_other_options(options: dict[str, Any]) -> None:
    check_framework(DDP, **options)


class RankLeftOut(DDP):
    def finish(self) -> Any:
        return None if self.rank.index == 1 else self.rank.all_reduce(8.0, over="data")


class DifferentSizes(DDP):
    def finish(self) -> Any:
        return self.rank.all_reduce(8.0 + self.rank.index, over="data")


class Leak(DataParallel):
    def finish(self) -> Any:
        self.iteration = getattr(self, "iteration", 0) + 1
        return self.rank.allocate(100.0, name=f"buffer {self.iteration}")


class NobodyListens(DataParallel):
    def finish(self) -> Any:
        if self.rank.index == 0:
            self.rank.send(1, 10.0, tag="hello")


class NobodySpeaks(DataParallel):
    def finish(self) -> Any:
        return self.rank.recv(0, tag="hello") if self.rank.index == 1 else None


class Forgetful(DataParallel):
    calls: ClassVar[list[int]] = []

    def finish(self) -> Any:
        self.calls.append(1)
        return self.rank.all_reduce(1e6 * (len(self.calls) // 1000 + 1), over="data", name=f"call {len(self.calls)}")


class LevelDependent(DataParallel):
    def finish(self) -> Any:
        high = not self.rank._executor.computation.aggregates
        return self.rank.all_reduce(2e6 if high else 1e6, over="data")


class Shy(DataParallel):
    def finish(self) -> Any:
        observed = bool(self.rank._executor.probes.operation)
        return self.rank.all_reduce(2e6 if observed else 1e6, over="data")


class WarmsUp(DataParallel):
    """Sends twice as much in its first step, against what it declares."""

    same_every_step = same_first_step = True

    def __init__(self, rank: Any, plan: Any, options: Any) -> None:
        super().__init__(rank, plan, options)
        self.nbytes = 2e6

    def finish(self) -> Any:
        nbytes, self.nbytes = self.nbytes, 1e6
        return self.rank.all_reduce(nbytes, over="data")


class Grows(WarmsUp):
    """Sends more in every step."""

    def finish(self) -> Any:
        self.nbytes += 1e6
        return self.rank.all_reduce(self.nbytes, over="data")


class GrowsLater(Grows):
    same_first_step = False


class BackwardFirst(GPipe):
    def actions(self, *sizes: int) -> list[Action]:
        return super().actions(*sizes)[::-1]


class OtherOrderDownstream(GPipe):
    """Each stage's order is sound by itself, but the second waits for what the first sends last."""

    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        first = OneForwardOneBackward().actions(stage, stages, micro_batches, chunks)
        return first if stage == 0 else super().actions(stage, stages, micro_batches, chunks)


class Skips(GPipe):
    def actions(self, *sizes: int) -> list[Action]:
        return super().actions(*sizes)[:-1]


class PutsOffWhatIsNotSplit(GPipe):
    def actions(self, *sizes: int) -> list[Action]:
        return [*super().actions(*sizes), Action(ActionKind.WEIGHT, 0)]


class NeverCatchesUp(GPipe):
    splits_backward = True


class Moody(GPipe):
    calls: ClassVar[list[int]] = []

    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        self.calls.append(1)
        order = super().actions(stage, stages, micro_batches, chunks)
        return [*order[:micro_batches], *order[micro_batches:][:: (-1) ** len(self.calls)]]


class Crashes(Schedule):
    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        return [Action(ActionKind.FORWARD, [0][stages])]


class Refuses(Schedule):
    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        raise UsageError("never")


class MutableOptions(DataParallel):
    class Options(BaseModel, extra="forbid"):
        size: int = 1


class LooseOptions(DataParallel):
    class Options(FrozenModel, extra="allow"):
        size: int = 1


class Endless(Training):
    def step(self) -> Steps:
        while True:
            yield self.rank.compute(self.plan.optimizer)


class Stuck(Training):
    def step(self) -> Steps:
        yield self.rank._executor.env.event()


class OverBudget(ChunkedPrefill):
    def chunk_tokens(self, request: int, budget: int) -> int:
        return self.sequences.remaining_prompt(request)


class TooMany(ChunkedPrefill):
    def schedule(self) -> list[Chunk]:
        chunks = super().schedule()
        if len(self.running) == self.options.max_num_seqs and self.waiting:
            chunks += filter(None, [self.admit(self.waiting[0], 1)])
        return chunks


class Dropper(ChunkedPrefill):
    def schedule(self) -> list[Chunk]:
        if len(self.waiting) > 3:
            self.waiting.popleft()
        return super().schedule()


class Twice(ChunkedPrefill):
    def schedule(self) -> list[Chunk]:
        for hook in self._probes.request_finished:
            hook(0, 0.0)
        return super().schedule()


class EverySecondStep(ChunkedPrefill):
    """Answers differently although nothing has happened."""

    asked = 0

    def schedule(self) -> list[Chunk]:
        self.asked += 1
        return [] if self.asked % 2 and self.decode.size else super().schedule()


class EmptyChunks(ChunkedPrefill):
    def schedule(self) -> list[Chunk]:
        return [Chunk(chunk.request, 0) for chunk in super().schedule()]


class AskedForEver(ChunkedPrefill):
    def schedule(self) -> list[Chunk]:
        self.preempted = True
        return []


class KeepsBlocks(LLMDecode):
    def leave(self, request: int) -> None:
        held = self.kv.free_blocks
        super().leave(request)
        self.kv.free_blocks = held


class SilentPrefill(LLMPrefill):
    def work(self, chunks: Any) -> Batch:
        return Batch(tokens=sum(chunk.tokens for chunk in chunks))


class LastTokenTwice(LLMDecode):
    def add(self, request: int) -> None:
        self.sequences.generated_tokens[request] -= 1
        super().add(request)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (RankLeftOut, r"all_reduce 'all_reduce' of ranks 0, 1: rank 1 never joined"),
        (DifferentSizes, r"mismatched collectives: rank 1 calls all_reduce .* of 9 bytes"),
        (Leak, r"memory does not return to its start: rank 0 holds \{'buffer 1': 100\} after iteration 0"),
        (NobodyListens, r"1 messages from rank 0 to 1 \(tag 'hello'\) are never received"),
        (NobodySpeaks, r"rank 1 waits for a message from rank 0 \(tag 'hello'\) that was never sent"),
        (Forgetful, r"not deterministic: two recordings differ"),
        (LevelDependent, r"the end of iteration 0 on rank 0 is at .* s at high and at .* s at medium detail"),
        (Shy, r"observing it changes the result at medium detail"),
        (WarmsUp, r"step 1 of rank 0 differs from step 0: same_first_step"),
        (GrowsLater, r"step 2 of rank 0 differs from step 1: same_every_step"),
        (BackwardFirst, r"1 stages, 1 .* chunks: deadlock: stage 0 cannot begin backward of micro-batch 0 in chunk 0"),
        (OtherOrderDownstream, r"deadlock: stage 0 cannot begin backward of micro-batch 0 in chunk 0; stage 1 cannot"),
        (Skips, r"stage 0 does backward of micro-batch 0 in chunk 0 0 times, not 1"),
        (PutsOffWhatIsNotSplit, r"stage 0 does weight of micro-batch 0 in chunk 0 1 times, not 0"),
        (NeverCatchesUp, r"stage 0 does weight of micro-batch 0 in chunk 0 0 times, not 1"),
        (Moody, r"not deterministic: two answers differ"),
        (Crashes, r"IndexError.*; refuse numbers with UsageError"),
        (Refuses, r"accepts no pipeline"),
        (MutableOptions, r"MutableOptions.Options: size can be changed"),
        (LooseOptions, r"LooseOptions.Options: an unknown key is accepted"),
        (Endless, r"no end after 100000 operations; the last is .*'verb': 'compute'"),
        (Stuck, r"ranks 0, 1 wait at frameworks/test_frameworks.py:\d+ \(Stuck"),
        (OverBudget, r"a step of \d+ tokens exceeds max_num_batched_tokens=64"),
        (TooMany, r"9 running requests exceed max_num_seqs=8"),
        (Dropper, r"request \d+ ends 0 times, not once"),
        (Twice, r"request 0 ends \d+ times, not once"),
        (EverySecondStep, r"a long run of steps is not what its single steps are: request \d+: \w+"),
        (EmptyChunks, r"a chunk of 0 tokens, not the rest of the prompt"),
        (AskedForEver, r"preempts every request that it admits"),
        (KeepsBlocks, r"\d+ KV blocks are not given back"),
        (SilentPrefill, r"\d+ output tokens are computed, \d+ are asked for"),
        (LastTokenTwice, r"more KV blocks were released than taken"),
        (dict, r"dict is no framework module"),
    ],
)
def test_the_kit_finds_what_is_wrong(module: type, message: str) -> None:
    with pytest.raises(AssertionError, match=message) as caught:
        check_framework(module)
    assert str(caught.value).startswith(module.__name__)


def test_a_recording_is_the_list_of_what_a_module_asks_for() -> None:
    operations = record(DDP, bucket_size="200 kB", first_bucket_size="50 kB")
    assert {op["rank"] for op in operations} == {0, 1}
    mine = [op for op in operations if op["rank"] == 0]
    # Two micro-batches of four blocks (embedding, two layers, head), forward and backward, then the optimizer.
    names = [op["name"] for op in mine if op["verb"] == "compute"]
    assert names == (["forward"] * 4 + ["backward"] * 4) * 2 + ["optimizer"]
    exchanges = [op for op in mine if op["name"] == "gradients"]
    assert all(op["verb"] == "all_reduce" and op["group"] == [0, 1] for op in exchanges)
    assert [op["nbytes"] for op in exchanges][:3] == [50e3, 200e3, 200e3]
    assert mine.index(exchanges[0]) < len(mine) - len(exchanges) - 1, (
        "the first bucket leaves during the backward pass"
    )


def test_a_recording_of_a_scheduler_lists_its_steps() -> None:
    steps = record(ChunkedPrefill)
    assert {op["verb"] for op in steps} == {"forward"}
    assert max(op["tokens"] for op in steps) <= 64


class NeverEnds(LLMDecode):
    """Decodes on and on, in steps that are never the last."""

    def steps_left(self) -> int:
        return 1

    def finish(self, steps: int = 1) -> list[int]:
        return []


@pytest.mark.slow
def test_requests_that_never_end_are_found_where_steps_are_no_events() -> None:
    with pytest.raises(AssertionError, match=r"no end within \d+ runs of steps"):
        replace(cases(NeverEnds, {})[0], requests=toy_requests(2)).run("medium")  # all of which run at once


def test_a_sound_scheduler_is_ok_and_anything_else_is_refused() -> None:
    assert check_scheduler(ChunkedPrefill, max_num_seqs=8) == "ok"
    with pytest.raises(AssertionError, match=r"DDP is no scheduler: derive it from Scheduler of simsys\.framework"):
        check_scheduler(DDP)
    with pytest.raises(AssertionError, match="DataParallelish is no framework module"):
        check_framework(type("DataParallelish", (), {}))
    unfinished = type("Unfinished", (Schedule,), {})
    with pytest.raises(AssertionError, match="Unfinished is not complete: it has no actions"):
        check_framework(unfinished)
