"""Model states on the host: times by hand, volumes, memory, and equality of the levels of detail."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworks.fsdp import FSDP
from frameworks.zero1 import ZeRO1
from frameworks.zero2 import ZeRO2
from simsys.build.job import build_job
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.executors import LEVELS
from simsys.ops import HostChannel
from simsys.parallel.layout import Layout
from simsys.simulation import simulate, simulate_job
from simsys.testing import check_framework
from tests.helpers.thorough import every_second
from tests.helpers.toys import TOY, Run
from tests.helpers.training_toys import block_of, ring_seconds, train

both_levels = pytest.mark.parametrize("level", LEVELS)
RANKS = 4
SIZES = (4e6, 16e6, 16e6, 16e6, 2e6)
MODEL = sum(SIZES)
"""Bytes of the weights in the precision of the passes; in fp32, and of the gradients, twice as many."""
SLOW_S = 1.0
"""Longer than anything else here."""
UPDATE_BYTES = 1e9
UPDATE_S = UPDATE_BYTES / TOY.host_update_bytes_per_s
OFFLOADS = [("fsdp", "optimizer"), ("fsdp", "parameters"), ("zero1", "optimizer"), ("zero2", "optimizer")]
ONE_BUCKET = {"bucket_size": "1 GB", "first_bucket_size": "1 GB"}


def copy_seconds(nbytes: float) -> float:
    return TOY.pcie_latency_s + nbytes / TOY.pcie_bytes_per_s


def model(forward_s: float = 0.0, backward_s: float = 0.0) -> list[Any]:
    first, layer, last = (
        block_of(size, gradient_bytes=2 * size, forward_s=forward_s, backward_s=backward_s)
        for size in (4e6, 16e6, 2e6)
    )
    return [first, layer, layer, layer, last]


def run_of(level: str, name: str, offload: str, *, compute_s: float = 0.0, ranks: int = RANKS, **options: Any) -> Run:
    blocks, layout = [model(compute_s, 2 * compute_s)], Layout(data=ranks)
    return train(level, name, blocks, layout, host_update_bytes=UPDATE_BYTES, offload=offload, **options)


def carried(run: Run, channel: HostChannel) -> list[float]:
    return [device.host[channel].nbytes for device in run.platform.devices]


# --- conformance --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "options"),
    [
        (FSDP, {"offload": "optimizer"}),
        (FSDP, {"offload": "parameters"}),
        (FSDP, {"offload": "parameters", "forward_prefetch": False, "backward_prefetch": False}),
        (FSDP, {"offload": "parameters", "shard_size": 2, "no_sync": True}),
        (ZeRO1, {"offload": "optimizer"}),
        (ZeRO2, {"offload": "optimizer", "overlap": False}),
    ],
)
def test_modules_that_offload_conform(module: type, options: dict[str, Any]) -> None:
    check_framework(module, **options)


# --- times by hand ------------------------------------------------------------------------------------------------


@both_levels
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_long_computation_hides_all_but_the_first_weights_and_the_last_gradients(
    level: str, micro_batches: int
) -> None:
    """And the update, which follows the last gradients; sums of gradients are hidden but for the last one."""
    run = run_of(level, "fsdp", "parameters", compute_s=SLOW_S, micro_batches=micro_batches)
    shard = 2 * SIZES[0] / RANKS
    first = copy_seconds(shard) + ring_seconds(SIZES[0], RANKS)
    last = ring_seconds(2 * SIZES[0], RANKS) + copy_seconds(shard)
    last_sum = 3 * shard / TOY.host_update_bytes_per_s if micro_batches > 1 else 0.0
    # the first weights of a later micro-batch are fetched while the last gradients of the one before are reduced,
    # and gathered when these have been
    later = max(copy_seconds(shard), ring_seconds(2 * SIZES[0], RANKS)) + ring_seconds(SIZES[0], RANKS)
    expected = micro_batches * 15 * SLOW_S + first + (micro_batches - 1) * later + last + last_sum + UPDATE_S
    assert run.end_s == pytest.approx(expected, rel=1e-12)


@both_levels
def test_without_prefetch_no_copy_of_weights_is_hidden(level: str) -> None:
    prefetch = {"forward_prefetch": False, "backward_prefetch": False}
    run = run_of(level, "fsdp", "parameters", compute_s=SLOW_S, **prefetch)
    weights = sum(copy_seconds(2 * size / RANKS) + ring_seconds(size, RANKS) for size in (*SIZES, *SIZES[:-1]))
    last = ring_seconds(2 * SIZES[0], RANKS) + copy_seconds(2 * SIZES[0] / RANKS)
    assert run.end_s == pytest.approx(15 * SLOW_S + weights + last + UPDATE_S, rel=1e-12)


@both_levels
def test_an_optimizer_on_the_host_fetches_the_weights_that_it_has_updated(level: str) -> None:
    run = run_of(level, "fsdp", "optimizer", compute_s=SLOW_S)
    first = ring_seconds(SIZES[0], RANKS)
    last = ring_seconds(2 * SIZES[0], RANKS) + copy_seconds(2 * SIZES[0] / RANKS)
    after = UPDATE_S + copy_seconds(MODEL / RANKS)
    assert run.end_s == pytest.approx(15 * SLOW_S + first + last + after, rel=1e-12)
    assert run.log.spans(0, "optimizer") == [
        pytest.approx((run.end_s - after, run.end_s - after + UPDATE_S), rel=1e-12)
    ]


@both_levels
@pytest.mark.parametrize("name", ["zero1", "zero2"])
def test_zero_reduces_copies_updates_fetches_and_gathers_in_turn(level: str, name: str) -> None:
    run = run_of(level, name, "optimizer", compute_s=SLOW_S, overlap=False, **ONE_BUCKET)
    gradients = ring_seconds(2 * MODEL, RANKS) + copy_seconds(2 * MODEL / RANKS)
    weights = copy_seconds(MODEL / RANKS) + ring_seconds(MODEL, RANKS)
    assert run.end_s == pytest.approx(15 * SLOW_S + gradients + UPDATE_S + weights, rel=1e-12)


@both_levels
def test_the_gradients_of_a_bucket_go_to_the_host_while_the_backward_pass_goes_on(level: str) -> None:
    sizes = dict.fromkeys(("bucket_size", "first_bucket_size"), "4 MB")
    run = run_of(level, "zero1", "optimizer", compute_s=SLOW_S, **sizes)
    last = 2 * (ring_seconds(4e6, RANKS)) + copy_seconds(1e6)  # the first block's 8 MB are two buckets
    exposed = max(last, ring_seconds(4e6, RANKS) + 2 * copy_seconds(1e6))
    weights = copy_seconds(MODEL / RANKS) + ring_seconds(MODEL, RANKS)
    assert run.end_s == pytest.approx(15 * SLOW_S + exposed + UPDATE_S + weights, rel=1e-12)


@both_levels
@pytest.mark.parametrize(("name", "offload"), OFFLOADS)
def test_a_single_gpu_offloads_too(level: str, name: str, offload: str) -> None:
    """ZeRO-Offload's first aim (Ren et al. 2021, §4.1): nothing is reduced, everything is copied."""
    options = ONE_BUCKET if name != "fsdp" else {}
    run = run_of(level, name, offload, compute_s=SLOW_S, ranks=1, **options)
    last = copy_seconds(2 * (SIZES[0] if name == "fsdp" else MODEL))
    back = copy_seconds(MODEL) if offload == "optimizer" else 0.0
    first = copy_seconds(2 * SIZES[0]) if offload == "parameters" else 0.0
    assert run.end_s == pytest.approx(first + 15 * SLOW_S + last + UPDATE_S + back, rel=1e-12)


# --- volumes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 8])
@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize(
    ("options", "gathered"),
    [({}, 2 * MODEL - SIZES[-1]), ({"reshard_after_forward": False}, MODEL)],  # the last unit stays gathered
)
def test_every_rank_copies_its_shard_in_fp32_for_each_gather_and_each_reduction(
    ranks: int, micro_batches: int, options: dict[str, Any], gathered: float
) -> None:
    run = run_of("high", "fsdp", "parameters", ranks=ranks, micro_batches=micro_batches, **options)
    from_host, to_host = 2 * micro_batches * gathered / ranks, 2 * micro_batches * MODEL / ranks
    assert carried(run, HostChannel.FROM_HOST) == pytest.approx([from_host] * ranks, rel=1e-12)
    assert carried(run, HostChannel.TO_HOST) == pytest.approx([to_host] * ranks, rel=1e-12)


@pytest.mark.parametrize(("name", "offload"), [pair for pair in OFFLOADS if pair[1] == "optimizer"])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_an_optimizer_on_the_host_gets_gradients_and_gives_back_weights(
    name: str, offload: str, micro_batches: int
) -> None:
    run = run_of("high", name, offload, micro_batches=micro_batches)
    reductions = 1 if name == "zero1" else micro_batches
    assert carried(run, HostChannel.TO_HOST) == pytest.approx([reductions * 2 * MODEL / RANKS] * RANKS, rel=1e-12)
    assert carried(run, HostChannel.FROM_HOST) == pytest.approx([MODEL / RANKS] * RANKS, rel=1e-12)


@pytest.mark.parametrize(("name", "offload"), OFFLOADS)
@pytest.mark.parametrize("micro_batches", [1, 2, 4])
@pytest.mark.parametrize("steps", [1, 3])
def test_gradients_of_later_micro_batches_are_added_on_the_host(
    name: str, offload: str, micro_batches: int, steps: int
) -> None:
    """Two are read and one is written for each addition; ZeRO-1 adds on the GPU."""
    run = run_of("high", name, offload, micro_batches=micro_batches, steps=steps)
    additions = 0 if name == "zero1" else micro_batches - 1
    expected = steps * (UPDATE_BYTES + additions * 3 * 2 * MODEL / RANKS)
    assert carried(run, HostChannel.UPDATE) == pytest.approx([expected] * RANKS, rel=1e-12)


def test_a_hybrid_shard_is_copied_by_every_replica() -> None:
    run = run_of("high", "fsdp", "parameters", ranks=8, shard_size=2)
    assert carried(run, HostChannel.TO_HOST) == pytest.approx([2 * MODEL / 2] * 8, rel=1e-12)


def test_without_sync_gradients_go_to_the_host_once() -> None:
    run = run_of("high", "fsdp", "parameters", micro_batches=3, no_sync=True)
    assert carried(run, HostChannel.TO_HOST) == pytest.approx([2 * MODEL / RANKS] * RANKS, rel=1e-12)
    assert carried(run, HostChannel.UPDATE) == [UPDATE_BYTES] * RANKS


@pytest.mark.parametrize(("optimizer", "nbytes"), [("adam", 30.0), ("sgd", 22.0)])
def test_the_update_reads_and_writes_what_a_fused_optimizer_does(optimizer: str, nbytes: float) -> None:
    job = build_job(scenario("FSDP", "parameters", optimizer=optimizer, fused_optimizer=False))
    assert job.plans[0][0].host_update_bytes == pytest.approx(nbytes * job.model.parameters / 16, rel=1e-12)


# --- levels of detail ---------------------------------------------------------------------------------------------

LAYOUTS = [
    (Layout(data=4), "1f1b", 1),
    (Layout(tensor=2, data=2), "1f1b", 1),
    (Layout(data=2, pipeline=2), "1f1b", 1),
    (Layout(tensor=2, data=2, pipeline=2), "gpipe", 1),
    (Layout(data=2, pipeline=2), "interleaved", 2),
    (Layout(data=2, pipeline=2), "zb_h1", 1),
]
SETTINGS = [
    ("fsdp", {"offload": "optimizer"}),
    ("fsdp", {"offload": "parameters"}),
    ("fsdp", {"offload": "parameters", "shard_size": 2}),
    ("fsdp", {"offload": "parameters", "forward_prefetch": False}),
    ("fsdp", {"offload": "parameters", "backward_prefetch": False, "reshard_after_forward": False}),
    ("fsdp", {"offload": "parameters", "no_sync": True}),
    ("zero1", {"offload": "optimizer", "bucket_size": "1 MB"}),
    ("zero2", {"offload": "optimizer", "bucket_size": "1 MB"}),
]


def ends_of(
    layout: Layout, schedule: str, count: int, micro_batches: int, name: str, options: Any, scale: float = 1.0
) -> list[float]:
    """The end of two steps at each level; copies, sums and computation take about as long as each other."""

    def block(size: float, forward_s: float) -> Any:
        return block_of(
            size,
            gradient_bytes=2 * size,
            forward_s=scale * forward_s,
            backward_s=2 * scale * forward_s,
            tensor_bytes=1e6 if layout.tensor > 1 else 0.0,
            split=schedule == "zb_h1",
        )

    layer = block(1e6, 3e-4)
    chunks = [[block(4e5, 1e-5), layer, layer, block(9e5, 1e-3)] for _ in range(count)]
    shared = {"micro_batches": micro_batches, "schedule": schedule, "steps": 2, "host_update_bytes": 1e7}
    return [train(level, name, chunks, layout, **shared, **options).end_s for level in LEVELS]


COMBINATIONS = [
    pytest.param(*setting, *layout, micro_batches, marks=pytest.mark.slow if (i + j + k) % 2 else ())
    for i, setting in enumerate(SETTINGS)
    for j, layout in enumerate(LAYOUTS)
    for k, micro_batches in enumerate((2, 4))
]
"""By default half of them, among which there is each pair of setting, layout and number of micro-batches."""


@pytest.mark.parametrize(("name", "options", "layout", "schedule", "count", "micro_batches"), COMBINATIONS)
def test_the_levels_of_detail_agree(
    name: str, options: dict[str, Any], layout: Layout, schedule: str, count: int, micro_batches: int
) -> None:
    high, medium = ends_of(layout, schedule, count, micro_batches, name, options)
    assert high == pytest.approx(medium, rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SETTINGS), st.sampled_from([1, 3]), st.floats(0.01, 30.0))
def test_the_levels_of_detail_agree_whatever_hides_what(
    setting: tuple[str, dict[str, Any]], micro_batches: int, scale: float
) -> None:
    high, medium = ends_of(Layout(data=4), "1f1b", 1, micro_batches, *setting, scale=scale)
    assert high == pytest.approx(medium, rel=1e-9)


@pytest.mark.parametrize(("strategy", "offload"), [("FSDP", "parameters"), ("ZERO2", "optimizer")])
def test_scenarios_take_the_same_time_at_both_levels_and_longer_than_without(strategy: str, offload: str) -> None:
    def seconds(where: str, lod: str) -> float:
        config = scenario(strategy, where, lod=lod, num_iterations=3, gradient_accumulation_steps=2)
        return float(simulate(config).metrics["mean_iteration_s"])

    assert seconds(offload, "high") == pytest.approx(seconds(offload, "medium"), rel=1e-9)
    assert seconds(offload, "medium") > seconds("none", "medium")


MIXES: list[tuple[str, dict[str, int], dict[str, Any]]] = [
    ("TP_FSDP", {"tp_degree": 2}, {"offload": "parameters"}),
    ("TP_FSDP", {"tp_degree": 2}, {"offload": "parameters", "backward_prefetch": False, "no_sync": True}),
    ("PP_FSDP", {"pp_stages": 2}, {"offload": "parameters", "forward_prefetch": False}),
    ("PP_FSDP", {"pp_stages": 2}, {"offload": "optimizer", "reshard_after_forward": False}),
    ("HSDP", {}, {"offload": "parameters", "shard_size": 4}),
    ("TP_ZERO2", {"tp_degree": 2}, {"offload": "optimizer"}),
    ("PP_ZERO2", {"pp_stages": 4}, {"offload": "optimizer"}),
    ("TP_PP_ZERO1", {"tp_degree": 2, "pp_stages": 2}, {"offload": "optimizer"}),
]


@pytest.mark.parametrize(("mix", "steps"), every_second(MIXES, [2, 4]))
def test_mixes_of_parallelism_take_the_same_time_where_links_are_not_shared(
    mix: tuple[str, dict[str, int], dict[str, Any]], steps: int
) -> None:
    strategy, degrees, options = mix
    times = []
    for lod in LEVELS:
        config = SimulationConfig(
            hardware={"profile": "mi300x-platform"},
            model={"name": "GPT2-Small"},
            parallelism={"strategy": strategy, **degrees},
            training={
                "batch_size_per_gpu": 1,
                "num_iterations": 2,
                "gradient_accumulation_steps": steps,
                "options": options,
            },
            simulation={"lod": lod},
        )
        times.append(simulate(config).metrics["mean_iteration_s"])
    assert times[0] == pytest.approx(times[1], rel=1e-9)


# --- memory and settings ------------------------------------------------------------------------------------------


def scenario(strategy: str, offload: str, lod: str = "medium", **training: Any) -> SimulationConfig:
    options = {"offload": offload, **training.pop("options", {})}
    return SimulationConfig(
        hardware=training.pop("hardware", {"profile": "dgx-h100", "num_nodes": 2}),
        model={"name": "GPT2-Medium"},
        parallelism={"strategy": strategy},
        training={"batch_size_per_gpu": 1, "options": options, **training},
        simulation={"lod": lod},
    )


@pytest.mark.parametrize(
    ("strategy", "offload", "settings", "on_gpu", "on_host"),
    [  # bytes per weight: weights, gradients, optimizer
        ("FSDP", "none", {}, (4 / 16, 4 / 16, 8 / 16), 0),
        ("FSDP", "optimizer", {}, (2 / 16, 0, 0), 16 / 16),
        ("FSDP", "parameters", {}, (0, 0, 0), 16 / 16),
        ("FSDP", "parameters", {"options": {"no_sync": True}}, (0, 4, 0), 12 / 16),
        ("HSDP", "parameters", {}, (0, 0, 0), 16 / 8),
        ("FSDP", "optimizer", {"mixed_precision": False}, (4 / 16, 0, 0), 12 / 16),
        ("ZERO1", "optimizer", {}, (2, 4, 0), 12 / 16),
        ("ZERO1", "optimizer", {"optimizer": "sgd"}, (2, 4, 0), 8 / 16),
        ("ZERO2", "optimizer", {}, (2, 0, 0), 16 / 16),
    ],
)
def test_states_live_on_the_gpu_or_the_host(
    strategy: str, offload: str, settings: dict[str, Any], on_gpu: tuple[float, ...], on_host: float
) -> None:
    job = build_job(scenario(strategy, offload, **settings))
    held = [job.memory_bytes[state] / job.model.parameters for state in ("parameters", "gradients", "optimizer")]
    assert held == pytest.approx(on_gpu, rel=1e-12)
    assert job.host_bytes / job.model.parameters == pytest.approx(on_host, rel=1e-12)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("ranks", "offload", "gathered", "unreduced"),
    [
        (4, "none", (4.0, 16.0, 2.0), (9.0, 40.0, 5.0)),
        (4, "optimizer", (4.0, 16.0, 2.0), (9.0 + 9.0 / 4, 40.0 + 40.0 / 4, 5.0 + 5.0 / 4)),
        (4, "parameters", (4.0 + 9.0 / 4, 16.0 + 40.0 / 4, 2.0 + 5.0 / 4), (9.0 + 9.0 / 4, 50.0, 5.0 + 5.0 / 4)),
        (1, "none", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
        (1, "optimizer", (0.0, 0.0, 0.0), (9.0 + 9.0, 40.0 + 40.0, 5.0 + 5.0)),
        (1, "parameters", (4.0 + 9.0, 16.0 + 40.0, 2.0 + 5.0), (9.0 + 9.0, 40.0 + 40.0, 5.0 + 5.0)),
    ],
)
def test_gathered_weights_and_gradients_on_their_way_to_shards_are_held_with_the_shard_that_is_copied(
    level: str, ranks: int, offload: str, gathered: tuple[float, ...], unreduced: tuple[float, ...]
) -> None:
    """Unit by unit: the next is gathered when one begins; one's gradients are added up before its weights go."""
    megabytes = ((4.0, 9.0), (16.0, 40.0), (2.0, 5.0))
    blocks = [
        block_of(size * 1e6, gradient_bytes=gradient * 1e6, forward_s=SLOW_S, backward_s=SLOW_S)
        for size, gradient in megabytes
    ]
    run = train(level, "fsdp", [blocks], Layout(data=ranks), host_update_bytes=UPDATE_BYTES, offload=offload)
    (first, layer, last), (of_first, of_layer, of_last) = gathered, unreduced
    forward = [first, layer, -first, last, -layer]
    backward = [layer, of_last, -of_last, -last, first, of_layer, -of_layer, -layer, of_first, -of_first, -first]
    in_use = [0.0, *(nbytes for rank, nbytes, _ in run.log.memory_in_use if rank == 0)]
    changes = [(after - before) / 1e6 for before, after in pairwise(in_use)]
    assert changes == pytest.approx([change for change in forward + backward if change], rel=1e-12)


@pytest.mark.parametrize("offload", ["optimizer", "parameters"])
def test_what_is_on_its_way_from_or_to_the_host_takes_memory(offload: str) -> None:
    """When most is held, the head computes with the logits, and the layer before it is being gathered."""
    plain, job = build_job(scenario("FSDP", "none")), build_job(scenario("FSDP", offload))
    layer, head = (sum(operator.parameters for operator in block.operators) for block in job.model.blocks[-2:])
    head -= job.model.tied_parameters
    shards = (layer + head) / 16 if offload == "parameters" else 0.0
    more = job.memory_bytes["gathered"] - plain.memory_bytes["gathered"]
    assert more == pytest.approx(4 * shards, abs=2.0)


@pytest.mark.parametrize("offload", ["optimizer", "parameters"])
def test_a_run_stays_just_below_what_was_asked_for(offload: str) -> None:
    job = build_job(scenario("FSDP", offload))
    asked, peak = sum(job.memory_bytes.values()), simulate_job(job).metrics["peak_memory_bytes"]
    assert 0.99 * asked <= peak <= asked


@pytest.mark.parametrize("level", LEVELS)
def test_waiting_for_the_host_is_exposed_communication(level: str) -> None:
    metrics = simulate(scenario("FSDP", "parameters", lod=level)).metrics
    assert metrics["exposed_host_s"] > 0.15 * metrics["mean_iteration_s"], "the update alone takes long"
    assert metrics["idle_s"] < 1e-6 * metrics["mean_iteration_s"]


def test_on_one_gpu_a_unit_is_fetched_and_its_gradients_go_as_they_come() -> None:
    job = build_job(scenario("FSDP", "parameters", hardware={"gpu": "H100-SXM"}))
    layer, head = (sum(operator.parameters for operator in block.operators) for block in job.model.blocks[-2:])
    assert job.memory_bytes["gathered"] == pytest.approx((2 + 4) * (layer + head - job.model.tied_parameters), abs=2)
    assert job.memory_bytes["parameters"] == job.memory_bytes["optimizer"] == 0.0


@pytest.mark.parametrize("strategy", ["FSDP", "ZERO1"])
def test_a_checkpoint_holds_what_lives_on_the_host(strategy: str) -> None:
    job = build_job(scenario(strategy, "optimizer"))
    assert job.checkpoint_bytes == pytest.approx(14 * job.model.parameters, rel=1e-12)


@pytest.mark.parametrize(
    ("strategy", "offload", "message"),
    [
        ("ZERO1", "parameters", "'parameters' is not one of none, optimizer"),
        ("ZERO2", "parameters", "'parameters' is not one of none, optimizer"),
        ("FSDP", "disk", "'disk' is not one of none, optimizer, parameters"),
    ],
)
def test_what_cannot_be_offloaded_is_refused(strategy: str, offload: str, message: str) -> None:
    (problem,) = check_config(scenario(strategy, offload))
    assert str(problem).startswith("training.options.offload: ")
    assert message in str(problem)


def test_ddp_has_nothing_to_offload() -> None:
    (problem,) = check_config(scenario("DDP", "optimizer"))
    assert "offload" in str(problem)


def test_a_gpu_whose_host_is_not_known_offloads_nothing() -> None:
    unknown = {"gpu": {"extends": "H100-SXM", "host": None}, "gpus_per_node": 2}
    assert check_config(scenario("FSDP", "none", hardware=unknown)) == []
    (problem,) = check_config(scenario("FSDP", "parameters", hardware=unknown))
    assert "does not describe a host" in str(problem)
