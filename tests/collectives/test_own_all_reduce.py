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

KIB, MIB = 2.0**10, 2.0**20
nccl = partial(as_nccl, NcclTuning("hopper"))
choose = with_own_all_reduce(nccl, 3.5e-6)


def paths(ranks: int, algorithm: Algorithm) -> list[Path]:
    """GPUs on a switch at 370.8 GB/s, which all transfers of a rank share."""
    transfers = ranks - 1 if algorithm.name in ("direct", "one_shot") else 1
    return [Path(0.6e-6, 370.8e9 / transfers)]


@pytest.mark.parametrize(
    ("ranks", "nbytes", "kernel", "seconds"),
    [
        (2, MIB, "one_shot", 8.3e-6),
        (4, 256 * KIB, "one_shot", 7.2e-6),
        (4, 2 * MIB, "direct", 18.6e-6),
        (8, 16 * KIB, "one_shot", 5.3e-6),
        (8, 256 * KIB, "one_shot", 10.8e-6),
        (8, 512 * KIB, "direct", 12.0e-6),
        (8, MIB, "direct", 15.0e-6),
        (8, 4 * MIB, "direct", 30.8e-6),
    ],
)
def test_measured_times_of_vllm_on_h100(ranks: int, nbytes: float, kernel: str, seconds: float) -> None:
    """ai-dynamo/aiconfigurator, vLLM 0.24 in a CUDA graph: it goes over to two-shot where the tables do."""
    plan = best(choose(CollectiveKind.ALL_REDUCE, ranks, partial(paths, ranks), Span()), nbytes)
    assert (plan.protocol, plan.algorithm.name) == (OWN, kernel)
    assert plan.seconds(nbytes) == pytest.approx(seconds, rel=0.25)


@pytest.mark.parametrize(
    ("ranks", "nbytes", "seconds"),
    [(4, 512 * KIB, 7.9e-6), (4, MIB, 12.9e-6), (8, 128 * KIB, 6.2e-6), (8, 256 * KIB, 10.2e-6), (8, MIB, 26.0e-6)],
)
def test_measured_times_of_an_engine_without_a_two_shot_kernel(ranks: int, nbytes: float, seconds: float) -> None:
    """ai-dynamo/aiconfigurator, TensorRT-LLM 1.3 on H100."""
    alone = with_own_all_reduce(nccl, 3.5e-6, ["one_shot"])
    plan = best(alone(CollectiveKind.ALL_REDUCE, ranks, partial(paths, ranks), Span()), nbytes)
    assert "direct" not in plan.algorithm.name
    assert plan.seconds(nbytes) == pytest.approx(seconds, rel=0.25)


def test_other_kinds_and_other_nodes_are_left_to_nccl() -> None:
    for kind, span in ((CollectiveKind.ALL_GATHER, Span()), (CollectiveKind.ALL_REDUCE, Span(2, 4))):
        assert OWN not in {plan.protocol for plan in choose(kind, 8, partial(paths, 8), span)}


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
    plans = build_job(config).execution_model().algorithm(CollectiveKind.ALL_REDUCE, 2, partial(paths, 2), Span())
    assert (OWN in {plan.protocol for plan in plans}) == own
