from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from simsys.check import check_config, check_file
from simsys.cli import cli
from simsys.config.cluster import HardwareConfig
from simsys.config.document import MAX_BYTES
from simsys.config.experiment import SimulationConfig
from simsys.config.model import ModelConfig
from simsys.config.network import NetworkConfig
from simsys.config.training import TrainingConfig
from simsys.errors import ConfigError, InfeasibleConfigError, UsageError
from simsys.serving import conversations
from simsys.simulator import DistributedAISimulator
from tests.helpers.places import ROOT

TRAINING = """\
hardware: {gpu: H100, gpus_per_node: 8}
model: {name: GPT2-Medium}
training: {batch_size_per_gpu: 8}
"""
SERVING = """\
hardware: {profile: dgx-h100}
model: {name: Llama3-8B}
serving: {engine: vllm}
workload: {arrivals: {kind: poisson, rate: 8 req/s}, prompt_tokens: 512, output_tokens: 128, num_requests: 9}
"""

# Example 4 of the first design document of the workload simulator.
FIRST_DESIGN = """\
name: "my_experiment"
description: "Large-scale LLM training"

hardware:
  gpu_model: "H100"
  compute_tflops: 989.0
  memory_gb: 80.0
  network_bandwidth_gbps: 200.0
  num_gpus_per_node: 8

model:
  model_type: "transformer"
  num_layers: 48
  hidden_size: 2048
  num_attention_heads: 32
  sequence_length: 2048

training:
  batch_size_per_gpu: 4
  num_iterations: 100
  num_nodes: 16
  communication_pattern: "ring_allreduce"
  mixed_precision: true

network:
  topology_type: "torus_2d"
  base_latency_us: 5.0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.yaml"


def problems(file: Path, text: str, *assignments: str) -> list[str]:
    """The problems of a file as ``line:col: path: message``, without the source lines."""
    file.write_text(text, encoding="utf-8")
    try:
        check_file(file, assignments)
    except (ConfigError, InfeasibleConfigError) as error:
        return [str(problem).partition("\n")[0].removeprefix(f"{file}:") for problem in error.problems]
    return []


def replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


@pytest.mark.parametrize("text", [TRAINING, SERVING, FIRST_DESIGN])
def test_sound_files_pass(file: Path, text: str) -> None:
    assert problems(file, text) == []


def test_the_scenarios_know_their_folder(file: Path) -> None:
    file.write_text(TRAINING)
    config = check_file(file)[0].config
    assert (config.name, config.folder) == ("job", file.parent)


@pytest.mark.parametrize("file", sorted((ROOT / "experiments").glob("*.yaml")), ids=lambda f: f.name)
def test_shipped_files_pass(file: Path) -> None:
    assert check_file(file)


TRAINING_MISTAKES = [
    ("gpu: H100", "gpu: H1000", "1:17: hardware.gpu: unknown gpu profile 'H1000', did you mean 'H100'?"),
    ("gpu: H100, gpus", "profile: dgx-h10, gpus", "1:21: hardware.profile: unknown node profile 'dgx-h10'"),
    ("H100,", "H100, fabric: infiniband,", "1:31: hardware.fabric: unknown fabric profile 'infiniband'"),
    ("GPT2-Medium", "GPT2-Med1um", "2:15: model.name: unknown model 'GPT2-Med1um', did you mean 'GPT2-Medium'?"),
    ("gpus_per", "gpu_per", "1:23: hardware.gpu_per_node: unknown key 'gpu_per_node', did you mean 'gpus_per_node'?"),
    ("unit: 8", "unit: eight", "3:32: training.batch_size_per_gpu: a whole number is needed, not 'eight'"),
    ("unit: 8", "unit: 0", "3:32: training.batch_size_per_gpu: must be above 0, not 0"),
    ("unit: 8", "unit: -8", "3:32: training.batch_size_per_gpu: must be above 0, not -8"),
    ("unit: 8", "unit: 1.5", "3:32: training.batch_size_per_gpu: a whole number is needed, not 1.5"),
    ("unit: 8", "unit: true", "3:32: training.batch_size_per_gpu: a number is needed, not true"),
    ("unit: 8", "unit: [8]", "3:32: training.batch_size_per_gpu: a whole number is needed, not a list"),
    ("unit: 8", "unit: 8 GB", "3:32: training.batch_size_per_gpu: a whole number is needed, not '8 GB'"),
    (
        "unit: 8",
        "unit: 8, num_iterations: 1000000000",
        "3:51: training.num_iterations: must be at most 1000000, not 1000000000",
    ),
    (
        "unit: 8",
        "unit: 8, gradient_accumulation_steps: 1000000000",
        "3:64: training.gradient_accumulation_steps: must be at most 100000, not 1000000000",
    ),
    (
        "unit: 8",
        "unit: 8, batch_schedule: [{from_iteration: 5, gradient_accumulation_steps: 1000000000}]",
        "3:101: training.batch_schedule[0].gradient_accumulation_steps: must be at most 100000, not 1000000000",
    ),
    (
        "unit: 8",
        "unit: 8, activation_recompute: selctive",
        "3:57: training.activation_recompute: unknown 'selctive', did you mean 'selective'?; write none, selective",
    ),
    ("unit: 8", "unit: 8, optimizer: adamw", "3:46: training.optimizer: 'adamw' is not one of adam, sgd"),
    (
        "unit: 8",
        "unit: 8, micro_batch_size: 4",
        "3:35: training.micro_batch_size: unknown key 'micro_batch_size', did you mean 'batch_size_per_gpu'?",
    ),
    (
        "unit: 8",
        "unit: 8, options: {shard_size: 4}",
        "3:45: training.options.shard_size: unknown key 'shard_size'; known: bucket_size, compression, ",
    ),
    (
        "unit: 8",
        "unit: 8, data_parallel: none, options: {overlap: true}",
        "3:66: training.options.overlap: unknown key 'overlap'; there is nothing to set here (of none)",
    ),
    (
        "unit: 8",
        "unit: 8, data_parallel: fsdp, options: {shard_size: 3}",
        "3:78: training.options.shard_size: shard_size 3 does not divide the 8 data-parallel ranks; shard_size: 1",
    ),
    ("unit: 8", "unit: .inf", "3:32: training.batch_size_per_gpu: "),
    ("unit: 8", "unit: .nan", "3:32: training.batch_size_per_gpu: "),
    (
        "unit: 8",
        f"unit: 1{'0' * 60}",
        "3:32: training.batch_size_per_gpu: must be at most 1000000000, not a number of 61",
    ),
    (
        "unit: 8",
        "unit: 8, engine: pytroch",
        "3:43: training.engine: unknown engine profile 'pytroch', did you mean 'pytorch'",
    ),
    (
        "unit: 8",
        "unit: 8, data_parallel: dpp",
        "3:50: training.data_parallel: unknown DataParallel module 'dpp', did you mean 'ddp'",
    ),
    (
        "unit: 8",
        "unit: 8, data_parallel: chunked_prefill",
        "3:50: training.data_parallel: unknown DataParallel module 'chunked_prefill'; known: ddp",
    ),
    ("unit: 8", "unit: 8, data_parallel: 'no.such:Thing'", "3:50: training.data_parallel: no framework module at"),
    (
        "unit: 8",
        "unit: 8, options: {bucket_sise: 5 MB}",
        "3:45: training.options.bucket_sise: unknown key 'bucket_sise', did you mean 'bucket_size'? (of ddp)",
    ),
    (
        "unit: 8",
        "unit: 8, options: {bucket_size: 5}",
        "3:58: training.options.bucket_size: 5 has no unit; write e.g. '5 GB'",
    ),
    ("unit: 8", "unit: 8, precision: bf8", "3:46: training.precision: 'bf8' is not one of fp32, tf32, fp16, bf16"),
    (
        "unit: 8",
        "unit: 8, communication_pattern: rings",
        "3:58: training.communication_pattern: unknown communication pattern 'rings', did you mean 'ring'?",
    ),
    (
        "H100,",
        "H100, network_bandwidth: 200,",
        "1:42: hardware.network_bandwidth: 200 has no unit; write e.g. '200 GB/s'",
    ),
    (
        "H100,",
        "H100, network_bandwidth: 200 GBs,",
        "1:42: hardware.network_bandwidth: unknown unit 'GBs' in '200 GBs', did you mean",
    ),
    (
        "H100,",
        "H100, network_bandwidth: 80 GB,",
        "1:42: hardware.network_bandwidth: '80 GB' is a size, a bandwidth is needed",
    ),
    ("H100,", "H100, network_bandwidth: 0 GB/s,", "1:42: hardware.network_bandwidth: '0 GB/s' is zero"),
    ("H100,", "H100, network_bandwidth: -1 GB/s,", "1:42: hardware.network_bandwidth: '-1 GB/s' is negative"),
    (
        "H100,",
        "H100, network_bandwidth: nan GB/s,",
        "1:42: hardware.network_bandwidth: 'nan GB/s' is not a bandwidth; write a finite number",
    ),
    ("H100,", "H100, network_bandwidth: .inf,", "1:42: hardware.network_bandwidth: "),
    ("H100,", "H100, network_bandwidth_gbps: 0,", "1:47: hardware.network_bandwidth_gbps: '0 GB/s' is zero"),
    ("gpu: H100,", "gpu_model: H100, memory_gb: -80,", "1:40: hardware.memory_gb: '-80 GB' is negative"),
    ("gpu: H100,", "gpu_model: H100, memory_gb: 0,", "1:40: hardware.memory_gb: '0 GB' is zero"),
    (
        "gpu: H100,",
        "gpu_model: H100, compute_tflops: .nan,",
        "1:45: hardware.compute_tflops: 'nan TFLOP/s' is not a compute rate",
    ),
    (
        "gpu: H100,",
        "gpu_model: H1000, memory_gb: 80,",
        "1:23: hardware.gpu_model: unknown gpu profile 'H1000', did you mean 'H100'?",
    ),
    (
        "gpu: H100,",
        "gpu: {extends: H1000},",
        "1:27: hardware.gpu.extends: unknown gpu profile 'H1000', did you mean 'H100'?",
    ),
    ("gpu: H100,", "gpu: {extends: H100, memory: 80},", "1:41: hardware.gpu.memory: 80 has no unit"),
    (
        "gpu: H100,",
        "gpu: {extends: H100, memry: 80 GB},",
        "1:33: hardware.gpu.memry: unknown key 'memry', did you mean 'memory'?",
    ),
    (
        "gpu: H100, gpus_per_node: 8",
        "profile: dgx-h100, gpus_per_node: 9",
        "1:46: hardware.gpus_per_node: a dgx-h100 has 8 GPUs, not 9",
    ),
    ("8}\nmodel", "8, num_nodes: true}\nmodel", "1:52: hardware.num_nodes: a number is needed, not true"),
    ("8}\nmodel", "8, num_nodes: 100000}\nmodel", "1:52: hardware.num_nodes: 800000 GPUs are too many to simulate"),
    ("model: {name: GPT2-Medium}", "model: {layers: []}", "2:8: model: a model needs at least one layer"),
    ("model: {name: GPT2-Medium}", "model: {}", "2:8: model: exactly one of name, huggingface, model_type and layers"),
    (
        "name: GPT2-Medium",
        "model_type: transformer, num_layers: 0, hidden_size: 64, num_attention_heads: 4",
        "2:46: model.num_layers: must be above 0, not 0",
    ),
    (
        "name: GPT2-Medium",
        "model_type: transformer, num_layers: 2, hidden_size: big, num_attention_heads: 4",
        "2:62: model.hidden_size: a whole number is needed, not 'big'",
    ),
    (
        "name: GPT2-Medium",
        "model_type: transformer, num_layers: 100000, hidden_size: 64, num_attention_heads: 4",
        "2:46: model.num_layers: must be at most 10000, not 100000",
    ),
    (
        "model: {name: GPT2-Medium}",
        "model: {layers: [{}, {forward_flop: .inf}]}",
        "2:37: model.layers[1].forward_flop: expected a finite number >= 0, got inf",
    ),
    (
        "model: {name: GPT2-Medium}",
        "model: {huggingface: none.json}",
        "2:22: model.huggingface: cannot read model configuration",
    ),
    (
        "model: {name: GPT2-Medium}",
        'model: {huggingface: "a\\nb"}',
        r"2:22: model.huggingface: cannot read model configuration '",
    ),
    (
        "model: {name: GPT2-Medium}",
        "model: {name: GPT2-Medium}\nnetwork: {topology_type: custom, edges_file: none.csv}",
        "3:46: network.edges_file: '",
    ),
    ("GPT2-Medium", "GPT2-Medium, num_layers: 40", "2:40: model.num_layers: num_layers 40 exceeds the 24 layers"),
    ("GPT2-Medium", "GPT2-Medium, hidden_size: 4", "2:28: model.hidden_size: hidden_size has no effect with name"),
    (
        "GPT2-Medium",
        "GPT2-Medium, sequence_length: 2048",
        "2:45: model.sequence_length: GPT2-Medium has a context of 1024 tokens",
    ),
    (
        "GPT2-Medium",
        "GPT2-Medium, decoder_sequence_length: 128",
        "2:28: model.decoder_sequence_length: GPT2-Medium is not an encoder-decoder",
    ),
    (
        "GPT2-Medium",
        "T5-Large, decoder_sequence_length: 1024",
        "2:50: model.decoder_sequence_length: T5-Large has a context of 512 tokens",
    ),
    ("GPT2-Medium", "ResNet-50, sequence_length: 2048", "2:43: model.sequence_length: ResNet-50 has no sequences"),
    (
        "name: GPT2-Medium",
        "model_type: transformer, num_layers: 2, hidden_size: 100, num_attention_heads: 3",
        "2:88: model.num_attention_heads: model transformer-2x100: hidden_size (100) must be a multiple",
    ),
]
SERVING_MISTAKES = [
    ("vllm", "vlm", "3:19: serving.engine: unknown engine profile 'vlm', did you mean 'vllm'?"),
    (
        "vllm",
        "vllm, scheduler: chunk_prefill",
        "3:36: serving.scheduler: unknown Scheduler module 'chunk_prefill', did you mean 'chunked_prefill'?",
    ),
    ("vllm", "vllm, prefill: llm_decode", "3:34: serving.prefill: unknown PrefillPhase module 'llm_decode'"),
    ("vllm", "vllm, decode: ddp", "3:33: serving.decode: unknown DecodePhase module 'ddp'; known: llm_decode"),
    ("vllm", "vllm, options: {long: 5}", "3:35: serving.options.long: unknown key 'long'"),
    (
        "vllm",
        "vllm, options: {max_num_seqs: 5}",
        "3:35: serving.options.max_num_seqs: max_num_seqs is a setting of serving itself",
    ),
    (
        "vllm",
        "vllm, max_model_len: 9000",
        "3:40: serving.max_model_len: Llama3-8B has a context of 8192 tokens, so max_model_len must be at most 8192",
    ),
    ("dgx-h100", "dgx-a100", None),
    ("Llama3-8B", "ResNet-50", "2:15: model.name: ResNet-50 has no KV cache (is no language model)"),
    ("Llama3-8B", "BERT-Base", "2:15: model.name: BERT-Base has no KV cache (is an encoder)"),
    (
        "Llama3-8B",
        "T5-Large",
        "2:15: model.name: T5-Large has no KV cache (is an encoder-decoder, which simsys can only train)",
    ),
    (
        "prompt_tokens: 512",
        "prompt_tokens: 8100",
        "4:69: workload.prompt_tokens: every request has 8228 tokens or more",
    ),
    ("prompt_tokens: 512", "prompt_tokens: {kind: uniform, low: 512, high: 9000}", None),
    ("vllm", "vllm, scheduler: vllm_v0, max_num_batched_tokens: 512", None),
    (
        "vllm",
        "vllm, scheduler: vllm_v0, max_num_batched_tokens: 256",
        "4:69: workload.prompt_tokens: every prompt has 512 tokens or more, which vllm_v0 does not cut: all would be "
        "rejected; write max_num_batched_tokens: 512 or more",
    ),
    ("vllm", "vllm, max_num_batched_tokens: 256", None),
    (
        "prompt_tokens: 512",
        "prompt_tokens: {kind: unifrm, low: 1, high: 2}",
        "4:69: workload.prompt_tokens: unknown kind 'unifrm' of length, did you mean 'uniform'?",
    ),
    ("8 req/s", "0 req/s", "4:44: workload.arrivals.rate: '0 req/s' is zero"),
    ("8 req/s", ".inf", "4:44: workload.arrivals.rate: "),
    ("num_requests: 9", "num_requests: 0", "4:108: workload.num_requests: must be at least 1, not 0"),
]


@pytest.mark.parametrize(("old", "new", "expected"), TRAINING_MISTAKES)
def test_a_mistake_in_training_is_one_problem_at_its_place(file: Path, old: str, new: str, expected: str) -> None:
    found = problems(file, replaced(TRAINING, old.replace("unit", "gpu"), new.replace("unit", "gpu")))
    assert len(found) == 1
    assert found[0].startswith(expected)


@pytest.mark.parametrize(("old", "new", "expected"), SERVING_MISTAKES)
def test_a_mistake_in_serving_is_one_problem_at_its_place(
    file: Path, old: str, new: str, expected: str | None
) -> None:
    found = problems(file, replaced(SERVING, old, new))
    assert len(found) == (expected is not None)
    assert not found or found[0].startswith(str(expected))


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [
        ("{strategy: DDP}", None),
        ("{strategy: DDP, dp_degree: 8}", None),
        (
            "{dp_degree: 4}",
            "4:26: parallelism.dp_degree: tp 1 x pp 1 x dp 4 = 4, the cluster has 8 GPUs; dp_degree: 8 would fit",
        ),
        (
            "{dp_degree: 16}",
            "4:26: parallelism.dp_degree: tp 1 x pp 1 x dp 16 = 16, the cluster has 8 GPUs; dp_degree: 8 or num_nodes",
        ),
        (
            "{strategy: None}",
            "4:25: parallelism.strategy: strategy None leaves 8 replicas without a strategy; write strategy: DDP",
        ),
        (
            "{strategy: None, dp_degree: 8}",
            "4:42: parallelism.dp_degree: strategy None has no dp_degree above 1, not 8; write strategy: DDP",
        ),
        ("{strategy: TP, tp_degree: 8}", None),
        ("{strategy: TP_PP, tp_degree: 2, pp_stages: 4}", None),
        ("{strategy: TP_PP_DDP, tp_degree: 2, pp_stages: 2, dp_degree: 2}", None),
        ("{tp_degree: 2, pp_stages: 2}", None),
        (
            "{strategy: TP}",
            "4:25: parallelism.strategy: strategy TP with tp_degree 1 divides nothing; write tp_degree: 2 and "
            "strategy: TP_DDP or strategy: DDP",
        ),
        (
            "{strategy: TP_PP, tp_degree: 8}",
            "4:25: parallelism.strategy: strategy TP_PP with pp_stages 1 divides nothing; write strategy: TP",
        ),
        (
            "{strategy: TP, tp_degree: 4}",
            "4:25: parallelism.strategy: strategy TP leaves 2 replicas without a strategy; write strategy: TP_DDP",
        ),
        (
            "{strategy: DDP, tp_degree: 4}",
            "4:41: parallelism.tp_degree: strategy DDP has no tp_degree above 1, not 4; write strategy: TP_DDP",
        ),
        (
            "{strategy: TP, tp_degree: 4, pp_stages: 2}",
            "4:54: parallelism.pp_stages: strategy TP has no pp_stages above 1, not 2; write strategy: TP_PP",
        ),
        (
            "{tp_degree: 4, cp_degree: 4}",
            "4:40: parallelism.cp_degree: tp 4 x cp 4 x pp 1 = 16 does not divide 8 GPUs; cp_degree: 1 or 2 would fit",
        ),
        (
            "{tp_degree: 2, cp_degree: 2, pp_stages: 2, dp_degree: 2}",
            "4:68: parallelism.dp_degree: tp 2 x cp 2 x pp 2 x dp 2 = 16, the cluster has 8 GPUs; dp_degree: 1 or nu",
        ),
        ("{tp_degree: two}", "4:26: parallelism.tp_degree: a whole number is needed, not 'two'"),
        ("{cp_degree: -2}", "4:26: parallelism.cp_degree: must be above 0, not -2"),
        ("{dp_degree: 0}", "4:26: parallelism.dp_degree: must be above 0, not 0"),
        ("{pp_stages: 1e12}", "4:26: parallelism.pp_stages: must be at most 1000000000, not 1000000000000"),
        ("{tp_degree: true}", "4:26: parallelism.tp_degree: a number is needed, not true"),
        ("{tp_degre: 2}", "4:15: parallelism.tp_degre: unknown key 'tp_degre', did you mean 'tp_degree'?"),
        (
            "{pipeline_model_parallel_size: 2}",
            "4:15: parallelism.pipeline_model_parallel_size: unknown key 'pipeline_model_parallel_size', did you mean "
            "'pp_stages'?",
        ),
        (
            "{order: tp-dp}",
            "4:22: parallelism.order: order names tp, dp and pp, and cp and ep where they matter, once",
        ),
        (
            "{order: tp-dp-pp-dp}",
            "4:22: parallelism.order: order names tp, dp and pp, and cp and ep where they matter",
        ),
        ("{order: [tp, dp, pp]}", "4:22: parallelism.order: text is needed, not a list"),
        ("{expert_skew: 1.5}", "4:28: parallelism.expert_skew: expert_skew has no effect without expert parallelism"),
        (
            "{ep_degree: 2}",
            "4:26: parallelism.ep_degree: GPT2-Medium has no experts to divide; use a mixture",
        ),
        ("{tp_overlap: true}", "4:27: parallelism.tp_overlap: tp_overlap cuts the exchanges of sequence parallelism"),
        (
            "{tp_degree: 2, pp_stages: 3}",
            "4:40: parallelism.pp_stages: tp 2 x pp 3 = 6 does not divide 8 GPUs; pp_stages: 1 or 2 or 4 would fit",
        ),
    ],
)
def test_degrees_of_training(file: Path, parallelism: str, expected: str | None) -> None:
    found = problems(file, f"{TRAINING}parallelism: {parallelism}")
    assert len(found) == (expected is not None)
    assert not found or found[0].startswith(str(expected))


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (
            "XYZ",
            "unknown strategy 'XYZ'; known: CP, DDP, EP, FSDP, HSDP, None, PP, TP, TP_PP, TP_PP_DDP, ZERO1, ZERO2",
        ),
        ("FDSP", "unknown strategy 'FDSP', did you mean 'FSDP'?; parts are joined by '_', as in TP_PP_DDP"),
        ("tp_pp", "unknown strategy 'tp_pp', did you mean 'TP_PP'?"),
        ("TP_None", "unknown strategy 'TP_None'"),
        ("''", "unknown strategy ''; known: "),
        ("5", "text is needed, not 5"),
        ("[TP]", "text is needed, not a list"),
        ("ZERO1_FSDP", "strategy 'ZERO1_FSDP' names more than one kind of data parallelism, or one kind twice"),
        ("ZERO3", "unknown strategy 'ZERO3': ZeRO-3 is FSDP"),
        ("TP_SP", "unknown strategy 'TP_SP': sequence parallelism is not a strategy; write sequence_parallel"),
        ("TP_DP", "unknown strategy 'TP_DP': data parallelism is DDP, ZERO1, ZERO2, FSDP or HSDP"),
        ("TP_XX", "unknown strategy 'TP_XX', did you mean 'TP_PP'?"),
        ("TP_TP", "strategy 'TP_TP' names more than one kind of data parallelism, or one kind twice"),
    ],
)
def test_strategies_that_there_are_not(file: Path, strategy: str, expected: str) -> None:
    (problem,) = problems(file, f"{TRAINING}parallelism: {{strategy: {strategy}}}")
    assert problem.startswith(f"4:25: parallelism.strategy: {expected}")


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [
        ("pp_stages: 8, schedule: gpipe", None),
        ("pp_stages: 8, schedule: zero_bubble", None),
        ("pp_stages: 8, virtual_stages: 3, schedule: interleaved", None),
        ("pp_stages: 4, stage_layers: [5, 6, 6, 7]", None),
        (
            "pp_stages: 8, schedule: interleaved, virtual_stages: 2",
            "4:68: parallelism.virtual_stages: 24 layers cannot be divided among 8 stages x 2 virtual ones; "
            "virtual_stages: 1 or 3 would fit",
        ),
        (
            "pp_stages: 4, schedule: interleaved, virtual_stages: 7",
            "4:68: parallelism.virtual_stages: 24 layers cannot be divided among 4 stages x 7 virtual ones; "
            "virtual_stages: 2 or 3 or 6 would fit",
        ),
        (
            "pp_stages: 4, stage_layers: [6, 6, 12]",
            "4:43: parallelism.stage_layers: stage_layers must be 4 numbers that add up to 24 layers, not [6, 6, 12] ",
        ),
        (
            "pp_stages: 4, stage_layers: [6, 6, 6, 7]",
            "4:43: parallelism.stage_layers: stage_layers must be 4 numbers that add up to 24 layers, not [6, 6, 6, 7]"
            " (sum 25)",
        ),
        (
            "pp_stages: 4, stage_layers: [6, 0, 12, 6]",
            "4:43: parallelism.stage_layers: only the first and the last",
        ),
        (
            "pp_stages: 4, stage_layers: []",
            "4:43: parallelism.stage_layers: stage_layers must be 4 numbers that add up to 24 layers, not [] (sum 0)",
        ),
        ("pp_stages: 4, stage_layers: six", "4:43: parallelism.stage_layers: a list is needed, not 'six'"),
        (
            "pp_stages: 4, stage_layers: [6, 6, 18, -6]",
            "4:54: parallelism.stage_layers[3]: must be at least 0",
        ),
        ("stage_layers: [24]", "4:29: parallelism.stage_layers: stage_layers needs pp_stages above 1"),
        ("virtual_stages: 2", "4:31: parallelism.virtual_stages: virtual_stages needs pp_stages above 1"),
        (
            "pp_stages: 4, virtual_stages: 2",
            "4:45: parallelism.virtual_stages: OneForwardOneBackward has one chunk of layers per stage, not 2 virtual "
            "stages; use interleaved",
        ),
        ("pp_stages: 4, schedule: gpip", "4:39: parallelism.schedule: unknown Schedule module 'gpip', did you mean"),
        ("schedule: gpip", "4:25: parallelism.schedule: unknown Schedule module 'gpip', did you mean 'gpipe'?"),
        ("schedule: ddp", "4:25: parallelism.schedule: unknown Schedule module 'ddp'; known: 1f1b, dualpipe, gpipe"),
        ("schedule: 'no.such:Thing'", "4:25: parallelism.schedule: no framework module at 'no.such:Thing'"),
        ("schedule: 'frameworks.ddp:DDP'", "4:25: parallelism.schedule: framework module 'frameworks.ddp:DDP' is not"),
    ],
)
def test_pipelines(file: Path, parallelism: str, expected: str | None) -> None:
    text = replaced(TRAINING, "gpu: 8}", "gpu: 8, gradient_accumulation_steps: 16}")
    found = problems(file, f"{text}parallelism: {{{parallelism}}}")
    assert len(found) == (expected is not None)
    assert not found or found[0].startswith(str(expected))


def test_layers_of_each_stage_are_proposed_where_no_other_number_of_stages_divides_a_prime(file: Path) -> None:
    given = """
hardware: {profile: dgx-h100, num_nodes: 2}
model: {name: Llama3-8B, num_layers: 31, sequence_length: 2048}
parallelism: {strategy: PP, pp_stages: 16}
training: {batch_size_per_gpu: 1, gradient_accumulation_steps: 16}
"""
    (problem,) = problems(file, given)
    assert "31 layers cannot be divided among 16 stages; stage_layers: [2, 2, 2," in problem


def test_interleaving_goes_in_rounds_of_as_many_micro_batches_as_stages(file: Path) -> None:
    text = replaced(TRAINING, "gpu: 8}", "gpu: 8, gradient_accumulation_steps: 6}")
    settings = "parallelism: {pp_stages: 4, virtual_stages: 2, schedule: interleaved}"
    (problem,) = problems(file, text + settings)
    assert problem.endswith(
        "virtual_stages: interleaving needs micro-batches in multiples of 4 stages, not 6; "
        "gradient_accumulation_steps: 4 or 8 would fit"
    )
    assert problems(file, text + settings, "training.gradient_accumulation_steps=8") == []


def test_an_order_of_passes_that_no_memory_holds_is_refused_before_it_is_made(file: Path) -> None:
    text = replaced(TRAINING, "gpu: 8}", "gpu: 8, gradient_accumulation_steps: 100000}")
    found = problems(file, f"{text}parallelism: {{pp_stages: 4, virtual_stages: 6, schedule: interleaved}}")
    assert found[0].startswith("4:45: parallelism.virtual_stages: 2,400,000 passes in an iteration")
    assert found[0].endswith("are too many to simulate; at most 2,000,000")


def test_a_schedule_is_not_asked_for_a_thousand_million_numbers(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse(schedule: object, given: object, steps: int) -> str:
        asked.append(steps)
        return "no"

    monkeypatch.setattr("simsys.build.rules.stages._schedule_problem", refuse)
    text = replaced(TRAINING, "gpu: 8}", "gpu: 8, gradient_accumulation_steps: 4}")
    assert problems(file, f"{text}parallelism: {{pp_stages: 100000}}")
    assert len(asked) < 2000


def test_more_stages_than_layers(file: Path) -> None:
    text = replaced(TRAINING, "gpu: H100, gpus_per_node: 8", "profile: dgx-h100, num_nodes: 4")
    (problem,) = problems(file, f"{text}parallelism: {{pp_stages: 32}}")
    # Of what divides the layers, what divides the 32 GPUs too.
    assert problem == (
        "4:26: parallelism.pp_stages: 24 layers cannot be divided among 32 stages; pp_stages: 2 or 4 or 8 would fit"
    )


def test_stages_that_divide_neither_layers_nor_gpus_are_told_apart(file: Path) -> None:
    text = replaced(TRAINING, "gpu: H100, gpus_per_node: 8", "gpu: H100, gpus_per_node: 5, num_nodes: 4")
    (problem,) = problems(file, f"{text}parallelism: {{pp_stages: 5}}")
    assert problem == (
        "4:26: parallelism.pp_stages: 24 layers cannot be divided among 5 stages; pp_stages: 2 or 4 or "
        "stage_layers: [5, 5, 5, 5, 4] would fit"
    )


def test_a_chosen_module_may_leave_the_ranks_alone(file: Path) -> None:
    text = replaced(TRAINING, "gpu: 8}", "gpu: 8, data_parallel: none}")
    assert problems(file, f"{text}parallelism: {{strategy: None}}") == []


@pytest.mark.parametrize(
    ("model", "parallelism", "expected"),
    [
        ("Llama3-8B", "{strategy: TP, tp_degree: 8}", []),
        ("Llama3-8B", "{tp_degree: 2, dp_degree: 4}", []),
        ("Llama3-8B", "{strategy: None}", []),
        ("Qwen2.5-7B", "{tp_degree: 2}", []),
        ("Llama3-8B", "{strategy: TP}", ["5:25: parallelism.strategy: strategy TP with tp_degree 1 divides nothing"]),
        (
            "Llama3-8B",
            "{strategy: None, tp_degree: 8}",
            ["5:42: parallelism.tp_degree: strategy None has no tp_degree above 1, not 8; write strategy: TP"],
        ),
        (
            "Llama3-8B",
            "{tp_degree: 16}",
            ["5:26: parallelism.tp_degree: 8 GPUs cannot be divided into groups of tp_degree 16;"],
        ),
        (
            "Llama3-8B",
            "{tp_degree: 4, dp_degree: 4}",
            ["5:40: parallelism.dp_degree: tp 4 x pp 1 x dp 4 = 16, the cluster has 8 GPUs; dp_degree: 2"],
        ),
        (
            "Llama3-8B",
            "{tp_degree: 2, dp_degree: 1}",
            ["5:40: parallelism.dp_degree: tp 2 x pp 1 x dp 1 = 2, the cluster has 8 GPUs; dp_degree: 4"],
        ),
        (
            "GPT2-XL",
            "{tp_degree: 2}",
            ["5:26: parallelism.tp_degree: GPT2-XL has 25 attention heads, which tp_degree 2 does not divide; tp"],
        ),
        (
            "Qwen2.5-7B",
            "{tp_degree: 7}",
            [
                "5:26: parallelism.tp_degree: 8 GPUs cannot be divided",
                "5:26: parallelism.tp_degree: Qwen2.5-7B has 4 key-value heads",
            ],
        ),
        ("Llama3-8B", "{tp_degree: 2, pp_stages: 2}", []),
        (
            "Llama3-8B",
            "{pp_stages: 64}",
            [
                "5:26: parallelism.pp_stages: tp 1 x pp 64 = 64 does not divide 8 GPUs",
                "5:26: parallelism.pp_stages: 32 layers cannot be divided among 64 stages; pp_stages: 2 or 4 or 8",
            ],
        ),
    ],
)
def test_degrees_of_serving(file: Path, model: str, parallelism: str, expected: list[str]) -> None:
    found = problems(file, f"{replaced(SERVING, 'Llama3-8B', model)}parallelism: {parallelism}")
    assert len(found) == len(expected)
    for one, start in zip(found, expected, strict=True):
        assert one.startswith(start)


def test_a_network_without_heads_cannot_be_divided(file: Path) -> None:
    text = replaced(TRAINING, "GPT2-Medium", "ResNet-50") + "parallelism: {tp_degree: 8}"
    assert any("ResNet-50 has no attention heads" in problem for problem in problems(file, text))


@pytest.mark.parametrize(
    ("text", "gpu", "setting", "expected"),
    [
        (
            SERVING,
            "dgx-a100",
            "serving.precision=fp8",
            "A100-SXM-80GB does not compute in fp8; it has bf16, fp16, fp32",
        ),
        (
            SERVING,
            "dgx-v100",
            "serving.max_num_seqs=64",
            "V100-SXM-32GB does not compute in bf16; it has fp16, fp32; write precision: fp16",
        ),
        (SERVING, "dgx-v100", "serving.precision=fp16", ""),
        (
            TRAINING,
            "V100",
            "training.precision=bf16",
            "V100-SXM-32GB does not compute in bf16; it has fp16, fp32; write precision: fp16",
        ),
        (
            TRAINING,
            "A100",
            "training.precision=fp8",
            "A100-SXM-80GB does not compute in fp8; it has bf16, fp16, fp32, tf32; write precision: bf16",
        ),
        (TRAINING, "H100", "training.precision=fp8", ""),
        (TRAINING, "V100", "training.batch_size_per_gpu=1", ""),
        (TRAINING, "V100", "training.mixed_precision=false", ""),
    ],
)
def test_the_gpu_has_the_precision(file: Path, text: str, gpu: str, setting: str, expected: str) -> None:
    found = problems(
        file,
        text.replace("dgx-h100", gpu).replace("H100", gpu),
        setting,
        "training.batch_size_per_gpu=1" if text is TRAINING else setting,
    )
    assert len(found) == bool(expected)
    assert not found or expected in found[0]


TRACED = """\
hardware: {gpu: H100-SXM}
model: {name: Llama3-8B}
serving: {}
workload:
  trace: {path: trace.csv}
  num_requests: 2
  arrivals: {kind: trace}
  prompt_tokens: {kind: trace}
  output_tokens: {kind: trace}
"""
HEADER, ROW = "TIMESTAMP,ContextTokens,GeneratedTokens\n", "2023-11-16 18:17:03.9799600,512,10\n"


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        (HEADER + 2 * ROW, ""),
        (None, "5:17: workload.trace.path: "),
        (HEADER + ROW, "6:17: workload.num_requests: "),
        (HEADER + ROW + "soon,1,1\n", "6:17: workload.num_requests: "),
        (HEADER + "soon,1,1\n", "5:17: workload.trace.path: "),
        ("a,b\n", "5:17: workload.trace.path: "),
        (HEADER + 2 * ROW.replace("512", "9000"), "8:18: workload.prompt_tokens: every request has 9010 tokens"),
    ],
)
def test_the_trace_is_read(file: Path, trace: str | None, expected: str) -> None:
    if trace is not None:
        (file.parent / "trace.csv").write_text(trace)
    found = problems(file, TRACED)
    assert len(found) == bool(expected)
    assert not found or found[0].startswith(expected)


DRAWN = """\
hardware: {gpu: H100-SXM}
model: {name: Llama3-8B}
serving: {}
workload:
  num_requests: 20
  arrivals: {kind: poisson, rate: 0.001 req/s}
  prompt_tokens: %s
  output_tokens: 10
"""


@pytest.mark.parametrize(
    ("prompt_tokens", "expected"),
    [
        ("{kind: empirical, file: lengths.csv, column: tokens}", ""),
        ("{kind: empirical, file: other.csv, column: tokens}", "7:42: workload.prompt_tokens.file: "),
        ("{kind: empirical, file: lengths.csv, column: token}", "7:42: workload.prompt_tokens.file: "),
        ("{kind: empirical, values: [9000, 9500]}", "7:18: workload.prompt_tokens: every request has 9010 tokens"),
        ("{kind: zipf, exponent: 1, min: 9000, max: 9500}", "7:18: workload.prompt_tokens: every request has 9010"),
        ("8190\n  prefixes: {tokens: 5}", "7:18: workload.prompt_tokens: every request has 8205 tokens"),
        ("9\n  duration: 1 ms", "8:13: workload.duration: no request arrives within 1 ms"),
    ],
)
def test_what_is_drawn_is_checked(file: Path, prompt_tokens: str, expected: str) -> None:
    (file.parent / "lengths.csv").write_text("tokens\n5\n7\n")
    found = problems(file, DRAWN % prompt_tokens)
    assert len(found) == bool(expected), found
    assert not found or found[0].startswith(expected)


def test_a_rate_that_takes_ages_is_a_slip_of_the_keyboard(file: Path) -> None:
    assert problems(file, DRAWN.replace("0.001", "1e-8") % "9") == []
    (found,) = problems(file, DRAWN.replace("0.001", "1e-12") % "9")
    assert found.startswith("6:35: workload.arrivals.rate: 20 requests arrive for 2e+13 s")
    assert "write 2e-09 req/s or more" in found


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the file is empty"),
        (b"# only a comment\n", "the file is empty"),
        (b"\x7fELF\x00\x01", "this is a binary file"),
        (b"name: \xff\xfe", "this is not UTF-8 text"),
        (b"#" * (MAX_BYTES + 1), "the file is larger than 4 MiB"),
        (b"- a\n- b\n", "the file must hold a mapping"),
        (b"name: [1, 2\n", "not valid YAML"),
    ],
)
def test_files_that_are_no_experiments(file: Path, content: bytes, expected: str) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        check_file(file)
    assert len(error.value.problems) == 1
    assert expected in str(error.value)


MANY = """\
defaults:
  hardware: {gpu: H100-SXM}
  serving: {engine: vlm}
  workload: {arrivals: {kind: all_at_once}, prompt_tokens: 5, output_tokens: 5, num_requests: 5}
scenarios:
  - name: schema
    model: {name: Llama3-8B}
    slo: {ttft: 5}
  - name: meaning
    model: {name: Llama4-8B}
  - name: again
    model: {name: Llama3-8B}
"""


def test_the_problems_of_all_scenarios_come_together_in_file_order(file: Path) -> None:
    found = problems(file, MANY)
    assert [problem.partition(": ")[0] for problem in found] == ["3:21", "8:17", "10:19"]


def test_a_problem_shows_its_line_and_a_caret(file: Path) -> None:
    file.write_text(TRAINING.replace("H100", "H1000"))
    with pytest.raises(ConfigError) as error:
        check_file(file)
    message, source, caret = str(error.value).split("\n")
    assert message == f"{file}:1:17: hardware.gpu: unknown gpu profile 'H1000', did you mean 'H100'?"
    assert source[caret.index("^") :].startswith("H1000")


def test_a_setting_of_the_command_line_is_named(file: Path) -> None:
    (found,) = problems(file, SERVING, "parallelism.tp_degree=3", "parallelism.dp_degree=1")[:1]
    assert found.startswith("--set parallelism.")
    with pytest.raises(UsageError, match="write a path"):
        problems(file, SERVING, "parallelism")


BIG = replaced(TRAINING, "batch_size_per_gpu: 8", "batch_size_per_gpu: 4096")


def test_what_does_not_fit_is_another_error(file: Path) -> None:
    file.write_text(BIG)
    with pytest.raises(InfeasibleConfigError) as error:
        check_file(file)
    assert error.value.exit_code == 3
    (problem,) = error.value.problems
    assert (problem.path, problem.line, problem.column) == ("training.batch_size_per_gpu", 3, 32)
    assert "GPT2-Medium does not fit into H100-SXM" in problem.message
    smaller = "training.batch_size_per_gpu: 32 and training.gradient_accumulation_steps: 128 would fit (saves 5,890"
    assert smaller in problem.message


def test_memory_may_be_left_out(file: Path) -> None:
    file.write_text(BIG)
    (built,) = check_file(file, memory=False)
    assert built.config.training is not None
    assert built.config.training.batch_size_per_gpu == 4096


def test_an_error_beside_it_makes_it_an_error(file: Path) -> None:
    big, wrong = (f"- {text.strip()}".replace("\n", "\n  ") for text in (f"name: a\n{BIG}", "name: b\nmodel: {}"))
    file.write_text(f"scenarios:\n{big}\n{wrong}\n")
    with pytest.raises(ConfigError) as error:
        check_file(file)
    assert error.value.problems[0].path == "training.batch_size_per_gpu"
    assert len(error.value.problems) > 1


def test_a_scenario_made_in_python_is_checked_too() -> None:
    config = SimulationConfig(
        hardware=HardwareConfig(gpu="H1000"),
        model=ModelConfig(name="GPT2-Small"),
        training=TrainingConfig(batch_size_per_gpu=1),
    )
    assert [str(problem) for problem in check_config(config)] == [
        "hardware.gpu: unknown gpu profile 'H1000', did you mean 'H100'?"
    ]


def test_the_first_designs_file_means_what_it_says(file: Path) -> None:
    file.write_text(FIRST_DESIGN)
    (built,) = check_file(file, ["training.num_iterations=2"])
    config, job = built.config, built.jobs[0]
    spec = job.cluster.spec
    assert (spec.peak_flop_per_s["bf16"], spec.peak_flop_per_s["fp16"], spec.memory_bytes) == (989e12, 989e12, 80e9)
    assert (job.cluster.num_nodes, job.cluster.gpus_per_node, job.layout.data) == (16, 8, 128)
    assert config.network == NetworkConfig(topology_type="torus_2d", base_latency="5 us")
    fabric = [link for link in job.cluster.topology.links if link.kind == "torus_2d"]
    assert len(fabric) == 16 * 4
    assert {(link.bytes_per_s, link.latency_s) for link in fabric} == {(200e9, 5e-6)}
    assert (job.model.num_layers, job.model.hidden_size, job.model.num_attention_heads) == (48, 2048, 32)
    metrics = DistributedAISimulator(config).run().metrics
    assert metrics["iterations"] == 2
    # Every gradient (4 bytes) crosses the slowest link of the ring twice, less one share.
    least_s = 2 * (127 / 128) * 4 * job.model.parameters / 200e9
    assert metrics["communication_s"] > least_s


def test_the_gpu_of_the_first_design_takes_further_settings(file: Path) -> None:
    assert problems(file, FIRST_DESIGN, "hardware.gpu.price=2 $/h") == []
    (text,) = problems(file, FIRST_DESIGN, "hardware.gpu.memory=1 TB")
    assert "memory_gb is another name of gpu.memory; give one of them" in text


def test_the_first_designs_classes_construct() -> None:
    config = SimulationConfig(
        name="custom_experiment",
        hardware=HardwareConfig(gpu_model="H100", compute_tflops=989.0, memory_gb=80.0, network_bandwidth_gbps=200.0),
        model=ModelConfig(model_type="transformer", num_layers=32, hidden_size=4096),
        training=TrainingConfig(batch_size_per_gpu=8, num_iterations=100, num_nodes=8),
    )
    assert config.hardware.num_nodes == 8
    (problem,) = check_config(config)  # 6.65 billion parameters at 16 bytes each are more than 80 GB
    assert "does not fit into H100-SXM" in problem.message
    assert "optimizer 49.6 GiB" in problem.message
    assert problem.path == "model.model_type"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FIRST_DESIGN.replace("gpu_model:", "gpu: A100\n  gpu_model:"), "gpu_model is another name of gpu; give one"),
        (
            FIRST_DESIGN.replace("num_gpus_per", "gpus_per_node: 8\n  num_gpus_per"),
            "num_gpus_per_node is another name of gpus_per_node",
        ),
        (
            FIRST_DESIGN.replace("base_lat", "base_latency: 5 us\n  base_lat"),
            "base_latency_us is another name of base_latency",
        ),
        (
            FIRST_DESIGN.replace("network_b", "network_bandwidth: 1 GB/s\n  network_b"),
            "network_bandwidth_gbps is another name of network_bandwidth",
        ),
        (
            FIRST_DESIGN.replace("gpu_model", "num_nodes: 8\n  gpu_model"),
            "training.num_nodes (16) and hardware.num_nodes (8) differ",
        ),
        (
            FIRST_DESIGN.replace('gpu_model: "H100"', "profile: dgx-h100"),
            "compute_tflops and memory_gb change a named GPU",
        ),
        (FIRST_DESIGN.replace("80.0", "80 GB"), "a number is expected here (in GB), not '80 GB'"),
    ],
)
def test_an_alias_beside_its_key_is_refused(file: Path, text: str, expected: str) -> None:
    (found,) = problems(file, text)
    assert expected in found


@pytest.mark.parametrize(
    ("text", "parallelism", "expected"),
    [
        (TRAINING, "tp_degree: 4, sequence_parallel: true", None),
        (TRAINING, "sequence_parallel: true", "sequence_parallel needs a tp_degree above 1; write tp_degree: 2"),
        (
            replaced(TRAINING, "GPT2-Medium", "GPT2-Medium, sequence_length: 511"),
            "tp_degree: 4, sequence_parallel: true",
            "sequence parallelism divides sequences among tp_degree 4 ranks, not 511 tokens; "
            "sequence_length: 508 or 512 would fit",
        ),
        (
            replaced(TRAINING, "GPT2-Medium", "T5-Large, decoder_sequence_length: 114"),
            "tp_degree: 4, sequence_parallel: true",
            "sequence parallelism divides sequences among tp_degree 4 ranks, not 114 tokens; "
            "decoder_sequence_length: 112 or 116 would fit",
        ),
        (SERVING, "tp_degree: 4, sequence_parallel: true", None),
        (SERVING, "sequence_parallel: true", "sequence_parallel has no effect with tp_degree 1; remove it"),
    ],
    ids=["fits", "alone", "length", "decoder length", "serving", "serving alone"],
)
def test_sequence_parallelism(file: Path, text: str, parallelism: str, expected: str | None) -> None:
    found = problems(file, f"{text}parallelism: {{{parallelism}}}")
    assert len(found) == (expected is not None)
    assert not found or f": parallelism.sequence_parallel: {expected}" in found[0]


@pytest.mark.parametrize(
    ("model", "context", "expected"),
    [
        ("GPT2-Medium", 6, "12 parts, not 1024 tokens; cp_degree: 2 or sequence_length: 1020 would fit"),
        ("GPT2-Medium, sequence_length: 511", 2, "4 parts, not 511 tokens; sequence_length: 508 or 512 would fit"),
        (
            "T5-Large, decoder_sequence_length: 113",
            2,
            "4 parts, not 113 tokens; decoder_sequence_length: 112 or 116 would fit",
        ),
        ("GPT2-Medium, sequence_length: 3", 600, "1200 parts, not 3 tokens; cp_degree: 1 would fit"),
    ],
)
def test_sequences_that_cannot_be_divided(file: Path, model: str, context: int, expected: str) -> None:
    nodes = replaced(TRAINING, "gpu: H100, gpus_per_node: 8", f"gpu: H100, gpus_per_node: 1, num_nodes: {context}")
    text = replaced(nodes, "GPT2-Medium", model)
    (problem,) = problems(file, f"{text}parallelism: {{cp_degree: {context}}}")
    start = "4:26: parallelism.cp_degree: context parallelism divides sequences into 2 x cp_degree = "
    assert problem == start + expected


def test_a_schedule_that_no_number_of_micro_batches_helps_gets_no_advice_on_them(file: Path) -> None:
    (problem,) = problems(file, f"{TRAINING}parallelism: {{pp_stages: 4, virtual_stages: 2}}")
    assert problem.endswith("use interleaved")


@pytest.mark.parametrize(
    "mistake",
    [
        "{tp_degree: 4, pp_stages: 2, dp_degree: 2}",
        "{pp_stages: 4, virtual_stages: 7, schedule: interleaved}",
        "{strategy: TP+DDP}",
        "{order: tp-dp}",
        "{cp_degree: 3}",
        "{ep_degree: -1}",
        "[tp_degree]",
    ],
)
def test_check_and_run_say_the_same_and_write_nothing(file: Path, mistake: str) -> None:
    file.write_text(f"{TRAINING}parallelism: {mistake}\n", encoding="utf-8")
    results = file.parent / "results"
    checked, run = (
        CliRunner().invoke(cli, [command, str(file), *more])
        for command, more in (("check", []), ("run", ["--out", str(results)]))
    )
    assert checked.exit_code == run.exit_code == 2
    assert checked.output == run.output
    assert f"{file}:4:" in checked.output
    assert "Traceback" not in checked.output
    assert not results.exists()


@pytest.mark.parametrize("path", ["x" * 5000, "~nobody_of_that_name/x"])
@pytest.mark.parametrize(
    "settings",
    [
        {"model.huggingface": "{}"},
        {"hardware.profile_folder": "{}"},
        {"network.topology_type": "custom", "network.edges_file": "{}"},
    ],
)
def test_a_path_that_no_system_has_is_an_error_of_the_file(file: Path, path: str, settings: dict[str, str]) -> None:
    text = TRAINING.replace("name: GPT2-Medium", "") if "model.huggingface" in settings else TRAINING
    found = problems(file, text, *(f"{key}={value.format(path)}" for key, value in settings.items()))
    assert len(found) == 1


def test_prompts_that_share_too_many_blocks_are_refused_at_their_line(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "MAX_BLOCKS", 10)
    workload = (
        "workload: {arrivals: {kind: poisson, rate: 9 req/s}, prompt_tokens: 9, output_tokens: 9, num_requests: 9,"
    )
    scenario = "hardware: {gpu: H100-SXM}\nmodel: {name: GPT2-Medium}\nserving: {}\n"
    (found,) = problems(file, f"{scenario}{workload}\n  prefixes: {{tokens: 320}}}}\n")
    assert found.startswith("5:13: workload.prefixes: prompts that may be shared have 20 blocks in all, at most 10")


def test_a_think_time_that_exceeds_the_clock_is_reported_at_its_line(file: Path) -> None:
    chat = replaced(SERVING, "num_requests: 9}", "num_requests: 9,\n  sessions: {turns: 3, think_time: 1e15 s}}")
    (problem,) = problems(file, chat)
    assert problem.startswith("5:36: workload.sessions.think_time: ")
    assert "conversations last for 2e+15 s, at most 1e+10 s" in problem


MANY_REQUESTS = {
    "num_requests: 9000000": "ok",
    "duration: 2 d": "ok",
    "num_requests: 9000000, sessions: {turns: 3}": "workload: num_requests must be at most 2,000,000 with",
    "num_requests: 9000000, prefixes: {tokens: 100}": "workload: num_requests must be at most 2,000,000 with",
    "duration: 2 d, prefixes: {tokens: 100}": "workload.duration: 2000000 requests or more arrive within 2 d",
    "duration: 10 s, sessions: {turns: 1000000000}": "workload.sessions.turns: conversations have",
    "duration: 400 d": "workload.duration: 10000000 requests or more arrive within 400 d",
}


@pytest.mark.parametrize("settings", MANY_REQUESTS)
def test_a_check_draws_no_more_requests_than_it_needs(
    file: Path, monkeypatch: pytest.MonkeyPatch, settings: str
) -> None:
    """Millions of requests of any kind are accepted without drawing them, or are refused at their line."""
    made: list[int] = []
    monkeypatch.setattr("simsys.build.workload.RequestTable", lambda starts, *_, **__: made.append(len(starts)))
    head = "hardware: {gpu: H100-SXM}\nmodel: {name: GPT2-Medium}\nserving: {}\n"
    workload = f"{{arrivals: {{kind: poisson, rate: 20 req/s}}, prompt_tokens: 9, output_tokens: 9, {settings}}}"
    found = problems(file, f"{head}workload: {workload}\n")
    if MANY_REQUESTS[settings] == "ok":
        assert found == []
    else:
        assert found[0].startswith("4:")
        assert MANY_REQUESTS[settings] in found[0]
    assert not made
