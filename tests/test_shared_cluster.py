"""Several jobs on one cluster: they wait, run where they are placed, and slow each other on the links they share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from simsys import shared_cluster
from simsys.cli import cli
from simsys.config.experiment import SimulationConfig
from simsys.errors import InfeasibleError, UsageError
from simsys.metrics.result import RunResult
from simsys.probes import Probe
from simsys.simulation import NONE_MET, simulate

FOUR_GPU_NODES = {"gpu": "A100-SXM-80GB", "num_nodes": 8, "gpus_per_node": 4, "network_bandwidth": "25 GB/s"}
FAT_TREE = {"topology_type": "fat_tree", "leaf_size": 2, "oversubscription": 4}
SMALL = {"num_layers": 2, "model_type": "gpt", "hidden_size": 256, "num_attention_heads": 4, "sequence_length": 128}
SMALL |= {"vocab_size": 1000}


def cluster(*jobs: dict[str, Any], **settings: Any) -> SimulationConfig:
    """Jobs that train GPT2-Medium, unless they say otherwise, on 32 GPUs below an oversubscribed fat tree."""
    simulation = {key: settings.pop(key) for key in ("lod", "occupy_links", "collect_events") if key in settings}
    template: dict[str, Any] = {
        "hardware": FOUR_GPU_NODES,
        "network": FAT_TREE,
        "model": {"name": "GPT2-Medium"},
        "training": {"batch_size_per_gpu": 4, "num_iterations": 2},
    }
    return SimulationConfig(**{**template, **settings, "simulation": simulation, "jobs": list(jobs)})


def iterations(result: RunResult) -> dict[str, float]:
    return {job.name: job.metrics["mean_iteration_s"] for job in result.jobs}


TWO = ({"name": "a", "gpus": 16}, {"name": "b", "gpus": 16, "model": {"name": "BERT-Large"}})
MIXED = ({"name": "a", "gpus": 16, "parallelism": {"strategy": "TP_DDP", "tp_degree": 2}}, TWO[1])


@pytest.mark.parametrize(("jobs", "placement"), [(TWO, "spread"), (TWO, "random"), (MIXED, "spread")])
def test_two_jobs_that_share_a_fat_tree_slow_each_other_as_at_high(jobs: Any, placement: str) -> None:
    scheduling = {"placement": placement}
    high = iterations(simulate(cluster(*jobs, scheduling=scheduling, lod="high")))
    occupied = iterations(simulate(cluster(*jobs, scheduling=scheduling)))
    idle = iterations(simulate(cluster(*jobs, scheduling=scheduling, occupy_links=False)))
    for name, seconds in high.items():
        assert occupied[name] == pytest.approx(seconds, rel=0.05)
        assert idle[name] < 0.8 * seconds


def test_packed_jobs_are_as_fast_as_alone() -> None:
    scheduling = {"placement": "packed"}
    found = simulate(cluster(*TWO, scheduling=scheduling))
    assert found.contention.endswith(NONE_MET)
    assert found.events == simulate(cluster(*TWO, scheduling=scheduling, occupy_links=False)).events
    together = iterations(found)
    for job in TWO:
        alone = iterations(simulate(cluster(job, scheduling=scheduling)))
        assert together[str(job["name"])] == pytest.approx(alone[str(job["name"])], rel=1e-9)


def test_jobs_that_meet_because_others_take_longer_are_on_the_links_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last job comes when the first would have ended had it not been slowed by the second."""
    runs: list[Any] = []
    run = shared_cluster._run
    monkeypatch.setattr(shared_cluster, "_run", lambda *args: runs.append(args[2:]) or run(*args))
    first, second = ({**job, "training": {"batch_size_per_gpu": 4, "num_iterations": 4}} for job in TWO)
    first["gpus"] = 8
    alone_s = simulate(cluster(first, scheduling={"placement": "spread"})).metrics["makespan_s"]
    jobs = [first, second, {**TWO[0], "name": "late", "gpus": 8, "arrival": f"{1.01 * alone_s} s"}]
    found = simulate(cluster(*jobs, scheduling={"placement": "spread"}))
    assert [set(sharing) for sharing, *_ in runs[-3:]] == [set(), {0, 1}, {0, 1, 2}]
    high = iterations(simulate(cluster(*jobs, scheduling={"placement": "spread"}, lod="high")))
    for name, seconds in high.items():
        assert iterations(found)[name] == pytest.approx(seconds, rel=0.03)


def test_mirrors_of_which_only_some_meet_another_job_are_simulated_each_for_itself() -> None:
    """Groups of two on one-card nodes: each pair of nodes has another job's ring on its cards for another part."""
    hardware = {"gpu": "H100-SXM", "num_nodes": 4, "gpus_per_node": 8, "nic": {"bandwidth": "12 GB/s", "count": 1}}
    network = {"topology_type": "full_mesh", "switching": "store_and_forward", "contention": "fifo"}
    jobs = (
        {"name": "a", "gpus": 4, "parallelism": {"strategy": "TP_FSDP", "tp_degree": 2}},
        {"name": "b", "gpus": 4, "parallelism": {"strategy": "PP_HSDP", "pp_stages": 2}},
        {"name": "c", "gpus": 8},
    )
    settings = {"hardware": hardware, "network": {**network, "link_bandwidth": "12 GB/s"}}
    scheduling = {"placement": "spread"}
    high, found = (simulate(cluster(*jobs, **settings, scheduling=scheduling, lod=lod)) for lod in ("high", "medium"))
    for name, seconds in iterations(high).items():
        assert iterations(found)[name] == pytest.approx(seconds, rel=0.01)


def test_so_are_those_on_links_that_are_shared_evenly() -> None:
    hardware = {"gpu": "A100-SXM-80GB", "num_nodes": 4, "gpus_per_node": 8}
    hardware["nic"] = {"bandwidth": "400 GB/s", "count": 1}
    tensor = {"strategy": "TP_ZERO1", "tp_degree": 4, "order": "pp-tp-dp"}
    jobs = (
        {"name": "a", "gpus": 8, "parallelism": tensor, "arrival": "10 ms"},
        {"name": "b", "gpus": 8, "parallelism": {"strategy": "PP_FSDP", "pp_stages": 2}},
    )
    settings = {"hardware": hardware, "network": {"topology_type": "torus_3d", "link_bandwidth": "12 GB/s"}}
    scheduling = {"placement": "spread"}
    high, found = (simulate(cluster(*jobs, **settings, scheduling=scheduling, lod=lod)) for lod in ("high", "medium"))
    for name, seconds in iterations(high).items():
        assert iterations(found)[name] == pytest.approx(seconds, rel=0.01)


@pytest.mark.parametrize("links", ["auto", True, False])
def test_a_job_that_runs_out_of_memory_says_so(links: Any) -> None:
    """In the middle of its first iteration, when activations do not fit."""
    big = {"name": "big", "gpus": 8, "training": {"batch_size_per_gpu": 512, "num_iterations": 1}}
    with pytest.raises(InfeasibleError, match="out of memory"):
        simulate(cluster(big, TWO[1], occupy_links=links))


def test_observers_hear_of_one_run_only() -> None:
    class Marks(Probe):
        def __init__(self) -> None:
            self.count = 0

        def mark(self, rank: int, name: str, now_s: float) -> None:
            self.count += name == "iteration_start"

    for placement, links in (("packed", "auto"), ("spread", "auto"), ("spread", True)):
        probe = Marks()
        simulate(cluster(*TWO, scheduling={"placement": placement}, occupy_links=links), [probe])
        assert probe.count == 4, placement


@pytest.mark.parametrize("lod", ["high", "medium"])
def test_a_job_that_has_the_cluster_for_itself_is_the_scenario_without_jobs(lod: str) -> None:
    one = simulate(cluster({"name": "only"}, lod=lod))
    plain = simulate(cluster({"name": "only"}, lod=lod).model_copy(update={"jobs": None}))
    assert list(one.jobs[0].rows["iteration_s"]) == pytest.approx(list(plain.rows["iteration_s"]), rel=1e-9)
    assert one.jobs[0].metrics["peak_memory_bytes"] == plain.metrics["peak_memory_bytes"]
    assert one.jobs[0].metrics["gpu_utilization"] == pytest.approx(plain.metrics["gpu_utilization"], rel=1e-9)
    assert one.metrics["gpu_allocation"] == pytest.approx(1.0)


def test_jobs_wait_for_gpus_and_give_them_back() -> None:
    jobs = [{"name": f"j{index}", "gpus": 24, "model": SMALL} for index in range(3)]
    result = simulate(cluster(*jobs))
    rows = result.rows
    assert list(rows["started_s"][1:]) == list(rows["ended_s"][:-1])
    assert rows["started_s"][0] == 0.0
    assert result.metrics["makespan_s"] == rows["ended_s"][-1]
    assert result.metrics["gpu_allocation"] == pytest.approx(24 / 32)
    lasted = [end - start for start, end in zip(rows["started_s"], rows["ended_s"], strict=True)]
    assert lasted == pytest.approx([lasted[0]] * 3, rel=1e-9)
    assert all(job.metrics["mean_iteration_s"] == pytest.approx(lasted[0] / 2, rel=1e-9) for job in result.jobs)


@pytest.mark.parametrize(
    ("queue", "order"),
    [("fifo", ["running", "first", "short", "urgent"]), ("priority", ["running", "urgent", "first", "short"])],
)
def test_the_queue_says_who_is_next(queue: str, order: list[str]) -> None:
    jobs = [
        {"name": "running", "gpus": 20, "model": SMALL, "training": {"batch_size_per_gpu": 4, "num_iterations": 50}},
        {"name": "first", "gpus": 32, "model": SMALL, "arrival": "1 us"},
        {"name": "short", "gpus": 8, "model": SMALL, "arrival": "2 us"},
        {"name": "urgent", "gpus": 32, "model": SMALL, "arrival": "3 us", "priority": 5},
    ]
    rows = simulate(cluster(*jobs, scheduling={"queue": queue})).rows
    started = dict(zip(rows["job"], rows["started_s"], strict=True))
    assert sorted(started, key=lambda name: started[name]) == order


def test_backfilling_lets_a_short_job_overtake_and_delays_nobody() -> None:
    jobs = [
        {"name": "running", "gpus": 20, "model": SMALL, "training": {"batch_size_per_gpu": 4, "num_iterations": 50}},
        {"name": "first", "gpus": 32, "model": SMALL, "arrival": "1 us"},
        {"name": "short", "gpus": 8, "model": SMALL, "arrival": "2 us"},
        {"name": "long", "gpus": 8, "model": SMALL, "arrival": "3 us", "walltime": "1 h"},
    ]
    started = {}
    for queue in ("fifo", "backfill"):
        rows = simulate(cluster(*jobs, scheduling={"queue": queue})).rows
        started[queue] = dict(zip(rows["job"], rows["started_s"], strict=True))
    assert started["backfill"]["short"] == 2e-6
    assert started["backfill"]["long"] > started["backfill"]["first"]
    assert started["backfill"]["first"] == pytest.approx(started["fifo"]["first"], rel=0.01)


def test_ranks_are_numbered_from_zero_in_every_job_and_traffic_by_gpu() -> None:
    result = simulate(cluster(*TWO, scheduling={"placement": "spread"}, collect_events=True))
    assert [list(job.ranks["rank"]) for job in result.jobs] == [[0], [0]]
    nodes = [gpu // 4 for gpu in result.rows["first_gpu"]]
    assert nodes == [0, 0]
    used = set(result.traffic["src"]) | set(result.traffic["dst"])
    assert used == set(range(32))


def test_the_same_seed_places_alike() -> None:
    scheduling = {"placement": "random"}
    first, second = (simulate(cluster(*TWO, scheduling=scheduling)) for _ in range(2))
    assert first.as_dict() == second.as_dict()
    assert first.rows == second.rows


def test_a_rank_whose_group_straddles_nodes_has_a_role_of_its_own() -> None:
    """Three GPUs per node for tensor groups of two: every other group leaves its node."""
    job = {"name": "a", "gpus": 12, "model": SMALL, "parallelism": {"strategy": "TP_DDP", "tp_degree": 2}}
    blocker = {"name": "b", "gpus": 8, "model": SMALL, "placement": "spread"}
    results = {
        lod: simulate(cluster(blocker, job, lod=lod, network={"topology_type": "switch"}, occupy_links=True))
        for lod in ("high", "medium")
    }
    high, medium = (results[lod].jobs[1].metrics["mean_iteration_s"] for lod in ("high", "medium"))
    assert medium == pytest.approx(high, rel=0.05)


YAML = """
name: shared
hardware: {gpu: A100-SXM-80GB, num_nodes: 2, gpus_per_node: 4}
model: {name: GPT2-Small}
training: {batch_size_per_gpu: 2, num_iterations: 2}
jobs:
  - {name: a, gpus: 4}
  - {name: b, gpus: 4, model: {name: BERT-Large}, arrival: 10 ms}
"""


def run(tmp_path: Path, text: str, *args: str) -> Any:
    path = tmp_path / "jobs.yaml"
    path.write_text(text)
    return CliRunner().invoke(cli, [args[0], str(path), *args[1:]])


def test_the_command_line_says_when_each_job_ran_and_writes_its_tables(tmp_path: Path) -> None:
    done = run(tmp_path, YAML, "run", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    assert "shared: 2 jobs in" in done.output
    assert max(len(line) for line in done.output.split("files")[0].splitlines()) <= 80
    names = {path.name for path in (tmp_path / "out" / "shared").iterdir()}
    assert {"shared_jobs.csv", "shared_a_iterations.csv", "shared_b_ranks.csv"} <= names
    results = json.loads((tmp_path / "out" / "shared" / "shared_results.json").read_text())
    assert [job["name"] for job in results["jobs"]] == ["a", "b"]
    again = CliRunner().invoke(
        cli, ["run", str(tmp_path / "out/shared/shared_config.yaml"), "--out", str(tmp_path / "again")]
    )
    assert again.exit_code == 0, again.output
    written = tmp_path / "again" / "shared" / "shared_results.json"
    assert json.loads(written.read_text()) == results


@pytest.mark.parametrize(
    ("old", "new", "exit_code", "message"),
    [
        ("{name: a, gpus: 4}", "{name: b, gpus: 4}", 2, "several jobs are called b"),
        ("{name: a, gpus: 4}", "{name: a, gpus: 16}", 3, "7:21: jobs[0].gpus: job a: 16 GPUs are needed, the clus"),
        ("{name: a, gpus: 4}", "{name: a, gpus: 0}", 2, "jobs[0].gpus"),
        ("{name: a, gpus: 4}", "{name: a, gpus: 4, priority: high}", 2, "jobs[0].priority"),
        ("{name: a, gpus: 4}", "{name: a, gpus: 4, placement: dense}", 2, "jobs[0].placement"),
        ("{name: a, gpus: 4}", "{name: a, gpus: 4, arrival: -1 s}", 2, "jobs[0].arrival"),
        ("{name: BERT-Large}", "{name: BERT-Lrge}", 2, "jobs[1].model.name: job b: unknown model 'BERT-Lrge'"),
        ("{name: a, gpus: 4}", "{name: a, gpus: 4, parallelism: {strategy: TP, tp_degree: 5}}", 2, "jobs[0].par"),
        ("jobs:\n", "scheduling: {queue: lifo}\njobs:\n", 2, "scheduling.queue"),
        ("jobs:\n", "scheduling: {placement: tight}\njobs:\n", 2, "scheduling.placement"),
    ],
)
def test_what_is_wrong_with_a_job_is_said_at_its_line(
    tmp_path: Path, old: str, new: str, exit_code: int, message: str
) -> None:
    assert old in YAML
    done = run(tmp_path, YAML.replace(old, new), "check")
    assert (done.exit_code, "Traceback" in done.output) == (exit_code, False), done.output
    assert message in done.output
    assert "jobs.yaml:" in done.output


def test_scheduling_without_jobs_is_an_error(tmp_path: Path) -> None:
    text = YAML.split("jobs:")[0] + "scheduling: {queue: fifo}\n"
    done = run(tmp_path, text, "check")
    assert done.exit_code == 2
    assert "scheduling is for several jobs" in done.output


def test_memory_is_told_job_by_job(tmp_path: Path) -> None:
    done = run(tmp_path, YAML, "memory")
    assert done.exit_code == 0, done.output
    assert [line.split(":")[0] for line in done.output.splitlines() if line[:2] in ("a:", "b:")] == ["a", "b"]


CHAT = {
    "name": "chat",
    "gpus": 4,
    "model": {"name": "Llama3-8B"},
    "serving": {"scheduler": "vllm_v0"},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "20 req/s"},
        "prompt_tokens": {"kind": "uniform", "low": 100, "high": 2000},
        "output_tokens": {"kind": "uniform", "low": 1, "high": 100},
        "num_requests": 60,
    },
    "slo": {"ttft": "100 ms"},
}


def chat(sessions: dict[str, Any] | None, arrivals: dict[str, Any] | None) -> dict[str, Any]:
    workload = {**CHAT["workload"], **({"sessions": sessions} if sessions else {})}
    return {**CHAT, "workload": {**workload, **({"arrivals": arrivals} if arrivals else {})}}


@pytest.mark.parametrize("lod", ["medium", "high"])
@pytest.mark.parametrize(
    ("sessions", "arrivals"),
    [(None, None), ({"turns": 3, "think_time": "1 s"}, None), (None, {"kind": "closed_loop", "concurrency": 8})],
    ids=["open", "conversations", "closed loop"],
)
def test_serving_behind_another_job_has_the_figures_that_it_has_alone(lod: str, sessions: Any, arrivals: Any) -> None:
    job, hardware = chat(sessions, arrivals), {**FOUR_GPU_NODES, "num_nodes": 1}
    both = simulate(cluster({"name": "first", "gpus": 4, "model": SMALL}, job, hardware=hardware, lod=lod))
    alone = simulate(cluster(job, hardware=hardware, lod=lod)).jobs[0]
    behind, start_s = both.jobs[1], both.rows["started_s"][1]
    assert start_s == both.rows["ended_s"][0] > 0.0
    assert behind.metrics.keys() == alone.metrics.keys()
    for name, value in alone.metrics.items():
        assert behind.metrics[name] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value), name
    assert behind.simulated_s == pytest.approx(alone.simulated_s)
    for name, column in alone.timeline.items():
        assert behind.timeline[name] == pytest.approx(column, rel=1e-6, abs=1e-6), name
    assert list(behind.rows["arrival_s"]) == pytest.approx([start_s + each for each in alone.rows["arrival_s"]])


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"serving": {}}, "job a: serving needs a workload"),
        (
            {
                "workload": {
                    "arrivals": {"kind": "all_at_once"},
                    "prompt_tokens": 5,
                    "output_tokens": 5,
                    "num_requests": 1,
                }
            },
            "job a: workload",
        ),
        ({"slo": {"ttft": "1 s"}}, "job a: workload and slo belong to serving, not to training"),
    ],
)
def test_a_job_has_what_its_kind_needs(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        SimulationConfig(
            hardware={"profile": "dgx-h100"},
            model={"name": "GPT2-Small"},
            training={"batch_size_per_gpu": 1},
            jobs=[{"name": "a", "gpus": 4, **sections}],
        )
    assert caught.value.errors()[0]["loc"] == ("jobs", 0)


def test_no_job_begins_where_the_clock_has_no_room_for_its_steps() -> None:
    """At 1e15 s, a float has no parts of a second left, and iterations would take no time."""
    with pytest.raises(ValidationError, match=r"at most 1e\+10 s \(300 years\) are simulated, not 1e\+15 s"):
        cluster({"name": "late", "gpus": 8, "arrival": "1e15 s"})
    endless = {"batch_size_per_gpu": 1, "num_iterations": 1, "data_loading": {"time": "1e14 s"}}
    waits = cluster(
        {"name": "endless", "gpus": 32, "training": endless}, {"name": "waits", "gpus": 32, "arrival": "1 s"}
    )
    with pytest.raises(UsageError, match=r"job waits would start after 1e\+14 s"):
        simulate(waits)
