"""Memory over the course of a run: it reaches what was asked for beforehand, and returns to where it began."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys import DistributedAISimulator
from simsys.build.job import build_job
from simsys.contents.run import content_of
from simsys.errors import OutOfMemoryError, UsageError
from simsys.metrics.memory import MemoryTimeline
from simsys.metrics.result import RunResult
from simsys.plots.picture import draw
from simsys.simulation import simulate, simulate_job
from tests.agreement.test_training_mixes import GPT2, config_of
from tests.helpers.thorough import cases


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    tensor, stages, data = (draw(st.sampled_from(degrees)) for degrees in ((1, 2), (1, 2, 4), (1, 2)))
    return {
        "tensor": tensor,
        "context": draw(st.sampled_from([1, 2])),
        "stages": stages,
        "data": data,
        "schedule": draw(st.sampled_from(["1f1b", "gpipe", "zero_bubble"])),
        "sequence_parallel": tensor > 1 and draw(st.booleans()),
        "recompute": draw(st.sampled_from(["none", "selective", "full", ["layernorm", "mlp"]])),
        "micro_batches": draw(st.integers(1, 6)),
        "lod": draw(st.sampled_from(["high", "medium"])),
    }


@settings(max_examples=cases(60))
@given(jobs())
def test_a_run_reaches_exactly_what_was_asked_for(mix: dict[str, Any]) -> None:
    """With whole states; what is asked for is the fullest stage at its fullest moment."""
    job = build_job(config_of(**mix))
    result = simulate_job(job)
    assert result.metrics["peak_memory_bytes"] == sum(job.memory_bytes.values())
    assert result.memory_bytes == {name: nbytes for name, nbytes in job.memory_bytes.items() if nbytes}
    peaks = [sum(parts.values()) for parts in job.memory_by_stage]
    assert list(result.ranks["peak_memory_bytes"]) == peaks


SHARDED = [
    ({}, "FSDP"),
    ({"recompute": "full"}, "FSDP"),
    ({"recompute": "selective", "tensor": 2}, "TP_FSDP"),
    ({"stages": 2, "micro_batches": 4}, "PP_FSDP"),
    ({"stages": 2, "schedule": "zero_bubble"}, "PP_FSDP"),
    ({"options": {"reshard_after_forward": False}}, "FSDP"),
    ({"options": {"no_sync": True}}, "FSDP"),
    ({"options": {"shard_size": 2}}, "FSDP"),
    ({}, "ZERO2"),
    ({}, "ZERO1"),
]


def sharded(changes: dict[str, Any], strategy: str, lod: str) -> Any:
    """A mix with sharded states over four ranks."""
    rest = {key: value for key, value in changes.items() if key != "options"}
    config = config_of(**{"tensor": 1, "stages": 1, "data": 4, "strategy": strategy, **rest}, lod=lod)
    training = config.training.model_copy(update={"options": changes.get("options", {})})  # type: ignore[union-attr]
    return build_job(config.model_copy(update={"training": training}))


@pytest.mark.parametrize("lod", ["high", "medium"])
@pytest.mark.parametrize(("changes", "strategy"), SHARDED)
def test_with_shards_it_comes_close_to_what_was_asked_for_and_stays_below(
    changes: dict[str, Any], strategy: str, lod: str
) -> None:
    """Pipelines of FSDP hold units of other chunks' passes at other moments, and need a little less."""
    job = sharded(changes, strategy, lod)
    asked, peak = sum(job.memory_bytes.values()), simulate_job(job).metrics["peak_memory_bytes"]
    assert 0.97 * asked <= peak <= asked


def timeline(lod: str, **changes: Any) -> tuple[MemoryTimeline, RunResult]:
    probe = MemoryTimeline()
    result = simulate(config_of(1, 1, 2, lod=lod, **changes), [probe])
    return probe, result


@pytest.mark.parametrize("lod", ["high", "medium"])
def test_memory_over_time_rises_and_falls_with_the_passes(lod: str) -> None:
    probe, result = timeline(lod, micro_batches=1)
    columns = probe.columns()
    mine = [
        (t, b) for r, t, b in zip(columns["rank"], columns["time_s"], columns["in_use_bytes"], strict=True) if r == 0
    ]
    assert mine == sorted(mine, key=lambda point: point[0])
    assert max(nbytes for _, nbytes in mine) == result.metrics["peak_memory_bytes"]
    states = sum(result.memory_bytes.get(name, 0) for name in ("parameters", "gradients", "optimizer"))
    base = states + result.memory_bytes["context"] + result.memory_bytes["fragmentation"]
    assert mine[-1][1] == base, "activations and logits are gone in the end"
    rises = sum(1 for (_, before), (_, after) in pairwise(mine) if before == base < after)
    assert rises == 3, "once in each iteration"


@pytest.mark.slow
def test_it_is_written_and_drawn_if_events_are_collected(tmp_path: Path) -> None:
    config = config_of(1, 2, 1)
    settings = config.simulation.model_copy(update={"collect_events": True})
    simulator = DistributedAISimulator(config.model_copy(update={"simulation": settings}))
    result = simulator.run()
    simulator.export_results(tmp_path)
    written = (tmp_path / config.name / f"{config.name}_memory.csv").read_text().splitlines()
    assert written[0] == "rank,time_s,in_use_bytes"
    assert len(written) == 1 + len(result.memory_timeline["rank"])
    assert "memory.png" in [path.name for path in simulator.visualize(tmp_path)]
    plain = DistributedAISimulator(config).run()
    assert plain.memory_timeline == {}
    with pytest.raises(UsageError, match="memory needs the memory in use over time"):
        draw(content_of(config, plain), "memory")


def test_a_pipeline_holds_less_on_its_later_stages() -> None:
    result = simulate(config_of(1, 4, 1, micro_batches=8))
    peaks = list(result.ranks["peak_memory_bytes"])
    assert peaks[0] > peaks[1] > peaks[2]


def test_memory_that_is_not_there_ends_the_run_with_a_shortage() -> None:
    config = config_of(1, 1, 1, model={"name": GPT2[0]}, hardware={"gpu": {"extends": "H100", "memory": "3 GB"}})
    with pytest.raises(OutOfMemoryError, match="is out of memory"):
        simulate(config)
