"""Training steps of pipelines: what a stage does with what it sends."""

from __future__ import annotations

import pytest

from simsys.executors import LEVELS
from simsys.parallel.layout import Layout
from tests.helpers.toys import BANDWIDTH, LATENCY
from tests.helpers.training_toys import block_of, train

FORWARD_S, BACKWARD_S = 1e-3, 2e-3
MESSAGE_S = LATENCY + 1e6 / BANDWIDTH


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("module", ["ddp", "fsdp"])
@pytest.mark.parametrize(("waits", "messages"), [(False, 2), (True, 4)])
def test_a_stage_that_waits_for_its_sends_computes_later(level: str, module: str, waits: bool, messages: int) -> None:
    """Two micro-batches through two stages: the second waits for the message of the first, there and back.

    Passes through DDP are known beforehand; FSDP has something to do before and after each block.
    """
    blocks = [[block_of(0.0, forward_s=FORWARD_S, backward_s=BACKWARD_S)]]
    run = train(
        level,
        module,
        blocks,
        Layout(pipeline=2),
        micro_batches=2,
        schedule="gpipe",
        waits_for_sends=waits,
    )
    assert run.end_s == pytest.approx(3 * FORWARD_S + 3 * BACKWARD_S + messages * MESSAGE_S, rel=1e-9)
