from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.config.architectures import listed_architectures
from simsys.errors import UsageError
from simsys.model.batch import Batch, attention_pairs
from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind
from simsys.model.transformer import TransformerArchitecture, build_transformer, gpt_architecture
from simsys.model.work import Precision, Work, backward_work, forward_work

BY_NAME = {architecture.name: architecture for architecture in listed_architectures()}
MEGATRON = [name for name in BY_NAME if name.startswith("Megatron")]


def model_of(name: str) -> Model:
    return build_transformer(BY_NAME[name])


def operators_of(model: Model) -> list[Operator]:
    return [operator for block in model.blocks for operator in block.operators]


def work_of(model: Model, batch: Batch) -> Work:
    return forward_work(operators_of(model), batch, Precision())


def kept_scores(layer: Block) -> float:
    """Elements of scores that a layer keeps for each query-key pair."""
    return sum(operator.kept_elements_per_pair for operator in layer.operators)


@pytest.mark.parametrize(
    ("name", "total", "active", "kv_bytes"),
    [  # weights of the published checkpoints; KV cache in bytes a token, bf16
        ("GPT2-Small", 124_439_808, 124_439_808, 36_864),
        ("GPT2-Medium", 354_823_168, 354_823_168, 98_304),
        ("GPT2-Large", 774_030_080, 774_030_080, 184_320),
        ("GPT2-XL", 1_557_611_200, 1_557_611_200, 307_200),
        ("BERT-Base", 109_482_240, 109_482_240, 0),
        ("BERT-Large", 335_141_888, 335_141_888, 0),
        ("Llama-2-7B", 6_738_415_616, 6_738_415_616, 524_288),
        ("Llama-2-13B", 13_015_864_320, 13_015_864_320, 819_200),
        ("Llama-2-70B", 68_976_648_192, 68_976_648_192, 327_680),
        ("Llama3-8B", 8_030_261_248, 8_030_261_248, 131_072),
        ("Llama3-70B", 70_553_706_496, 70_553_706_496, 327_680),
        ("Llama-3.1-405B", 405_853_388_800, 405_853_388_800, 516_096),
        ("Mistral-7B", 7_241_732_096, 7_241_732_096, 131_072),
        ("Qwen2.5-7B", 7_615_616_512, 7_615_616_512, 57_344),
        ("Qwen3-8B", 8_190_735_360, 8_190_735_360, 147_456),
        ("Qwen3-32B", 32_762_123_264, 32_762_123_264, 262_144),
        ("Mixtral-8x7B", 46_702_792_704, 12_879_925_248, 131_072),
        ("Mixtral-8x22B", 140_620_634_112, 39_151_294_464, 229_376),
        ("Qwen3-30B-A3B", 30_532_122_624, 3_352_861_696, 98_304),
        ("Qwen3-235B-A22B", 235_093_634_560, 22_190_884_864, 192_512),
        ("DeepSeek-V3", 671_026_404_352, 37_552_000_000, 70_272),
        ("DeepSeek-V3.2", 671_877_944_064, 38_404_000_000, 85_888),
        ("DeepSeek-V2-Lite", 15_706_484_224, 2_660_000_000, 31_104),
        ("Qwen3-Coder-480B-A35B", 480_154_875_392, 35_474_039_352, 253_952),
        ("GLM-4.5-Air", 106_852_251_264, 13_424_000_000, 188_416),
        # language models alone, without 871,932,416 for images
        ("Llama-4-Scout", 108_641_793_536 - 871_932_416, 17_172_894_720, 49_152),
        ("Llama-4-Maverick", 401_583_781_376 - 871_932_416, 17_184_691_200, 49_152),
        ("Gemma-3-4B", 3_880_263_168, 3_880_263_168, 20_480),
        ("Gemma-3-12B", 11_766_034_176, 11_766_034_176, 65_536),
        ("Gemma-3-27B", 27_009_346_304, 27_009_346_304, 81_920),
        ("Gemma-2-9B", 9_241_705_984, 9_241_705_984, 172_032),
        ("Gemma-2-27B", 27_227_128_320, 27_227_128_320, 188_416),
        ("Llama-3.2-1B", 1_235_814_400, 1_235_814_400, 32_768),
        ("Llama-3.2-3B", 3_212_749_824, 3_212_749_824, 114_688),
        ("CodeLlama-34B", 33_743_970_304, 33_743_970_304, 196_608),
        ("Mistral-Nemo-12B", 12_247_782_400, 12_247_782_400, 163_840),
        ("Mistral-Small-24B", 23_572_403_200, 23_572_403_200, 163_840),
        ("Mistral-Large-123B", 122_610_069_504, 122_610_069_504, 360_448),
        ("Yi-34B", 34_388_917_248, 34_388_917_248, 245_760),
        ("Phi-3-mini", 3_821_079_552, 3_821_079_552, 393_216),
        ("Phi-4", 14_659_507_200, 14_659_507_200, 204_800),
        ("Qwen2.5-0.5B", 494_032_768, 494_032_768, 12_288),
        ("Qwen2.5-1.5B", 1_543_714_304, 1_543_714_304, 28_672),
        ("Qwen2.5-3B", 3_085_938_688, 3_085_938_688, 36_864),
        ("Qwen2.5-14B", 14_770_033_664, 14_770_033_664, 196_608),
        ("Qwen2.5-32B", 32_763_876_352, 32_763_876_352, 262_144),
        ("Qwen2.5-72B", 72_706_203_648, 72_706_203_648, 327_680),
        ("Qwen3-0.6B", 596_049_920, 596_049_920, 114_688),
        ("Qwen3-1.7B", 1_720_574_976, 1_720_574_976, 114_688),
        ("Qwen3-4B", 4_022_468_096, 4_022_468_096, 147_456),
        ("Qwen3-14B", 14_768_307_200, 14_768_307_200, 163_840),
        ("GPT-NeoX-20B", 20_554_567_680, 20_554_567_680, 1_081_344),
        ("Pythia-6.9B", 6_857_302_016, 6_857_302_016, 524_288),
        # with the embedding that the files hold twice, which is stored once
        ("Falcon-7B", 7_217_189_760 - 65_024 * 4544, 6_921_716_160, 8_192),
        # without 32 relative positions and two unused learned ones (of each side)
        ("T5-Large", 737_668_096 - 2 * 32 * 16, 737_668_096, 0),
        ("T5-11B", 11_307_321_344 - 2 * 32 * 128, 11_307_321_344, 0),
        ("BART-Large", 406_291_456 - 2 * 2 * 1024, 406_291_456, 0),
    ],
)
def test_parameters_and_kv_cache_are_those_published(name, total, active, kv_bytes):
    model = model_of(name)
    assert model.parameters == pytest.approx(total, rel=1e-6)
    assert model.active_parameters == pytest.approx(active, rel=1e-3)
    assert model.kv_elements_per_token * 2 == kv_bytes


@pytest.mark.parametrize(("name", "billions"), list(zip(MEGATRON, (22, 175, 530, 1000), strict=True)))
def test_parameters_of_korthikanti_table_3(name, billions):
    assert model_of(name).parameters == pytest.approx(billions * 1e9, rel=0.01)


@pytest.mark.parametrize("name", [*MEGATRON, "GPT-3-175B", "GPT2-Medium"])
def test_training_flop_are_those_of_narayanan_2021(name):
    """72·B·s·l·h²·(1 + s/6h + V/12lh) for forward and backward, all query-key pairs counted."""
    a = BY_NAME[name]
    s, layers, h = a.max_context_tokens, a.num_layers, a.hidden_size
    batch = Batch(tokens=4 * s, logits=4 * s, attention_pairs=4 * attention_pairs(s, causal=False))
    formula = 72 * 4 * s * layers * h**2 * (1 + s / (6 * h) + a.vocab_size / (12 * layers * h))
    forward = work_of(build_transformer(a), batch)
    assert forward.flop + backward_work(forward).flop == pytest.approx(formula, rel=1e-3)


@pytest.mark.parametrize("name", ["Llama3-8B", "Llama-3.1-405B", "Mixtral-8x7B", "Qwen3-30B-A3B", "DeepSeek-V3"])
def test_flop_per_token_are_twice_the_active_parameters_and_attention(name):
    a, model = BY_NAME[name], model_of(name)
    pairs = 1000.0
    flop = work_of(model, Batch(tokens=1, logits=1, attention_pairs=pairs)).flop
    width = a.qk_nope_head_size + a.qk_rope_head_size + a.v_head_size if a.latent else 2 * a.head_size
    attention = 2 * a.num_attention_heads * width * a.num_layers * pairs
    matrices = model.active_parameters - a.vocab_size * a.hidden_size
    assert flop == pytest.approx(2 * matrices + attention, rel=1e-3)


@pytest.mark.parametrize("name", [n for n in BY_NAME if n.startswith(("GPT2", "GPT-3", "Megatron", "BERT"))])
def test_activations_of_a_gpt_layer_are_34_bytes_of_which_10_stay_whole(name):
    """Korthikanti et al. 2022: s·b·h·(34 + 5·a·s/h) bytes; with tensor parallelism t, 10 + 24/t."""
    a, layer = BY_NAME[name], model_of(name).blocks[1]
    assert 2 * layer.activation_elements_per_token == 34 * a.hidden_size
    assert 2 * layer.replicated_activation_elements_per_token == 10 * a.hidden_size
    assert 2 * kept_scores(layer) == 5 * a.num_attention_heads


def test_activations_of_a_llama_layer_are_its_tensors():
    # norm and projection inputs 4 × 4096; queries and output 2 × 4096; keys and values 2 × 1024; gated MLP 3 × 14336
    layer = model_of("Llama3-8B").blocks[1]
    assert layer.activation_elements_per_token == 6 * 4096 + 2 * 1024 + 3 * 14336
    assert kept_scores(layer) == 32


def test_equal_layers_are_one_object_and_kinds_of_layer_are_named():
    names = [block.name for block in model_of("DeepSeek-V3").blocks]
    assert names == ["embedding", *["dense_layer"] * 3, *["moe_layer"] * 58, "head"]
    blocks = model_of("Llama3-8B").blocks
    assert [block.name for block in blocks] == ["embedding", *["layer"] * 32, "head"]
    assert len({id(block) for block in blocks}) == 3


def test_operators_of_a_layer_stand_in_order():
    names = [operator.name for operator in model_of("Llama3-8B").blocks[1].operators]
    attention = ["attention_norm", "qkv", "attention", "decode_attention", "attention_output"]
    assert names == [*attention, "mlp_norm", "gate_up", "activation", "down"]
    mixture = [operator.name for operator in model_of("Mixtral-8x7B").blocks[1].operators]
    assert mixture[6:] == ["router", "experts_permutation", "experts_gate_up", "experts_activation", "experts_down"]


@pytest.mark.parametrize("name", list(BY_NAME))
def test_operator_names_are_unique_in_a_block_and_a_gemm_has_the_flop_of_its_shape(name):
    for block in model_of(name).blocks:
        assert len({operator.name for operator in block.operators}) == len(block.operators)
        for o in block.operators:
            if o.kind is OperatorKind.GEMM:
                assert o.flop_per_token == 2 * o.columns * o.inner * o.rows_per_token


def test_an_embedding_is_stored_but_only_its_rows_are_read():
    model = model_of("Llama3-8B")
    embedding = model.blocks[0]
    assert embedding.parameters == 128256 * 4096
    assert forward_work(embedding.operators, Batch(tokens=3), Precision()).nbytes == 3 * 2 * 4096 * 2


def test_a_decode_step_reads_the_weights_once_and_the_cache_of_its_context():
    model = model_of("Llama3-8B")
    work = work_of(model, Batch(tokens=8, logits=8, decode_context_tokens=8 * 1000, decode_sequences=8))
    weights = 2 * (model.parameters - 128256 * 4096)
    cache = 8 * 1000 * 131_072
    assert work.nbytes == pytest.approx(weights + cache, rel=0.01)
    assert work.nbytes > weights + cache


@given(tokens=st.floats(1, 1e5))
def test_experts_read_grow_from_the_active_ones_to_all(tokens):
    routed = next(o for o in model_of("Qwen3-30B-A3B").blocks[1].operators if o.name == "experts_down")
    active = routed.parameters * 8 / 128
    read = routed.parameters_read(tokens)
    assert active * (1 - 1e-12) <= read <= routed.parameters
    assert read <= routed.parameters_read(tokens + 1)
    assert read <= active * tokens * (1 + 1e-12)


def test_latent_attention_caches_the_latent_vector_and_decodes_in_it():
    a, layer = BY_NAME["DeepSeek-V3"], model_of("DeepSeek-V3").blocks[1]
    by_name = {operator.name: operator for operator in layer.operators}
    decode = by_name["decode_attention"]
    assert decode.elements_per_context_token == 512 + 64
    assert decode.flop_per_pair == 2 * 128 * (2 * 512 + 64)
    assert by_name["attention"].flop_per_pair == 2 * 128 * (192 + 128)
    assert model_of("DeepSeek-V3").num_key_value_heads == 1
    uncompressed = build_transformer(replace(a, q_lora_rank=0)).blocks[1]
    q_up = next(operator for operator in uncompressed.operators if operator.name == "q_up")
    assert q_up.inner == a.hidden_size


def test_an_encoder_attends_both_ways_and_has_no_cache():
    model = model_of("BERT-Base")
    assert model.family == "encoder"
    assert model.training_batch(2, 512).attention_pairs == 2 * 512**2
    assert not [o for o in operators_of(model) if o.kind is OperatorKind.DECODE_ATTENTION]


def test_default_training_sequence_is_the_context_up_to_8192():
    assert [model_of(n).sequence_length for n in ("GPT2-Small", "Llama-2-7B", "Llama-3.1-8B")] == [1024, 4096, 8192]


def test_names_are_unique_and_every_architecture_has_a_source():
    assert len(BY_NAME) == len(listed_architectures())
    assert all(architecture.source for architecture in listed_architectures())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 0}, "num_layers must be positive"),
        ({"hidden_size": -1}, "hidden_size must be positive"),
        ({"num_key_value_heads": 5}, "multiple of num_key_value_heads"),
        ({"experts": 4, "experts_per_token": 5, "expert_intermediate_size": 8}, "exceeds experts"),
        ({"experts": 4, "experts_per_token": 2}, "needs expert_intermediate_size"),
        ({"dense_layers_first": 33}, "exceeds num_layers"),
        ({"kv_lora_rank": 512}, "latent attention needs"),
        ({"decoder_layers": -1}, "decoder_layers must be positive"),
        ({"decoder_layers": 4}, "must not be causal"),
        ({"decoder_sequence_length": 128}, "needs decoder_layers"),
        ({"decoder_layers": 4, "causal": False, "decoder_sequence_length": 9000}, "exceeds max_context_tokens"),
        (
            {"decoder_layers": 4, "causal": False, "experts": 4, "expert_intermediate_size": 8},
            "a mixture of experts cannot be combined with decoder_layers",
        ),
        (
            {"decoder_layers": 4, "causal": False, "kv_lora_rank": 8, "qk_nope_head_size": 8, "v_head_size": 8},
            "latent attention cannot be combined with decoder_layers",
        ),
    ],
)
def test_a_wrong_architecture_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        replace(BY_NAME["Llama3-8B"], **changes)


def test_a_gpt_needs_heads_that_divide_its_width():
    with pytest.raises(UsageError, match="multiple of num_attention_heads"):
        gpt_architecture("x", num_layers=2, hidden_size=100, num_attention_heads=3)


@given(
    layers=st.integers(1, 20),
    heads=st.integers(1, 32),
    head_size=st.sampled_from([64, 128]),
    groups=st.integers(1, 8),
    width=st.integers(1, 4096),
    vocabulary=st.integers(1, 100_000),
    tied=st.booleans(),
)
def test_parameters_are_those_of_the_matrices(layers, heads, head_size, groups, width, vocabulary, tied):
    hidden, kv_heads = heads * head_size, math.gcd(heads, groups)
    model = build_transformer(
        TransformerArchitecture(
            name="x",
            num_layers=layers,
            hidden_size=hidden,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_size=head_size,
            intermediate_size=width,
            gated_mlp=True,
            vocab_size=vocabulary,
            tied_embeddings=tied,
            max_context_tokens=100,
        )
    )
    layer = 2 * hidden**2 + 2 * hidden * kv_heads * head_size + 3 * hidden * width + 2 * hidden
    assert model.parameters == layers * layer + (1 if tied else 2) * vocabulary * hidden + hidden
