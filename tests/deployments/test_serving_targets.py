"""vLLM, SGLang and TensorRT-LLM: what is written is read back into an equal scenario, or refused by name."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from simsys import SimulationConfig
from simsys.config.model import ModelConfig
from simsys.deployments import EmittedFile, emit, read_back, target_of
from simsys.deployments.deployment import deployment_of
from simsys.deployments.emission import canonical_settings
from simsys.errors import ConfigError, UsageError
from tests.helpers.each_case import each_case
from tests.helpers.random_deployments import serving_deployment
from tests.helpers.thorough import cases

DEFAULTS = ("serving.router", "serving.disaggregated.decode_router", "parallelism.tp_degree")
ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm", "dynamo": "vllm", "llm-d": "vllm"}
WITH_POOLS = ("dynamo", "llm-d")


def scenario(engine: str, parallelism: dict[str, Any] | None = None, **serving: Any) -> SimulationConfig:
    data = serving_deployment(random.Random(0), engine)
    one = {"tp_degree": 2, "dp_degree": 1}
    return SimulationConfig.model_validate(
        {
            **data,
            "model": {"name": "Llama3-8B"},
            "parallelism": parallelism or one,
            "serving": {"engine": engine, **serving},
        }
    )


def canonical(config: SimulationConfig, target: str) -> dict[str, Any]:
    tool = target_of(target)
    return canonical_settings(tool, deployment_of(config, tool.releases[0], None))


def text_of(files: list[EmittedFile], name: str) -> str:
    return next(file.text for file in files if file.name == name)


@pytest.mark.parametrize("target", ENGINES)
def test_random_scenarios_are_read_back_or_each_setting_without_an_option_is_named(target: str) -> None:
    refused, equal = 0, 0
    for seed in range(cases(300 if target in WITH_POOLS else 150, part=2)):
        data = serving_deployment(random.Random(f"{target} {seed}"), ENGINES[target], pools=target in WITH_POOLS)
        try:
            config = SimulationConfig.model_validate(data)
        except ValidationError:
            continue
        try:
            files = emit(config, target)
        except ConfigError as error:
            named = {problem.path for problem in error.problems}
            given = canonical(config, target)
            assert named
            given |= dict.fromkeys(DEFAULTS)  # which not every tool has

            assert all(any(f"{path}.".startswith(f"{name}.") for path in given) for name in named), named
            refused += 1
            continue
        again = read_back(target, files, config)
        assert canonical(again, target) == canonical(config, target)
        assert read_back(target, emit(again, target), again) == again
        equal += 1
    assert refused > 5
    assert equal > 5


@pytest.mark.parametrize("target", ENGINES)
@each_case("seed", range(20))
def test_a_refused_scenario_is_written_without_the_named_settings(target: str, seed: int) -> None:
    data = serving_deployment(random.Random(f"{target} {seed}"), ENGINES[target], pools=target in WITH_POOLS)
    try:
        config = SimulationConfig.model_validate(data)
        emit(config, target)
        return
    except ValidationError:
        return
    except ConfigError as error:
        named = [problem.path for problem in error.problems]
    for path in named:
        section, *rest = path.split(".")
        data[section].pop(rest[0], None)
        if rest[0] == "tp_degree":  # the degree of a pool that does not fit a node
            data["serving"].pop("disaggregated", None)
            data["parallelism"].pop("ep_degree", None)
            data["parallelism"].pop("expert_skew", None)
        if path == "parallelism.dp_degree" or path == "serving.router":
            data["parallelism"]["dp_degree"] = 1
    if "disaggregated" not in data["serving"]:  # as many replicas as fit would need a router
        data["parallelism"].setdefault("dp_degree", 1)
    config = SimulationConfig.model_validate(data)
    again = read_back(target, emit(config, target), config)
    assert canonical(again, target) == canonical(config, target)


def test_vllm_has_the_same_options_on_the_line_and_in_the_file() -> None:
    config = scenario("vllm", max_num_seqs=64, prefix_caching=False, cuda_graphs="decode_only")
    files = emit(config, "vllm")
    line, options = text_of(files, "serve.sh"), yaml.safe_load(text_of(files, "vllm.yaml"))
    assert "exec vllm serve meta-llama/Meta-Llama-3-8B" in line
    assert "--tensor-parallel-size 2" in line
    assert options == {
        "model": "meta-llama/Meta-Llama-3-8B",
        "tensor-parallel-size": 2,
        "max-num-seqs": 64,
        "no-enable-prefix-caching": True,
        "compilation-config": '{"cudagraph_mode": "FULL_DECODE_ONLY"}',
    }


def test_files_that_differ_are_refused() -> None:
    config = scenario("vllm", max_num_seqs=64)
    line, options = emit(config, "vllm")
    changed = EmittedFile(options.name, options.text.replace("64", "32"))
    with pytest.raises(UsageError, match="differ in max-num-seqs"):
        read_back("vllm", [line, changed], config)


def test_an_option_without_a_setting_is_refused() -> None:
    config = scenario("sglang")
    (file,) = emit(config, "sglang")
    with pytest.raises(UsageError, match="no setting corresponds to watchdog-timeout of SGLang"):
        read_back("sglang", [EmittedFile(file.name, file.text.rstrip() + " --watchdog-timeout 5\n")], config)


def test_all_settings_without_an_option_are_named_at_once() -> None:
    config = scenario("vllm", preemption="swap", swap_space="3 GiB", precision="int4", free_gpu_memory_fraction=0.8)
    with pytest.raises(ConfigError) as caught:
        emit(config, "vllm")
    assert sorted(problem.path for problem in caught.value.problems) == [
        "serving.free_gpu_memory_fraction",
        "serving.precision",
        "serving.preemption",
        "serving.swap_space",
    ]


def test_the_balancer_of_vllm_is_the_least_loaded() -> None:
    replicas = {"dp_degree": 4}
    with pytest.raises(ConfigError, match=r"serving\.router: vLLM 0\.22: round_robin cannot be expressed"):
        emit(scenario("vllm", replicas), "vllm")
    files = emit(scenario("vllm", replicas, router="least_outstanding"), "vllm")
    assert "--data-parallel-size 4" in text_of(files, "serve.sh")


@pytest.mark.parametrize("target", ["vllm", "sglang", "trtllm"])
def test_one_command_starts_one_node(target: str) -> None:
    with pytest.raises(ConfigError, match=r"parallelism\.tp_degree: .* 16 GPUs cannot be expressed"):
        emit(scenario(ENGINES[target], {"tp_degree": 8, "pp_stages": 2, "dp_degree": 1}), target)


def test_replicas_on_several_nodes_are_refused() -> None:
    layout = {"tp_degree": 4, "dp_degree": 3}
    with pytest.raises(ConfigError, match=r"parallelism\.dp_degree: .* 12 GPUs cannot be expressed"):
        emit(scenario("vllm", layout, router="least_outstanding"), "vllm")


def test_experts_of_several_replicas_of_vllm_are_refused() -> None:
    data = scenario("vllm", {"dp_degree": 2}, router="least_outstanding").model_copy(
        update={"model": ModelConfig(name="Mixtral-8x7B")}
    )
    with pytest.raises(ConfigError, match=r"parallelism\.dp_degree: .* divide the experts among all of them"):
        emit(data, "vllm")


def test_another_engine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"serving\.engine: vLLM 0\.22: sglang cannot be expressed; write vllm"):
        emit(scenario("sglang"), "vllm")
    with pytest.raises(ConfigError, match=r"serving\.engine: .*; write sglang"):
        emit(scenario("vllm"), "sglang")


def test_another_release_is_refused() -> None:
    config = scenario("vllm")
    assert emit(config, "vllm", release="0.22.1")
    with pytest.raises(UsageError, match=r"was written for vLLM 0\.22, not for 0\.11"):
        emit(config, "vllm", release="0.11")
    with pytest.raises(UsageError, match=r"not for 0\.221"):
        emit(config, "vllm", release="0.221")
    with pytest.raises(ConfigError, match=r"serving\.engine_release: .*0\.11 cannot be expressed"):
        emit(scenario("vllm", engine_release="0.11"), "vllm")


def test_extra_options_of_trtllm_are_nested() -> None:
    config = scenario("tensorrt-llm", prefix_caching=False, cuda_graphs=False, block_size=64)
    files = emit(config, "trtllm")
    assert yaml.safe_load(text_of(files, "extra_options.yaml")) == {
        "kv_cache_config": {"enable_block_reuse": False, "tokens_per_block": 64},
        "cuda_graph_config": None,
    }
    assert "--extra_llm_api_options extra_options.yaml" in text_of(files, "serve.sh")
    assert [file.name for file in emit(scenario("tensorrt-llm"), "trtllm")] == ["serve.sh"]


def test_pools_of_dynamo() -> None:
    pools = {"prefill_replicas": 1, "decode_replicas": 2, "prefill_tp_degree": 4, "decode_router": "round_robin"}
    config = scenario("vllm", {"tp_degree": 2}, disaggregated=pools)
    (file,) = emit(config, "dynamo")
    frontend, decode, prefill = yaml.safe_load(file.text)["spec"]["components"]
    containers = [each["podTemplate"]["spec"]["containers"][0] for each in (frontend, decode, prefill)]
    assert containers[0]["env"] == [{"name": "DYN_ROUTER_MODE", "value": "round-robin"}]
    assert [decode["replicas"], prefill["replicas"]] == [2, 1]
    assert [each["resources"]["limits"]["nvidia.com/gpu"] for each in containers[1:]] == ["2", "4"]
    assert "prefill" in containers[2]["args"]
    mixed = scenario(
        "vllm", {"tp_degree": 2}, disaggregated={**pools, "prefill_replicas": 2, "decode_router": "least_kv"}
    )
    with pytest.raises(ConfigError, match="round_robin and least_kv cannot be expressed"):
        emit(mixed, "dynamo")
    with pytest.raises(ConfigError, match=r"parallelism\.tp_degree: .* a worker of 16 GPUs"):
        emit(scenario("vllm", {"tp_degree": 8, "pp_stages": 2}), "dynamo")


def test_pools_of_llm_d() -> None:
    pools = {"prefill_replicas": 1, "decode_replicas": 2, "prefill_tp_degree": 4, "decode_router": "least_kv"}
    (file,) = emit(scenario("vllm", {"tp_degree": 2}, disaggregated=pools, max_num_seqs=64), "llm-d")
    values = yaml.safe_load(file.text)
    decode, prefill = values["decode"], values["prefill"]
    assert [decode["replicas"], prefill["replicas"]] == [2, 1]
    assert [decode["parallelism"]["tensor"], prefill["parallelism"]["tensor"]] == [2, 4]
    assert decode["containers"][0]["args"][:2] == ["--max-num-seqs", "64"]
    assert "--kv-transfer-config" in prefill["containers"][0]["args"]
    assert "--tensor-parallel-size" not in decode["containers"][0]["args"]  # the chart adds it
    assert values["modelArtifacts"]["uri"] == "hf://meta-llama/Meta-Llama-3-8B"
    assert values["modelArtifacts"]["size"] == "18Gi"  # 8.03 G parameters of 2 bytes, and a fifth more
    (single,) = emit(scenario("vllm"), "llm-d")
    values = yaml.safe_load(single.text)
    assert values["routing"]["proxy"] == {"enabled": False}
    assert values["prefill"] == {"create": False}


def test_what_llm_d_cannot_express() -> None:
    with pytest.raises(ConfigError, match=r"pp_stages: llm-d-modelservice 0\.4: .* tensor-parallel ranks only"):
        emit(scenario("vllm", {"tp_degree": 2, "pp_stages": 2}), "llm-d")
    with pytest.raises(ConfigError, match="round_robin cannot be expressed; possible: prefix_affinity"):
        emit(scenario("vllm", {"dp_degree": 2}), "llm-d")
    with pytest.raises(ConfigError, match=r"the folder /weights cannot be expressed; give --checkpoint"):
        emit(scenario("vllm"), "llm-d", checkpoint="/weights")
    with pytest.raises(UsageError, match=r"was written for llm-d-modelservice 0\.4, not for 0\.3"):
        emit(scenario("vllm"), "llm-d", release="0.3")


def test_a_model_without_known_weights_needs_a_checkpoint() -> None:
    config = scenario("vllm").model_copy(update={"model": ModelConfig(name="GPT-3-175B")})
    with pytest.raises(ConfigError, match=r"no weights are known of GPT-3-175B; give --checkpoint"):
        emit(config, "vllm")
    files = emit(config, "vllm", checkpoint="/weights/my gpt")
    assert "vllm serve '/weights/my gpt'" in text_of(files, "serve.sh")
    assert read_back("vllm", files, config).model == config.model


@pytest.mark.parametrize("target", ["vllm", "sglang"])
def test_a_hugging_face_repository_is_the_checkpoint(target: str) -> None:
    name = "meta-llama/Llama-3.1-8B-Instruct"
    config = scenario(target).model_copy(update={"model": ModelConfig(name=name)})
    files = emit(config, target)
    assert f" {name}" in text_of(files, "serve.sh")
    assert canonical(read_back(target, files, config), target) == canonical(config, target)


def test_a_hugging_face_folder_is_the_checkpoint(tmp_path: Path) -> None:
    from tests.helpers.published_configs import LLAMA_3_1_8B

    (tmp_path / "config.json").write_text(json.dumps(LLAMA_3_1_8B))
    config = scenario("vllm").model_copy(update={"model": ModelConfig(huggingface="config.json")})
    config = config.located_in(tmp_path)
    files = emit(config, "vllm")
    assert f"vllm serve {tmp_path}" in text_of(files, "serve.sh")
    assert canonical(read_back("vllm", files, config), "vllm") == canonical(config, "vllm")


@pytest.mark.parametrize(("graphs", "written"), [("decode_only", True), (True, False), (False, False)])
def test_sglang_replays_prompts_unless_an_option_says_otherwise(graphs: bool | str, written: bool) -> None:
    config = scenario("sglang", cuda_graphs=graphs)
    files = emit(config, "sglang")
    assert ("--disable-piecewise-cuda-graph" in text_of(files, "serve.sh")) == written
    again = read_back("sglang", files, config)
    assert again.serving is not None
    assert (again.serving.cuda_graphs == "decode_only") == written


def test_before_0_5_10_sglang_has_no_option_for_prompts() -> None:
    with pytest.raises(ConfigError, match=r"cuda_graphs: .* leave out decode_only, which is what SGLang 0\.5\.9 does"):
        emit(scenario("sglang", cuda_graphs="decode_only", engine_release="0.5.9"), "sglang")
