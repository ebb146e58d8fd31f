"""Long simulations are refused before they begin, with what they would take and how to have them anyway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from simsys.build.job import build_job
from simsys.build.training import TrainingJob
from simsys.check import check_file, sound
from simsys.check.effects import MAX_WORK, simulation_work
from simsys.check.effort import RUN_S, cpu_parts
from simsys.cli import cli
from simsys.config.experiment import SimulationConfig
from simsys.simulation import simulate
from simsys.sums import ordered_sum
from tests.helpers.places import ROOT
from tests.helpers.random_scenarios import scenario

EXPERIMENTS = sorted((ROOT / "experiments").glob("*.yaml"))
MANY = {
    "gpus": {"hardware": {"profile": "dgx-h100", "num_nodes": 4000}},
    "paths": {
        "hardware": {"profile": "dgx-h100", "num_nodes": 512},
        "network": {"topology_type": "fat_tree"},
        "parallelism": {"strategy": "TP_DDP", "tp_degree": 4},
    },
    "micro-batches at high": {"training": {"gradient_accumulation_steps": 5000}, "simulation": {"lod": "high"}},
    "iterations": {"training": {"num_iterations": 1_000_000}, "simulation": {"collect_events": True}},
    "requests": {
        "workload": {"num_requests": 100_000},
        "parallelism": {"strategy": "TP_PP", "tp_degree": 2, "pp_stages": 2},
    },
    "tokens at high": {"workload": {"output_tokens": 900, "num_requests": 9000}, "simulation": {"lod": "high"}},
}
WORKLOAD = {
    "arrivals": {"kind": "poisson", "rate": "9 req/s"},
    "prompt_tokens": 50,
    "output_tokens": 50,
    "num_requests": 1000,
}


EVENT_WITH_WORK_S = 30e-6
"""Time of an event with all that is done for it, between 20 and 100 us in random scenarios."""


def settings(**changes: Any) -> dict[str, Any]:
    kind: dict[str, Any] = {"training": {"batch_size_per_gpu": 1, **changes.pop("training", {})}}
    if "workload" in changes:
        kind = {"serving": {}, "workload": {**WORKLOAD, **changes.pop("workload")}}
    strategy = {"parallelism": {"strategy": "DDP"}} if "training" in kind else {}
    return {"hardware": {"profile": "dgx-h100"}, **strategy, "model": {"name": "GPT2-Small"}, **kind, **changes}


def expected_s(**changes: Any) -> float:
    return ordered_sum(cpu_parts(build_job(SimulationConfig(**settings(**changes)))).values())


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_experiments_that_come_with_simsys_run_as_they_are(path: Path) -> None:
    assert check_file(path, limit_s=15.0)


@pytest.mark.parametrize("what", MANY)
def test_what_takes_minutes_is_refused_at_its_line(what: str, tmp_path: Path) -> None:
    file = tmp_path / "long.yaml"
    file.write_text(yaml.dump(settings(**MANY[what])))
    answer = CliRunner().invoke(cli, ["run", str(file), "--no-files"])
    assert answer.exit_code == 2, answer.output
    first = answer.stderr.splitlines()[0]
    assert first.startswith(f"{file}:")
    assert first.removeprefix(f"{file}:").split(":")[0].isdigit()
    assert "of processor time, more than --limit allows (15 s); --yes simulates it anyway" in first


@pytest.mark.slow
def test_the_user_decides_how_long_is_too_long(tmp_path: Path) -> None:
    file = EXPERIMENTS[0].parent / "level_of_detail.yaml"
    command = ["run", str(file), "--scenario", "c-tp4-pp2-hour", "--no-files"]
    refused = CliRunner().invoke(cli, [*command, "--limit", "1"])
    assert refused.exit_code == 2
    assert "workload: at medium detail, this needs about 1 s of processor time" in refused.stderr
    assert CliRunner().invoke(cli, [*command, "--limit", "1", "--yes"]).exit_code == 0
    assert CliRunner().invoke(cli, [*command, "--limit", "10"]).exit_code == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {"num_iterations": 4}, "parallelism": {"strategy": "FSDP"}, "simulation": {"lod": "high"}},
        {
            "training": {"num_iterations": 4, "activation_recompute": "full"},
            "parallelism": {"strategy": "TP_DDP", "tp_degree": 2},
            "simulation": {"lod": "high"},
        },
        {"workload": {"num_requests": 300}, "simulation": {"lod": "high"}},
        {"workload": {"num_requests": 20_000}},
        {"hardware": {"profile": "dgx-h100", "num_nodes": 96}, "parallelism": {"strategy": "DDP"}},
    ],
    ids=["sharded", "tensor", "steps", "requests", "gpus"],
)
def test_the_estimate_is_of_the_right_size(changes: dict[str, Any]) -> None:
    """A factor of ten leaves room for other machines, and for others on this one."""
    result = simulate(SimulationConfig(**settings(**changes)))
    assert expected_s(**changes) == pytest.approx(result.cpu_s, rel=9.0)
    assert expected_s(**changes) > result.cpu_s / 10


LOCKSTEP = {
    "hardware": {"profile": "dgx-h200"},
    "model": {"name": "DeepSeek-V3"},
    "parallelism": {"attention_dp": 8, "ep_degree": 8},
    "serving": {"precision": "fp8_block", "router": "least_outstanding"},
}


def test_ranks_that_step_together_are_estimated_like_a_single_one() -> None:
    """Against a single GPU in the same seconds, so that the speed of the machine does not matter."""
    shares = list[float]()
    for changes in ({}, LOCKSTEP):
        given = SimulationConfig(**{**settings(workload={"output_tokens": 250, "num_requests": 600}), **changes})
        cpu_s = min(simulate(given).cpu_s for _ in range(3))
        shares.append(cpu_s / ordered_sum(cpu_parts(build_job(given)).values()))
    assert 1 / 4 < shares[1] / shares[0] < 4


def test_steps_of_pools_count_where_caches_meet_all_reduces() -> None:
    """On one switch they meet; on nodes of their own a cache is sent over network cards."""
    work_s = list[float]()
    users = {"arrivals": {"kind": "closed_loop", "concurrency": 4}, "output_tokens": 200, "num_requests": 100}
    for nodes in (1, 2):
        changes = {
            "hardware": {"profile": "dgx-h100", "num_nodes": nodes, "gpus_per_node": 4 // nodes},
            "parallelism": {"tp_degree": 2},
            "serving": {"disaggregated": {"prefill_replicas": 1, "decode_replicas": 1}},
        }
        work_s.append(expected_s(workload=users, **changes))
    assert work_s[0] > 2 * work_s[1]


def test_jobs_share_the_limit(tmp_path: Path) -> None:
    command = ["run", str(EXPERIMENTS[0].parent / "shared_cluster.yaml"), "--no-files"]
    changed = ["--set", "training.num_iterations=2000"]
    refused = CliRunner().invoke(cli, [*command, *changed, "--scenario", "spread"])
    assert refused.exit_code == 2
    assert "training: job gpt: at medium detail" in refused.stderr
    assert "(7.5 s)" in refused.stderr
    assert CliRunner().invoke(cli, [*command, "--scenario", "packed", *changed]).exit_code == 0


def test_remedies_are_not_tried_on_clusters_that_take_long_to_build() -> None:
    large = build_job(SimulationConfig(**settings(hardware={"profile": "dgx-h100", "num_nodes": 400})))
    small = build_job(SimulationConfig(**settings()))
    assert isinstance(large, TrainingJob)
    assert isinstance(small, TrainingJob)
    assert simulation_work(small) < MAX_WORK < simulation_work(large)


@pytest.mark.parametrize("seed", [5002, 5004, 5012, 5016, 5021, 5040, 5046, 5048, 5060, 5083, 5094, 5109, 5162, 5174])
def test_random_scenarios_take_at_most_five_times_the_estimate(seed: int) -> None:
    """By the number of events, which is the same on every machine."""
    built = sound(SimulationConfig.model_validate(scenario(seed)))
    parts = [cpu_parts(job, meets=len(built.jobs) > 1) for job in built.jobs]
    estimate_s = ordered_sum(seconds for each in parts for seconds in each.values())
    assert RUN_S + simulate(built.config, built=built).events * EVENT_WITH_WORK_S < 5.0 * estimate_s


def test_unequal_ranks_that_overlap_collectives_are_not_underestimated() -> None:
    """2.9 million computations on 32 ranks of their own, which were estimated at 0.8 s, and needed 32 s."""
    (job,) = sound(SimulationConfig.model_validate(scenario(1094))).jobs
    assert 20.0 < ordered_sum(cpu_parts(job).values()) < 160.0
