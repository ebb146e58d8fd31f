"""Passes at high detail: disturbed on their links or GPUs, and on links that change, beside times of single steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from simsys.model.batch import Batch
from simsys.model.transformer import build_transformer, gpt_architecture
from simsys.ops import Compute, Forward
from simsys.parallel.layout import Layout
from simsys.parallel.passes import forward_pass
from simsys.platform.fifo import FifoNetwork
from simsys.platform.network import Network
from simsys.rank import Rank
from simsys.teams import Team
from tests.helpers.toys import LATENCY, Run, simulate, work_of

GPT = build_transformer(gpt_architecture("toy", num_layers=12, hidden_size=256, num_attention_heads=4))
DECODE = Batch(8, 8, decode_context_tokens=4000, decode_sequences=8)
TENSOR = 4
HOST_S = 1e-4


def passes(count: int, *disturbances: Any) -> Run:
    """So many passes of a team, and what else its ranks do: (rank, when, what)."""
    layout = Layout(tensor=TENSOR)

    def program(rank: Rank) -> Iterator[Any]:
        env = rank._executor.env
        for who, when_s, what in disturbances:
            if who == rank.index:
                env.at(when_s, lambda _, what=what: what(rank))
        if rank.index == 0:
            team = Team(layout.group(0, "tensor"), forward_pass(GPT, TENSOR), rank._executor)
            for _ in range(count):
                yield team.forward(DECODE, host_s=HOST_S)

    return simulate("high", program, layout, per_layer_s=1e-5)


def ends_s(run: Run) -> list[float]:
    return [ended_s for op, _, ended_s in run.log.operations if isinstance(op, Forward)]


def to_the_next(rank: Rank) -> None:
    """A message over a link of the team's ring."""
    rank.send((rank.index + 1) % TENSOR, 1e5)


def test_a_pass_that_follows_another_takes_as_long_to_the_last_digits() -> None:
    ended_s = [0.0, *ends_s(passes(50))]
    each_s = [after - before for before, after in pairwise(ended_s)]
    assert each_s == [pytest.approx(each_s[0], rel=1e-12)] * 50


def test_messages_on_its_links_delay_a_pass_as_if_every_step_were_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    alone_s = ends_s(passes(3))[-1]
    messages = [(rank, alone_s * share, to_the_next) for rank, share in ((0, 0.2), (1, 0.33), (0, 0.5), (3, 0.77))]
    quiet = passes(3, *messages)
    monkeypatch.setattr(FifoNetwork, "schedule", Network.schedule)
    stepped = passes(3, *messages)
    assert ends_s(quiet) == pytest.approx(ends_s(stepped), rel=1e-12)
    assert ends_s(quiet)[-1] > alone_s + 0.1 * LATENCY
    assert quiet.executor.env.events_scheduled < stepped.executor.env.events_scheduled


@pytest.mark.parametrize("rank", range(TENSOR))
def test_work_on_the_gpu_of_one_rank_holds_up_all(rank: int) -> None:
    busy_s = 5e-3
    alone, run = passes(1), passes(1, (rank, HOST_S / 2, lambda each: each.compute(work_of(busy_s), name="other")))
    late_s = HOST_S / 2 + busy_s - HOST_S
    assert ends_s(run) == [pytest.approx(ends_s(alone)[0] + late_s)]
    each_s = [device.busy_s for device in run.platform.devices]
    busy_alone_s = alone.platform.devices[0].busy_s
    assert each_s == [pytest.approx(busy_alone_s + busy_s * (index == rank)) for index in range(TENSOR)]


def test_observers_hear_of_every_segment_on_every_rank_and_change_nothing() -> None:
    layout = Layout(tensor=TENSOR)

    def program(rank: Rank) -> Iterator[Any]:
        if rank.index == 0:
            yield Team(layout.group(0, "tensor"), forward_pass(GPT, TENSOR), rank._executor).forward(DECODE)

    heard, unheard = simulate("high", program, layout), simulate("high", program, layout, probes=[])
    assert heard.end_s == unheard.end_s
    spans = {
        rank: [span for op, *span in heard.log.operations if isinstance(op, Compute) and op.rank == rank]
        for rank in range(TENSOR)
    }
    assert len(spans[0]) == 2 * 12 + 2  # two per layer, the embedding and the head
    assert all(spans[rank] == spans[0] for rank in spans)
    assert all(after[0] > before[1] for before, after in pairwise(spans[0]))  # a collective lies between
