"""Pipeline schedules against theory: bubbles, makespans and micro-batches in flight, with free communication."""

from __future__ import annotations

from itertools import product

import pytest

from frameworks.gpipe import GPipe
from frameworks.interleaved import Interleaved
from frameworks.none import NoDataParallel
from frameworks.one_f_one_b import OneForwardOneBackward
from frameworks.training import Training
from frameworks.zero_bubble import ZeroBubbleH1
from simsys.errors import UsageError
from simsys.framework import FRAMEWORKS, Schedule
from simsys.model.work import Work
from simsys.ops import Send
from simsys.parallel.layout import Layout
from simsys.parallel.pipeline_schedule import Action, ActionKind, peak_in_flight
from simsys.parallel.plan import Block, Part, TrainingPlan
from simsys.platform.topology import full_mesh
from tests.helpers.toys import BANDWIDTH, LATENCY, Run, simulate, work_of

FORWARD_S, BACKWARD_S = 1e-3, 2e-3
LEVELS = ("high", "medium")
SIZES = [(1, 3), (2, 2), (2, 5), (3, 3), (4, 4), (4, 8), (4, 9), (8, 8), (8, 16)]
"""Stages and micro-batches, never fewer micro-batches than stages."""


def run(
    level: str,
    schedule: Schedule,
    stages: int,
    micro_batches: int,
    chunks: int = 1,
    *,
    backward_s: float = BACKWARD_S,
    weight_s: float = 0.0,
    boundary_bytes: float = 0.0,
    latency_s: float = 0.0,
) -> Run:
    """One step of equal stages; each stage's layers are divided among its chunks."""

    def parts(seconds: float) -> tuple[Part, ...]:
        return (Part(work_of(seconds / chunks)),) if seconds else ()

    block = Block("layers", parts(FORWARD_S), parts(backward_s), gradient_bytes=0.0, weight=parts(weight_s))
    plan = TrainingPlan(
        ((block,),) * chunks, micro_batches, Work(), (boundary_bytes,) * chunks, (boundary_bytes,) * chunks
    )
    layout = Layout(pipeline=stages)
    return simulate(
        level,
        lambda rank: Training(rank, plan, NoDataParallel(rank, plan, NoDataParallel.Options()), schedule).step(),
        layout,
        topology=full_mesh(stages, BANDWIDTH, latency_s),
    )


def orders(schedule: Schedule, stages: int, micro_batches: int, chunks: int = 1) -> list[list[Action]]:
    return [schedule.actions(stage, stages, micro_batches, chunks) for stage in range(stages)]


def in_flight(schedule: Schedule, stages: int, micro_batches: int, chunks: int = 1) -> list[int]:
    return [sum(peak_in_flight(order)) for order in orders(schedule, stages, micro_batches, chunks)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("stages", "micro_batches"), [*SIZES, (4, 1), (4, 3)])
@pytest.mark.parametrize("schedule", [GPipe(), OneForwardOneBackward()], ids=["gpipe", "1f1b"])
def test_the_bubble_is_p_minus_1_over_m(schedule: Schedule, stages: int, micro_batches: int, level: str) -> None:
    """Huang et al. 2019, section 2.3; Narayanan et al. 2021, section 2.2.1: both wait for p - 1 forward-backwards."""
    done = run(level, schedule, stages, micro_batches)
    ideal_s = micro_batches * (FORWARD_S + BACKWARD_S)
    assert done.end_s == pytest.approx(ideal_s * (1 + (stages - 1) / micro_batches), rel=1e-9)
    for device in done.platform.devices:
        assert device.busy_s == pytest.approx(ideal_s, rel=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("stages", "micro_batches", "chunks"),
    [(p, m * p, v) for p, m, v in product((1, 2, 3, 4), (1, 2, 3), (1, 2, 3))] + [(8, 8, 2), (8, 16, 4)],
)
def test_interleaving_divides_the_bubble_by_the_chunks(
    stages: int, micro_batches: int, chunks: int, level: str
) -> None:
    """Narayanan et al. 2021, section 2.2.2: (p - 1)/(v·m)."""
    done = run(level, Interleaved(), stages, micro_batches, chunks)
    ideal_s = micro_batches * (FORWARD_S + BACKWARD_S)
    assert done.end_s == pytest.approx(ideal_s * (1 + (stages - 1) / (chunks * micro_batches)), rel=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("stages", "micro_batches"), SIZES)
def test_the_zero_bubble_schedule_waits_for_forward_plus_backward_minus_weight(
    stages: int, micro_batches: int, level: str
) -> None:
    """Qi et al. 2023, table 2: ZB-H1 leaves (p - 1)(T_F + T_B - T_W), a third of 1F1B's bubble at equal times."""
    done = run(level, ZeroBubbleH1(), stages, micro_batches, backward_s=FORWARD_S, weight_s=FORWARD_S)
    bubble_s = (stages - 1) * FORWARD_S
    assert done.end_s == pytest.approx(3 * micro_batches * FORWARD_S + bubble_s, rel=1e-9)


@pytest.mark.parametrize(("stages", "micro_batches"), [size for size in SIZES if size[0] > 1])
@pytest.mark.parametrize("backward_s", [0.8e-3, 1.2e-3])
def test_the_zero_bubble_schedule_beats_1f1b_at_unequal_times_too(
    stages: int, micro_batches: int, backward_s: float
) -> None:
    weight_s = BACKWARD_S - backward_s
    split = run("medium", ZeroBubbleH1(), stages, micro_batches, backward_s=backward_s, weight_s=weight_s)
    whole = run("medium", OneForwardOneBackward(), stages, micro_batches)
    assert split.end_s < whole.end_s
    assert split.end_s >= micro_batches * (FORWARD_S + BACKWARD_S) + (stages - 1) * FORWARD_S - 1e-12


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("schedule", [GPipe(), OneForwardOneBackward()], ids=["gpipe", "1f1b"])
def test_messages_delay_the_first_forward_and_the_last_backward(schedule: Schedule, level: str) -> None:
    """With one micro-batch nothing hides the p - 1 messages each way."""
    stages, nbytes = 4, 10e6
    done = run(level, schedule, stages, 1, boundary_bytes=nbytes, latency_s=LATENCY)
    hop_s = LATENCY + nbytes / BANDWIDTH
    assert done.end_s == pytest.approx(stages * (FORWARD_S + BACKWARD_S) + 2 * (stages - 1) * hop_s, rel=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_interleaving_sends_v_times_the_messages_and_between_the_ends_too(level: str) -> None:
    stages, micro_batches, chunks, nbytes = 4, 4, 2, 1e3
    done = run(level, Interleaved(), stages, micro_batches, chunks, boundary_bytes=nbytes, latency_s=LATENCY)
    plain = run(level, OneForwardOneBackward(), stages, micro_batches, boundary_bytes=nbytes, latency_s=LATENCY)
    if level == "high":  # medium may tell the probes of many messages at once
        sent, sent_plain = (sum(isinstance(op, Send) for op, _, _ in each.log.operations) for each in (done, plain))
        assert sent == 2 * micro_batches * (stages * chunks - 1)
        assert sent_plain == 2 * micro_batches * (stages - 1)
    assert done.end_s < plain.end_s


@pytest.mark.parametrize(("stages", "micro_batches"), [*SIZES, (4, 1), (4, 3)])
def test_gpipe_keeps_all_micro_batches(stages: int, micro_batches: int) -> None:
    assert in_flight(GPipe(), stages, micro_batches) == [micro_batches] * stages


@pytest.mark.parametrize(("stages", "micro_batches"), [*SIZES, (4, 1), (4, 3)])
def test_1f1b_keeps_as_many_as_there_are_stages_to_come(stages: int, micro_batches: int) -> None:
    """Narayanan et al. 2021, section 2.2.1."""
    expected = [min(micro_batches, stages - stage) for stage in range(stages)]
    assert in_flight(OneForwardOneBackward(), stages, micro_batches) == expected


@pytest.mark.parametrize(("stages", "micro_batches"), [*SIZES, (4, 1), (4, 3)])
def test_zb_h1_keeps_as_many_on_every_stage_as_1f1b_on_the_first(stages: int, micro_batches: int) -> None:
    """Qi et al. 2023, section 2.2: the peak memory is that of 1F1B; activations stay until the weights' gradients."""
    assert in_flight(ZeroBubbleH1(), stages, micro_batches) == [min(micro_batches, stages)] * stages


def test_zb_h1_puts_off_the_gradients_of_weights_by_the_number_of_the_stage() -> None:
    """The order of Qi et al. 2023, figure 3, for fewer micro-batches."""
    shown = [" ".join(f"{kind.name[0]}{i}" for kind, i, _ in order) for order in orders(ZeroBubbleH1(), 3, 4)]
    assert shown == [
        "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3",
        "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3",
        "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3",
    ]


@pytest.mark.parametrize(("stages", "chunks"), list(product((2, 4, 8), (1, 2, 3))))
def test_interleaving_keeps_more(stages: int, chunks: int) -> None:
    """Korthikanti et al. 2022, section 4.2.3: (1 + (p - 1)/(p·v)) times the activations of 1F1B's first stage."""
    first, *_, last = in_flight(Interleaved(), stages, 4 * stages, chunks)
    assert first / chunks == pytest.approx(stages * (1 + (stages - 1) / (stages * chunks)))
    assert last == (chunks - 1) * stages + 1


def test_the_chunks_in_flight_are_counted_one_by_one() -> None:
    # Two stages, two chunks: two micro-batches through chunk 0, then chunk 1, and one more when the first returns.
    assert peak_in_flight(Interleaved().actions(0, 2, 4, 2)) == (3, 2)


def test_1f1b_of_three_stages_and_four_micro_batches_as_drawn() -> None:
    """The order of Narayanan et al. 2021, figure 4 (top), for fewer stages."""
    shown = [
        " ".join(f"{'F' if kind is ActionKind.FORWARD else 'B'}{i}" for kind, i, _ in order)
        for order in orders(OneForwardOneBackward(), 3, 4)
    ]
    assert shown == ["F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"]


def test_gpipe_goes_back_the_way_it_came() -> None:
    (order,) = {tuple(order) for order in orders(GPipe(), 4, 3)}
    assert [(str(kind), i) for kind, i, _ in order] == [
        *(("forward", i) for i in (0, 1, 2)),
        *(("backward", i) for i in (2, 1, 0)),
    ]


@pytest.mark.parametrize("schedule", [GPipe(), OneForwardOneBackward(), ZeroBubbleH1()])
def test_one_chunk_only(schedule: Schedule) -> None:
    with pytest.raises(UsageError, match=r"one chunk of layers per stage, not 2 virtual stages; use interleaved"):
        schedule.actions(0, 4, 8, 2)


@pytest.mark.parametrize("micro_batches", [1, 3, 5, 6])
def test_interleaving_needs_whole_rounds(micro_batches: int) -> None:
    with pytest.raises(UsageError, match=f"multiples of 4 stages, not {micro_batches}"):
        Interleaved().actions(0, 4, micro_batches, 2)


@pytest.mark.parametrize(
    ("name", "schedule"),
    [("1f1b", OneForwardOneBackward), ("interleaved_1f1b", Interleaved), ("zb_h1", ZeroBubbleH1), ("gpipe", GPipe)],
)
def test_names(name: str, schedule: type[Schedule]) -> None:
    assert FRAMEWORKS.get(name, Schedule) is schedule
