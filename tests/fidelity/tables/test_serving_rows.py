"""Rows of measured serving runs: each load as what it is, each metric from the run's figure of that name."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from simsys.errors import ConfigError
from simsys.fidelity.case import Case
from simsys.fidelity.predict import predict
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.fidelity.tables.serving_rows import COLUMNS, cases
from simsys.fidelity.tables.table import Table, read_table

ROW = {
    **{"id": "a-1", "source_key": "a", "engine": "vLLM", "model": "llama3.1-8b", "gpu": "H100-SXM-80GB", "tp": "1"},
    **{"precision": "fp16", "load_kind": "static_batch", "load_value": "4", "input_len": "256", "output_len": "16"},
    **{"metric": "e2e_s", "value": "0.2", "pp": "1", "ep": "", "stat": "mean", "engine_version": "", "notes": ""},
}


def table(tmp_path: Path, *rows: dict[str, str]) -> Table:
    columns = [*COLUMNS, "pp", "ep", "stat", "engine_version", "flag", "notes"]
    path = tmp_path / "serving.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows({**ROW, **row} for row in rows)
    return read_table(path)


def case(tmp_path: Path, **cells: str) -> Case:
    (found,) = cases(table(tmp_path, cells))
    return found


def scenario(found: Case) -> dict[str, Any]:
    assert isinstance(found.run, ScenarioRun), found.reason
    return dict(json.loads(found.run.scenario))


# --- loads --------------------------------------------------------------------------------------------------------


def test_a_static_batch_is_one_batch_without_a_server(tmp_path: Path) -> None:
    found = scenario(case(tmp_path))
    assert found["workload"]["arrivals"] == {"kind": "all_at_once"}
    assert found["workload"]["num_requests"] == found["serving"]["max_num_seqs"] == 4
    assert found["serving"]["max_num_batched_tokens"] == 4 * 256
    assert found["serving"]["api_overhead"] == "0 s"


def test_users_are_a_closed_loop_with_room_for_all(tmp_path: Path) -> None:
    found = scenario(case(tmp_path, load_kind="concurrency", load_value="32", metric="ttft_ms"))
    assert found["workload"]["arrivals"] == {"kind": "closed_loop", "concurrency": 32}
    assert found["workload"]["num_requests"] == 320
    assert found["serving"]["max_num_seqs"] == 32
    assert "api_overhead" not in found["serving"]


def test_a_rate_is_poisson(tmp_path: Path) -> None:
    found = scenario(case(tmp_path, load_kind="request_rate", load_value="2.5", metric="ttft_ms"))
    assert found["workload"]["arrivals"] == {"kind": "poisson", "rate": "2.5 req/s"}


def test_the_offline_maximum_is_everything_at_once(tmp_path: Path) -> None:
    found = scenario(case(tmp_path, load_kind="offline_max", load_value="", metric="output_tokens_per_s"))
    assert found["workload"]["arrivals"] == {"kind": "all_at_once"}
    assert found["workload"]["num_requests"] >= 2048
    assert found["serving"]["api_overhead"] == "0 s"
    assert not {"max_num_seqs", "scheduler"} & found["serving"].keys()  # as the engine sets them


@pytest.mark.parametrize(("written", "requests"), [("500", 500), ("inf", 2048)])
def test_as_many_requests_are_queued_at_once_as_a_row_states(tmp_path: Path, written: str, requests: int) -> None:
    found = scenario(case(tmp_path, load_kind="offline_max", load_value=written, metric="output_tokens_per_s"))
    assert found["workload"]["num_requests"] == requests


def test_a_run_that_serves_no_request_is_not_predicted(tmp_path: Path) -> None:
    """Prompts beyond the KV cache are all rejected: a throughput of 0 would be no prediction."""
    row = {"model": "Qwen3-32B", "gpu": "H100-PCIE-80GB", "precision": "bf16", "engine_version": "0.11.0"}
    load = {"load_kind": "offline_max", "load_value": "4", "input_len": "32000", "output_len": "77"}
    (found,) = predict([case(tmp_path, **row, **load, engine="vLLM", metric="output_tokens_per_s")])
    assert found.predicted is None
    assert found.reason == "output_throughput is 0: no request can be served"


def test_lengths_that_notes_call_drawn_are_drawn(tmp_path: Path) -> None:
    notes = "batch 4; lengths random in [0.8L,L]; mean not stated"
    found = scenario(case(tmp_path, load_kind="concurrency", metric="ttft_ms", input_len="1000", notes=notes))
    assert found["workload"]["prompt_tokens"] == {"kind": "uniform", "low": 800, "high": 1000}
    assert scenario(case(tmp_path))["workload"]["prompt_tokens"] == 256


# --- metrics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "figure", "scale"),
    [
        ({}, "duration", 1.0),
        ({"metric": "prefill_ms"}, "duration", 1e3),
        ({"metric": "decode_step_ms"}, "mean_tpot_ms", 1.0),
        ({"metric": "output_tokens_per_s"}, "output_throughput", 1.0),
        ({"metric": "requests_per_s"}, "request_throughput", 1.0),
        ({"metric": "tokens_per_s_total"}, "total_token_throughput", 1.0),
        ({"metric": "prefill_tokens_per_s"}, "total_token_throughput", 256 / 257),
        ({"metric": "ttft_ms", "load_kind": "concurrency", "stat": "unstated"}, "mean_ttft_ms", 1.0),
        ({"metric": "tpot_ms", "load_kind": "concurrency", "stat": "p50"}, "median_tpot_ms", 1.0),
        ({"metric": "ttft_ms", "load_kind": "concurrency", "stat": "p99"}, "p99_ttft_ms", 1.0),
        ({"metric": "e2e_s", "load_kind": "concurrency"}, "mean_e2el_ms", 1e-3),
    ],
)
def test_the_figure_of_a_metric(tmp_path: Path, cells: dict[str, str], figure: str, scale: float) -> None:
    found = case(tmp_path, **cells)
    assert (found.figure, found.scale) == (figure, pytest.approx(scale))


def test_a_statistic_that_is_not_known_is_no_mean(tmp_path: Path) -> None:
    found = case(tmp_path, metric="ttft_ms", load_kind="concurrency", stat="p75")
    assert (found.run, found.reason[:27]) == (None, "statistic 'p75' of a latenc")


def test_mean_lengths_may_be_fractions(tmp_path: Path) -> None:
    found = scenario(case(tmp_path, input_len="652.5", output_len="16.4"))["workload"]
    assert (found["prompt_tokens"], found["output_tokens"]) == (652, 16)


def test_metrics_of_one_configuration_share_a_run_and_curves_a_fold(tmp_path: Path) -> None:
    users = {"load_kind": "concurrency", "load_value": "4"}
    found = cases(
        table(
            tmp_path,
            {**users, "metric": "ttft_ms"},
            {**users, "id": "a-2", "metric": "tpot_ms"},
            {**users, "id": "a-3", "metric": "tpot_ms", "load_value": "8"},
            {**users, "id": "a-4", "metric": "tpot_ms", "gpu": "H200-SXM-141GB"},
        )
    )
    assert found[0].run == found[1].run != found[2].run
    assert found[0].fold == found[1].fold == found[2].fold != found[3].fold
    assert {each.group for each in found} == {"a"}


def test_times_of_a_batch_add_up(tmp_path: Path) -> None:
    """The whole of a batch is its prompts and one step for each further token."""
    rows = [{"id": metric, "metric": metric} for metric in ("e2e_s", "prefill_ms", "decode_step_ms")]
    whole, prefill, step = (each.predicted for each in predict(cases(table(tmp_path, *rows))))
    assert whole is not None
    assert prefill is not None
    assert step is not None
    assert 1e3 * whole == pytest.approx(prefill + 15 * step, rel=1e-3)


# --- engines, precisions, layouts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "version", "profile"),
    [
        ("vLLM", "0.19.0", "vllm"),
        ("vLLM", "", "vllm"),
        ("vLLM", "2024", "vllm-v0"),
        ("vLLM (Splitwise profile)", "2023", "pytorch-eager"),
        ("TensorRT-LLM", "1.0.0rc3", "tensorrt-llm"),
        ("Nvidia TensorRT-LLM", "0.9", "tensorrt-llm-cpp"),
        ("NIM (TensorRT-LLM)", "", "tensorrt-llm"),
        ("NIM (TensorRT-LLM)", "1.15.0", "tensorrt-llm"),
        ("NIM (TensorRT-LLM)", "1.8.0", "tensorrt-llm-cpp"),
        ("SGLang", "0.5.9", "sglang"),
        ("Deepspeed-MII", "2024", "deepspeed-mii"),
        ("Deepspeed", "2024", "deepspeed-inference"),
        ("lmdeploy TurboMind", "0.2.0", "lmdeploy"),
        ("gpt-fast (PyTorch)", "", "gpt-fast"),
    ],
)
def test_engines_by_name_and_version(tmp_path: Path, engine: str, version: str, profile: str) -> None:
    assert scenario(case(tmp_path, engine=engine, engine_version=version))["serving"]["engine"] == profile


@pytest.mark.parametrize(
    ("engine", "text", "weights", "cache"),
    [
        ("vLLM", "fp16", "fp16", "fp16"),
        ("vLLM", "fp8", "fp8", "fp8"),
        ("lmdeploy", "fp8", "fp8", "bf16"),
        ("TensorRT-LLM", "fp8", "fp8", "fp8"),
        ("TensorRT-LLM", "fp4", "fp4", "fp8"),
        ("vLLM", "not stated (bf16 assumed)", "bf16", "bf16"),
        ("vLLM", "bf16 weights, fp8-kv", "bf16", "fp8"),
        ("vLLM", "int4-g32", "int4", "bf16"),
        ("vLLM", "mxfp4", "mxfp4", "bf16"),
    ],
)
def test_precisions(tmp_path: Path, engine: str, text: str, weights: str, cache: str) -> None:
    serving = scenario(case(tmp_path, engine=engine, precision=text))["serving"]
    assert (serving["precision"], serving["kv_precision"]) == (weights, cache)


@pytest.mark.parametrize(
    ("model", "weights"), [("qwen3-32b", "fp8_block"), ("deepseek-v3", "fp8_block"), ("llama3.1-8b", "fp8")]
)
def test_models_that_are_published_with_scales_for_blocks_have_these(tmp_path: Path, model: str, weights: str) -> None:
    serving = scenario(case(tmp_path, model=model, precision="fp8"))["serving"]
    assert (serving["precision"], serving["kv_precision"]) == (weights, "fp8")
    assert scenario(case(tmp_path, model=model, precision="bf16"))["serving"]["precision"] == "bf16"


def test_gpus_that_were_counted_twice_are_counted_once(tmp_path: Path) -> None:
    """A table has multiplied tensor and expert parallelism, which engines run on the same GPUs."""
    found = scenario(case(tmp_path, model="deepseek-r1", gpu="B200-SXM-180GB", tp="64", ep="8", precision="fp8"))
    assert found["parallelism"] == {"tp_degree": 8, "pp_stages": 1, "ep_degree": 8}
    assert found["hardware"]["gpus_per_node"] == 8


def test_names_of_hardware_and_models(tmp_path: Path) -> None:
    found = scenario(case(tmp_path, model="llama3.x-70b", gpu="H100-SXM-80GB-powercap", tp="4"))
    assert found["model"]["name"] == "Llama-3.1-70B"
    assert found["hardware"] == {"profile": "dgx-h100", "gpu": "H100-SXM-350W", "gpus_per_node": 4}
    assert scenario(case(tmp_path, gpu="L4"))["hardware"]["profile"] == "pcie-l4-8"


# --- what cannot be predicted -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"flag": "suspect_ttft"}, "the table marks the value as suspect"),
        ({"gpu": "SN40L"}, "no profile of GPU SN40L"),
        ({"engine": "sambaflow"}, "no profile of engine sambaflow"),
        ({"model": "Intel/neural-chat-7b"}, "model Intel/neural-chat-7b is not in the model DB"),
        ({"precision": "q4_K_S"}, "precision q4_K_S"),
        ({"input_len": ""}, "how long prompts are is not stated"),
        ({"tp": ""}, "how the model is divided is not stated"),
        ({"tp": "16"}, "of which a node has 8"),
        ({"gpu": "GH200-96GB", "tp": "2"}, "of which a node has 1"),
        ({"notes": "batch_size field 4, attention_dp 8, moe_tp 1"}, "attention in data parallelism"),
        ({"metric": "prefill_ms", "load_kind": "concurrency"}, "prefill_ms is a metric of a static batch"),
        ({"model": "bigscience/bloom-7b1", "input_len": "2048"}, "exceed the model's context of 2048 tokens"),
    ],
)
def test_reasons(tmp_path: Path, cells: dict[str, str], reason: str) -> None:
    found = case(tmp_path, **cells)
    assert found.run is None
    assert reason in found.reason


def test_a_model_that_does_not_fit_is_unsupported(tmp_path: Path) -> None:
    (found,) = predict([case(tmp_path, model="llama2-70b", engine="vLLM")])
    assert found.status == "unsupported"
    assert found.reason.startswith("does not fit: Llama-2-70B")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"value": "0"}, r"serving.csv:2:\d+: value: '0' is not a number above 0"),
        ({"value": "-3"}, r"value: '-3' is not a number above 0"),
        ({"value": "fast"}, r"value: 'fast' is not a number above 0"),
        ({"load_value": "1.5"}, r"load_value: '1.5' is not a whole number from 1"),
        ({"load_value": ""}, r"load_value: is empty"),
        ({"tp": "two"}, r"tp: 'two' is not a whole number from 1"),
        ({"output_len": "-1"}, r"output_len: '-1' is not a number of tokens from 1"),
        ({"metric": "speed"}, r"metric: 'speed' is no metric; known: e2e_s, "),
        ({"load_kind": "bursts"}, r"load_kind: 'bursts' is no kind of load; known: static_batch, "),
    ],
)
def test_bad_cells_are_named(tmp_path: Path, cells: dict[str, str], message: str) -> None:
    found = table(tmp_path, cells)
    cases(found)
    with pytest.raises(ConfigError, match=message):
        found.check()


def test_a_curve_is_one_fold_whatever_its_model_is_called(tmp_path: Path) -> None:
    one, other = (case(tmp_path, model=name, id=name) for name in ("llama3.1-8b", "meta-llama/Llama-3.1-8B"))
    assert one.fold == other.fold
    assert case(tmp_path, model="llama2-7b").fold != one.fold
