"""All-reduce by an engine's own kernels: for small messages, inside a node, and where the engine has it."""

from __future__ import annotations

from functools import partial

import pytest

from simsys.build.job import build_job
from simsys.collectives import CollectiveKind, Path
from simsys.collectives.base import Algorithm, Span
from simsys.collectives.choose import OWN, as_nccl, best, with_own_all_reduce
from simsys.collectives.nccl import NcclTuning
from simsys.config.experiment import SimulationConfig

MIB = 2.0**20
choose = with_own_all_reduce(partial(as_nccl, NcclTuning("hopper")), 4e-6)


def paths(algorithm: Algorithm) -> list[Path]:
    """Eight GPUs on a switch at 370.8 GB/s, which all transfers of a rank share."""
    transfers = 7 if algorithm.name == "direct" else 1
    return [Path(0.6e-6, 370.8e9 / transfers)]


@pytest.mark.parametrize(("nbytes", "seconds"), [(16384.0, 5.2e-6), (MIB, 14.5e-6), (16 * MIB, 92e-6)])
def test_measured_times_of_vllm_on_eight_h100(nbytes: float, seconds: float) -> None:
    """ai-dynamo/aiconfigurator, vLLM 0.24 in a CUDA graph."""
    plan = best(choose(CollectiveKind.ALL_REDUCE, 8, paths, Span()), nbytes)
    assert plan.protocol == OWN
    assert plan.seconds(nbytes) == pytest.approx(seconds, rel=0.2)


def test_other_kinds_and_other_nodes_are_left_to_nccl() -> None:
    for kind, span in ((CollectiveKind.ALL_GATHER, Span()), (CollectiveKind.ALL_REDUCE, Span(2, 4))):
        assert OWN not in {plan.protocol for plan in choose(kind, 8, paths, span)}


@pytest.mark.parametrize(
    ("engine", "profile", "own"),
    [("vllm", "dgx-h100", True), ("gpt-fast", "dgx-h100", False), ("vllm", "pcie-l40s-8", False)],
)
def test_engines_have_it_where_nvlink_joins_the_gpus(engine: str, profile: str, own: bool) -> None:
    config = SimulationConfig.model_validate(
        {
            "model": {"name": "Llama3-8B"},
            "hardware": {"profile": profile, "gpus_per_node": 2},
            "parallelism": {"tp_degree": 2},
            "serving": {"engine": engine},
            "workload": {
                "arrivals": {"kind": "all_at_once"},
                "prompt_tokens": 8,
                "output_tokens": 2,
                "num_requests": 1,
            },
        }
    )
    plans = build_job(config).execution_model().algorithm(CollectiveKind.ALL_REDUCE, 2, paths, Span())
    assert (OWN in {plan.protocol for plan in plans}) == own
