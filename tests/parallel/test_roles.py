"""Which ranks one process may stand for, where devices differ."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.build.job import build_job, cluster_of
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.parallel.layout import GROUPS, Layout
from simsys.parallel.roles import roles_of
from simsys.simulation import simulate
from tests.agreement.test_training_mixes import config_of
from tests.helpers.thorough import cases

few = st.integers(1, 3)
layouts = st.builds(Layout, tensor=few, context=st.integers(1, 2), data=st.integers(1, 4), pipeline=few)


@given(layouts)
def test_equal_devices_have_one_role_for_each_stage(layout: Layout) -> None:
    assert roles_of(layout) == roles_of(layout, [7] * layout.world_size) == layout.roles()


@given(layouts, st.data())
def test_roles_divide_the_ranks_and_leaders_meet_each_other(layout: Layout, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.integers(0, 2), min_size=layout.world_size, max_size=layout.world_size))
    roles = roles_of(layout, kinds)
    assert sorted(rank for role in roles for rank in role) == list(range(layout.world_size))
    leader = {rank: role[0] for role in roles for rank in role}
    assert leader[0] == 0
    for role in roles:
        assert len({(kinds[rank], layout.coordinates(rank)["pipeline"]) for rank in role}) == 1
        for over in GROUPS:
            group = layout.group(role[0], over)
            assert {leader[rank] for rank in group.ranks} <= set(group.ranks)


def test_one_slow_rank_makes_roles_of_those_that_wait_for_it() -> None:
    """Of 2 x 4: itself, its tensor-parallel mate, those of its replicas, and the rest."""
    roles = roles_of(Layout(tensor=2, data=4), [0, 0, 0, 0, 0, 1, 0, 0])
    assert sorted(map(sorted, roles)) == [[0, 2, 6], [1, 3, 7], [4], [5]]


def test_a_thousand_gpus_with_one_slow_one_have_few_roles() -> None:
    layout = Layout(tensor=8, data=32, pipeline=4)
    roles = roles_of(layout, [1 if rank == 777 else 0 for rank in range(layout.world_size)])
    assert len(roles) <= 4 * 4


@st.composite
def imperfect(draw: st.DrawFn) -> dict[str, Any]:
    tensor, stages, data = (draw(st.sampled_from(degrees)) for degrees in ((1, 2), (1, 2), (1, 2, 4)))
    gpus = tensor * stages * data
    slow = draw(st.lists(st.integers(0, gpus - 1), min_size=1, max_size=3, unique=True))
    other = draw(st.integers(0, gpus - 1))
    exceptions = [{"gpus": slow, "speed": draw(st.sampled_from([0.5, 0.8, 1.1]))}]
    if draw(st.booleans()):
        exceptions.append({"gpus": [other], "gpu": "A100-SXM-80GB"})
    return {
        "tensor": tensor,
        "stages": stages,
        "data": data,
        "schedule": draw(st.sampled_from(["1f1b", "gpipe", "zero_bubble"])),
        "micro_batches": draw(st.integers(1, 4)),
        "exceptions": tuple(exceptions),
    }


@settings(max_examples=cases(40))
@given(imperfect())
def test_the_levels_agree_where_devices_differ(mix: dict[str, Any]) -> None:
    """Every part of rank 0's time, whichever ranks stand for others."""
    assert check_config(config_of(**mix)) == []
    high, medium = (simulate(config_of(lod=lod, **mix)) for lod in ("high", "medium"))
    for column in ("iteration_s", "compute_s", "exposed_communication_s", "idle_s"):
        whole = max(high.rows["iteration_s"])
        assert list(medium.rows[column]) == pytest.approx(list(high.rows[column]), rel=1e-9, abs=1e-9 * whole), column


@pytest.mark.parametrize("strategy", ["DDP", "FSDP", "HSDP"])
def test_all_wait_for_a_slow_gpu(strategy: str) -> None:
    """Data parallelism computes at the speed of the slowest, whichever rank it is."""

    def seconds(*exceptions: dict[str, Any]) -> float:
        config = SimulationConfig(
            hardware={"profile": "dgx-h100", "num_nodes": 2, "exceptions": list(exceptions)},
            model={"name": "GPT2-Small"},
            parallelism={"strategy": strategy},
            training={"batch_size_per_gpu": 64, "num_iterations": 2},
        )
        return float(simulate(config).metrics["mean_iteration_s"])

    plain, slow = seconds(), seconds({"gpus": [13], "speed": 0.5})
    assert 1.6 * plain < slow < 2 * plain, "host overheads are not the GPU's"
    assert seconds({"gpus": [5], "speed": 0.5}) == pytest.approx(slow, rel=1e-9)
    assert seconds({"nodes": [0, 1], "speed": 0.5}) == pytest.approx(slow, rel=0.01)


def test_the_smallest_memory_decides_and_mfu_counts_the_mean_peak() -> None:
    cluster = cluster_of(config_of(1, 1, 4, exceptions=({"gpus": [2], "gpu": "V100-SXM-32GB"},)))
    assert cluster.smallest.name == "V100-SXM-32GB"
    mixed = build_job(config_of(1, 1, 4, exceptions=({"gpus": [2], "gpu": "A100-SXM-80GB"},)))
    assert mixed.collector().facts["peak_flop_per_s"] == pytest.approx((3 * 989.4e12 + 312e12) / 4, rel=1e-3)


@pytest.mark.parametrize(
    ("exception", "message"),
    [
        ({"gpus": [9], "speed": 0.5}, "there is no GPU 9; the cluster has GPUs 0 to 3"),
        ({"nodes": [4], "speed": 0.5}, "there is no node 4; the cluster has nodes 0 to 3"),
        ({"gpus": [0], "gpu": "A1000"}, "unknown gpu profile 'A1000'"),
        ({"gpus": [0], "gpu": "V100-SXM-32GB"}, "V100-SXM-32GB has no bf16 arithmetic; it has"),
    ],
)
def test_what_cannot_be_is_explained(exception: dict[str, Any], message: str) -> None:
    (problem,) = check_config(config_of(1, 1, 4, exceptions=(exception,)))
    assert message in str(problem)
    assert str(problem).startswith("hardware")


@pytest.mark.parametrize("lod", ["high", "medium"])
def test_a_serving_team_is_as_fast_as_its_slowest_gpu(lod: str) -> None:
    def tpot_ms(*exceptions: dict[str, Any]) -> float:
        config = SimulationConfig(
            hardware={"profile": "dgx-h100", "gpus_per_node": 2, "exceptions": list(exceptions)},
            model={"name": "Llama3-8B"},
            parallelism={"strategy": "TP", "tp_degree": 2},
            serving={},
            workload={
                "arrivals": {"kind": "all_at_once"},
                "prompt_tokens": 64,
                "output_tokens": 16,
                "num_requests": 4,
            },
            simulation={"lod": lod},
        )
        assert check_config(config) == []
        return float(simulate(config).metrics["mean_tpot_ms"])

    slow = tpot_ms({"gpus": [1], "speed": 0.5})
    assert slow == pytest.approx(tpot_ms({"gpus": [0, 1], "speed": 0.5}), rel=1e-9)
    assert slow > 1.4 * tpot_ms()


def served_on(hardware: dict[str, Any], tensor: int = 1) -> SimulationConfig:
    return SimulationConfig(
        hardware=hardware,
        model={"name": "Llama3-8B"},
        parallelism={"strategy": "TP", "tp_degree": tensor} if tensor > 1 else {},
        serving={},
        workload={"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 64, "output_tokens": 16, "num_requests": 4},
    )


MIXED = {"profile": "dgx-h100", "gpus_per_node": 2, "num_nodes": 2}


def test_a_serving_replica_has_gpus_of_one_model() -> None:
    (problem,) = check_config(served_on({**MIXED, "exceptions": [{"gpus": [1], "gpu": "A100-SXM-80GB"}]}, tensor=2))
    assert "a replica has GPUs of one model, but GPUs 0 to 1 are H100-SXM and A100-SXM-80GB" in str(problem)
    (problem,) = check_config(served_on({**MIXED, "exceptions": [{"nodes": [1], "gpu": "V100-SXM-32GB"}]}))
    assert "V100-SXM-32GB has no bf16 arithmetic" in str(problem)


def test_replicas_on_several_models_of_gpu_take_their_own_time() -> None:
    config = served_on({**MIXED, "exceptions": [{"nodes": [1], "gpu": "A100-SXM-80GB"}]}, tensor=2)
    assert check_config(config) == []
    both = simulate(config).metrics["mean_tpot_ms"]
    fast = simulate(served_on(MIXED, tensor=2)).metrics["mean_tpot_ms"]
    slow = simulate(served_on({**MIXED, "profile": "dgx-a100"}, tensor=2)).metrics["mean_tpot_ms"]
    assert 1.05 * fast < both < 0.95 * slow
