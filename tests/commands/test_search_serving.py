import json
import re

import pytest
import yaml
from click.testing import CliRunner

from simsys.cli import cli

CHAT = {
    "hardware": {"profile": "dgx-h100"},
    "model": {"name": "Llama3-8B"},
    "serving": {"engine": "vllm"},
    "slo": {"ttft": "1 s", "tpot": "20 ms"},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "60 req/s"},
        "prompt_tokens": {"kind": "lognormal", "mean": 512},
        "output_tokens": {"kind": "lognormal", "mean": 32},
        "num_requests": 600,
    },
    "search": {
        "minimize": "usd_per_hour",
        "over": {
            "hardware.profile": ["dgx-h100", "dgx-a100"],
            "parallelism.tp_degree": [1, 2],
            "parallelism.dp_degree": "auto",
        },
    },
}

POOLS = {"prefill_replicas": 1, "decode_replicas": 3}


def changed(**sections):
    document = {**CHAT, **{name: {**(CHAT.get(name) or {}), **(part or {})} for name, part in sections.items()}}
    return {name: part for name, part in document.items() if name not in sections or sections[name] is not None}


def asked(tmp_path, document, *options):
    path = tmp_path / "chat.yaml"
    path.write_text(yaml.safe_dump(document))
    return CliRunner().invoke(cli, ["search", str(path), "--jobs", "1", *options])


def answer(tmp_path, document, *options):
    result = asked(tmp_path, document, "--json", *options)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.slow
def test_answer_is_the_cheapest_size_that_meets_the_targets(tmp_path):
    document = changed(workload={"arrivals": {"kind": "poisson", "rate": "72 req/s"}})
    found = answer(tmp_path, document, "--top", "2")
    first = found["best"][0]
    assert first["metrics"]["slo_attainment"] >= 0.99
    assert first["metrics"]["usd_per_hour"] == min(each["metrics"]["usd_per_hour"] for each in found["best"])
    replicas = first["settings"]["parallelism.dp_degree"]
    assert replicas > 1
    longer = {"workload.num_requests": 6000}  # an answer is of the steady state
    smaller = {**first["settings"], **longer, "parallelism.dp_degree": replicas - 1, "hardware.num_nodes": 1}
    smaller["hardware.gpus_per_node"] = (replicas - 1) * smaller["parallelism.tp_degree"]
    metrics = metrics_of(tmp_path, smaller)
    assert metrics["slo_attainment"] < 0.99 or metrics["overloaded"]


def metrics_of(tmp_path, settings):
    options = [text for path, value in settings.items() for text in ("--set", f"{path}={json.dumps(value)}")]
    result = CliRunner().invoke(cli, ["run", str(tmp_path / "chat.yaml"), "--no-files", "--json", *options])
    return json.loads(result.stdout)["scenarios"][0]["metrics"]


def test_settings_of_the_answer_give_its_metrics_in_a_run(tmp_path):
    over = {"parallelism.tp_degree": [1], "serving.disaggregated": [POOLS], "parallelism.dp_degree": [4]}
    first = answer(tmp_path, changed(search={"over": over, "minimize": "p99_tpot_ms"}))["best"][0]
    assert first["settings"]["serving.disaggregated"] == POOLS
    assert metrics_of(tmp_path, first["settings"])["p99_tpot_ms"] == first["metrics"]["p99_tpot_ms"]


def test_text_states_every_stage(tmp_path):
    result = asked(tmp_path, CHAT, "--top", "2")
    assert re.search(
        r"stage 1: [\d,]+ deployments by closed forms, \d+ fit .*\n"
        r"stage 2: \d+ deployments simulated at medium detail, all requests, bisecting the number of replicas .*\n"
        r"stage 3: \d+ finalists until the steady state, medium detail",
        result.stdout,
    )
    assert "expected loss against the best of these" in result.stdout


def test_every_deployment_is_counted_once(tmp_path):
    over = {**CHAT["search"]["over"], "parallelism.dp_degree": [1, 2, 4, 6]}
    found = answer(tmp_path, changed(search={"over": over}), "--top", "1000")
    assert found["considered"] == found["pruned"] + found["simulated"]
    assert found["considered"] == sum(found["reasons"].values()) + len(found["best"])


@pytest.mark.slow
def test_size_is_that_of_the_scenario_if_it_is_written(tmp_path):
    document = changed(
        hardware={"num_nodes": 1, "gpus_per_node": 4},
        search={"over": "auto", "minimize": None, "maximize": "output_throughput"},
        serving={"max_num_seqs": 256, "max_num_batched_tokens": 8192, "router": "round_robin"},
        parallelism={"pp_stages": 1},
        workload={"num_requests": 100},
    )
    document["serving"] |= {"precision": "bf16", "kv_precision": "bf16"}
    found = answer(tmp_path, document, "--top", "100")
    assert {each["metrics"]["num_gpus"] for each in found["best"]} == {4}
    assert found["fixed"]["hardware.gpus_per_node"] == 4
    assert {each["settings"]["parallelism.tp_degree"] for each in found["best"]} == {1, 2, 4}


def test_pareto_has_no_deployment_that_another_one_beats(tmp_path):
    names = ("num_gpus", "p99_tpot_ms")
    over = {"parallelism.tp_degree": [1, 2, 4], "parallelism.dp_degree": [1, 2, 4]}
    found = answer(tmp_path, changed(search={"over": over, "minimize": "p99_tpot_ms"}), "--pareto", *names)["best"]
    points = [tuple(each["metrics"][name] for name in names) for each in found]
    assert len(points) > 1
    assert not [(a, b) for a in points for b in points if a != b and all(x <= y for x, y in zip(a, b, strict=True))]


def test_nothing_feasible_is_exit_code_3_with_counted_reasons(tmp_path):
    result = asked(tmp_path, changed(slo={"tpot": "1 ms"}))
    assert result.exit_code == 3
    assert "nothing is feasible" in result.stdout
    assert re.search(r"\d  too many requests miss the targets even if each is alone", result.stdout)


def test_a_chosen_precision_is_a_doubt(tmp_path):
    over = {"parallelism.dp_degree": [4], "serving.precision": "auto"}
    found = answer(tmp_path, changed(search={"over": over, "minimize": "mean_tpot_ms"}))
    assert found["best"][0]["settings"]["serving.precision"] == "fp8"
    assert any("may change the answers of the model" in note for note in found["notes"])


def test_others_vary_beside_named_settings(tmp_path):
    document = changed(
        serving={"max_num_seqs": 64, "max_num_batched_tokens": 2048, "precision": "bf16", "router": "round_robin"},
        parallelism={"pp_stages": 1, "dp_degree": 2},
        search={"over": {"parallelism.tp_degree": [1, 2], "others": "auto"}, "minimize": "mean_tpot_ms"},
        workload={"num_requests": 60},
    )
    document["serving"]["kv_precision"] = "bf16"
    found = answer(tmp_path, document)["best"]
    pools = [str(each["settings"].get("serving.disaggregated")) for each in found]
    assert {each["settings"]["parallelism.tp_degree"] for each in found} == {1, 2}
    assert len(set(pools)) > 1


@pytest.mark.slow
def test_three_kinds_of_gpus_need_few_simulations():
    """How many GPUs for 20 requests per second: the number of simulations bounds the time on any machine."""
    options = ["--scenario", "chat-20-per-second", "--top", "3", "--json"]
    result = CliRunner().invoke(cli, ["search", "experiments/capacity.yaml", *options])
    found = json.loads(result.stdout)
    assert found["considered"] > 3_000_000
    assert found["simulated"] <= 200
    finalists = re.search(r"stage 3: (\d+) finalists", found["stages"][2])
    assert finalists is not None
    assert int(finalists[1]) <= 40
    assert {each["settings"]["hardware.profile"] for each in found["best"]} == {"dgx-h100", "dgx-a100", "pcie-l40s-8"}


OVER = {"parallelism.dp_degree": "auto"}


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"search": {"minimize": "num_gpu"}}, "did you mean 'num_gpus'"),
        ({"search": {"minimize": "mfu_share"}}, "unknown metric in search.minimize"),
        ({"search": {"over": {"serving.max_num_seq": [1]}}}, "did you mean 'max_num_seqs'"),
        ({"search": {"over": {"serving.max_num_seqs": [0]}}}, "positive integers are needed, not 0"),
        ({"search": {"over": {"serving.precision": [8]}}}, "a name is needed, not 8"),
        ({"search": {"over": {"serving.block_size": "auto"}}}, "list the values"),
        ({"search": {"over": {"workload.num_requests": [10]}}}, "cannot vary: it is the length of the runs"),
        ({"search": {"over": {"serving.disaggregated": [{"prefill_replicas": 1}]}}}, "decode_replicas"),
        ({"search": {"over": {"others": [1]}}}, "others is auto, not [1]"),
        ({"slo": None}, "usd_per_hour needs latency targets; add slo"),
        ({"search": {"over": {**OVER, "hardware.profile": ["mi250-8"]}}}, "needs prices"),
    ],
)
def test_bad_question_is_refused_before_anything_runs(tmp_path, sections, message):
    result = asked(tmp_path, changed(**sections))
    assert result.exit_code == 2
    assert message in result.stderr


def test_absurd_space_is_refused_with_its_count(tmp_path):
    numbers = list(range(1, 10_001))
    over = {f"serving.{key}": numbers for key in ("max_num_seqs", "max_num_batched_tokens", "block_size")}
    result = asked(tmp_path, changed(search={"over": over}))
    assert result.exit_code == 2
    assert "1,000,000,000,000 deployments" in result.stderr
