from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.config.architectures import listed_architectures
from simsys.errors import ConfigError, UnknownNameError, UsageError
from simsys.model.aggregates import STEPS
from simsys.model.batch import Batch
from simsys.model.cnn import build_resnet50
from simsys.model.fields import Fields
from simsys.model.huggingface import model_of, read_checkpoint
from simsys.model.model import Block, Model
from simsys.model.model_db import FILENAME, load_model, model_names
from simsys.model.model_entry import ENTRY_KEYS, OPERATOR_KEYS, model_from_entry
from simsys.model.operators import OperatorKind, Split
from simsys.model.transformer import build_transformer
from simsys.model.work import Precision, Work, forward_work
from tests.helpers.places import ROOT
from tests.helpers.published_configs import PUBLISHED
from tests.helpers.thorough import cases

SCRIPT = ROOT / "scripts" / "make_model_db.py"
DATABASE = json.loads((ROOT / "model_db" / FILENAME).read_text(encoding="utf-8"))
SCHEMA = json.loads((ROOT / "model_db" / "model_characteristics_db.schema.json").read_text(encoding="utf-8"))
BUILT = {model.name: model for model in [*map(build_transformer, listed_architectures()), build_resnet50()]}
DENSE_DECODERS = ["GPT2-Small", "Llama3-8B", "Llama-3.1-405B", "Qwen2.5-7B"]


def write(folder: Path, entries: object) -> list[Path]:
    (folder / FILENAME).write_text(entries if isinstance(entries, str) else json.dumps(entries), encoding="utf-8")
    return [folder]


def entry_of(name: str) -> dict:
    return copy.deepcopy(DATABASE[name])


def work_of(model: Model, batch: Batch) -> Work:
    operators = [operator for block in model.aggregated.blocks for operator in block.operators]
    return forward_work(operators, batch, Precision())


@pytest.mark.parametrize("name", BUILT)
def test_an_entry_gives_the_model_that_its_builder_makes(name):
    loaded = load_model(name)
    assert replace(loaded, quantization=None, notes=()) == BUILT[name]
    assert len({id(block) for block in loaded.blocks}) == len(DATABASE[name]["layers"])


@pytest.mark.parametrize("name", ["DeepSeek-V3", "Kimi-K2", "Kimi-K2.5", "MiniMax-M2", "gpt-oss-20b", "gpt-oss-120b"])
def test_weights_of_named_models_are_stored_as_in_their_checkpoints(name):
    published = PUBLISHED[name].config
    read = model_of(read_checkpoint(published)).quantization
    assert load_model(name).quantization == read is not None


def test_the_shipped_file_is_up_to_date(tmp_path):
    run = [sys.executable, str(SCRIPT), "--check"]
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    assert subprocess.run(run, env=environment, check=False).returncode == 0
    old = subprocess.run([*run, "--folder", str(tmp_path)], capture_output=True, text=True, check=False)
    assert old.returncode == 1
    assert "out of date" in old.stderr


def test_the_shipped_file_follows_the_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(DATABASE)


def test_the_schema_knows_the_fields_of_the_code():
    types = SCHEMA["$defs"]
    assert set(types["operator"]["properties"]) == set(OPERATOR_KEYS)
    assert set(types["layer"]["properties"]) == {spec.name for spec in fields(Block)} | {"repeat"}
    assert set(types["model"]["properties"]) == set(ENTRY_KEYS)
    assert types["operator"]["properties"]["kind"]["enum"] == [kind.value for kind in OperatorKind]
    assert set(types["operator"]["properties"]["split"]["enum"]) == {split.value for split in Split}
    for step, keys in STEPS.items():
        assert set(types[step]["properties"]) == set(keys)


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("resnet50", "ResNet-50"),
        ("gpt2_small", "GPT2-Small"),
        ("gpt2", "GPT2-Small"),
        ("bert_base", "BERT-Base"),
        ("BERT large", "BERT-Large"),
        ("llama3-8b", "Llama3-8B"),
        ("Llama-3-8B", "Llama3-8B"),
        ("meta-llama-3-70b", "Llama3-70B"),
        ("mixtral_8x7b", "Mixtral-8x7B"),
        ("deepseek-ai/DeepSeek-R1", "DeepSeek-V3"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("meta-llama/Llama-2-7b-chat-hf", "Llama-2-7B"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "Mistral-7B"),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", "Qwen3-30B-A3B"),
        ("deepseek-ai/DeepSeek-R1-0528", "DeepSeek-V3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "Llama-3.1-70B"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8", "Llama-3.1-70B"),
    ],
)
def test_names_do_not_depend_on_case_and_signs_and_have_aliases(given_name, name):
    assert load_model(given_name).name == name


def test_no_two_models_share_a_name_or_alias():
    keys = [name for model in model_names() for name in (model, *DATABASE[model]["aliases"])]
    assert len({load_model(key).name for key in keys}) == len(DATABASE) - 1
    assert all(load_model(alias).name == model for model in model_names() for alias in DATABASE[model]["aliases"])


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(UnknownNameError, match="did you mean 'Llama3-8B'"):
        load_model("Lama3-8B")
    with pytest.raises(UnknownNameError, match=r"; any other model is read from its Hugging Face config"):
        load_model("Vicuna")


def test_a_users_entry_comes_first_and_drives_the_model(tmp_path):
    entry = entry_of("Llama3-8B")
    entry["layers"][1]["repeat"] = 2
    del entry["parameters"]
    paths = write(tmp_path, {"llama3-8b": entry, "Mine": entry_of("GPT2-Small")})
    assert [block.name for block in load_model("Llama3-8B", paths).blocks] == ["embedding", "layer", "layer", "head"]
    assert load_model("Llama3-8B", [tmp_path / FILENAME]).name == "llama3-8b"
    assert load_model("Llama3-70B", paths) == BUILT["Llama3-70B"]
    assert set(model_names(paths)) == {*BUILT, "llama3-8b", "Mine"}


def test_an_edited_entry_counts_at_once(tmp_path):
    entry = entry_of("GPT2-Small")
    paths = write(tmp_path, {"Mine": entry})
    assert load_model("mine", paths) is load_model("Mine", paths)
    write(tmp_path, {"Mine": {**entry, "sequence_length": 12345}, "Other": {**entry, "aliases": ["mine 2"]}})
    assert load_model("mine", paths).sequence_length == 12345
    assert load_model("Mine-2", paths).name == "Other"


def test_the_environment_names_folders(tmp_path, monkeypatch):
    folder = tmp_path / "model_db"
    folder.mkdir()
    write(folder, {"Mine": entry_of("GPT2-Small")})
    monkeypatch.setenv("SIMSYS_PATH", str(tmp_path))
    assert load_model("mine").num_layers == 12


def macro_entry(name: str) -> dict:
    return {key: value for key, value in entry_of(name).items() if key not in ("layers", "tied_parameters")}


@pytest.mark.parametrize("name", DENSE_DECODERS)
@settings(max_examples=cases(100))
@given(
    tokens=st.integers(1, 10_000),
    sequences=st.integers(1, 200),
    context=st.integers(0, 10_000_000),
    pairs=st.integers(0, 10**9),
)
def test_macro_operations_cost_what_the_layers_cost(tmp_path_factory, name, tokens, sequences, context, pairs):
    macro = load_model(name, write(tmp_path_factory.mktemp("db"), {name: macro_entry(name)}))
    for batch in (
        Batch(tokens=tokens, logits=1, attention_pairs=pairs),
        Batch(tokens=tokens, logits=1, attention_pairs=pairs, prompt_context_tokens=context),
        Batch(tokens=sequences, logits=sequences, decode_context_tokens=context, decode_sequences=sequences),
    ):
        layers, macros = work_of(BUILT[name], batch), work_of(macro, batch)
        assert macros.flop == pytest.approx(layers.flop, rel=1e-9)
        assert macros.nbytes == pytest.approx(layers.nbytes, rel=1e-9)


@pytest.mark.parametrize("name", [*DENSE_DECODERS, "BERT-Base", "ResNet-50"])
def test_a_macro_model_stores_what_the_entry_says(tmp_path, name):
    macro = load_model(name, write(tmp_path, {name: macro_entry(name)}))
    assert macro.parameters == pytest.approx(BUILT[name].parameters, rel=1e-9)
    assert macro.kv_elements_per_token == BUILT[name].kv_elements_per_token
    assert {block.name for block in macro.blocks} == {"macro"}
    batch = Batch(tokens=32, logits=32, attention_pairs=1000)
    assert work_of(macro, batch).flop == pytest.approx(work_of(BUILT[name], batch).flop, rel=1e-9)


SMALL = {
    "aggregated_ops": {
        "prefill": {"total_flops_per_prompt_token": 1.5e9, "total_memory_bytes_per_prompt_token": 1e6},
        "decode": {"total_flops_per_token_in_batch": 2e9, "total_memory_bytes_per_token_in_batch": 1.2e6},
    }
}


def test_two_numbers_a_step_are_enough_and_make_one_block(tmp_path):
    model = load_model("Small", write(tmp_path, {"Small": SMALL}))
    assert [block.name for block in model.blocks] == ["macro"]
    prompt, decode = work_of(model, Batch(tokens=512)), work_of(model, Batch(tokens=8, logits=8))
    assert (prompt.flop, prompt.nbytes) == pytest.approx((512 * 1.5e9, 512 * 1e6))
    assert (decode.flop, decode.nbytes) == pytest.approx((8 * 2e9, 8 * 1.2e6))


def test_the_critical_path_factor_multiplies_the_time_of_kernels_but_not_what_is_stored(tmp_path):
    entry = copy.deepcopy(SMALL)
    for step in entry["aggregated_ops"].values():
        step["weight_bytes_per_step"] = 1e8
    entry["aggregated_ops"]["decode"] |= {"kv_bytes_per_context_token": 100, "attention_flops_per_context_token": 7}
    batch = Batch(tokens=8, logits=8, decode_context_tokens=1000)
    plain = load_model("Small", write(tmp_path, {"Small": entry}))
    entry["aggregated_ops"]["decode"]["critical_path_factor"] = 1.5
    slower = load_model("Small", write(tmp_path, {"Small": entry}))
    assert work_of(slower, batch).flop == pytest.approx(work_of(plain, batch).flop)
    assert {kernel.effort for kernel in work_of(slower, batch).kernels} == {1.5}
    assert work_of(slower, batch).nbytes == pytest.approx(1.5 * work_of(plain, batch).nbytes)
    assert slower.parameters == pytest.approx(plain.parameters) == pytest.approx(0.5e8)
    assert slower.kv_elements_per_token == pytest.approx(plain.kv_elements_per_token) == pytest.approx(50)


def changed(path: str, value: object, *, name: str = "GPT2-Small") -> dict:
    """The entry with the value at a dotted path replaced (None: removed)."""
    entry = entry_of(name)
    *parents, last = path.split(".")
    place: object = entry
    for key in parents:
        place = place[int(key) if key.isdigit() else key]  # type: ignore[index]
    if value is None:
        del place[last]  # type: ignore[attr-defined]
    else:
        place[last] = value  # type: ignore[index]
    return entry


def changed_step(key: str, value: float) -> dict:
    return changed(f"aggregated_ops.prefill.{key}", value)


NAN = float("nan")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([], r"X: expected a mapping, got \[\]"),
        ({"family": "decoder"}, r"X: needs `layers` or `aggregated_ops`"),
        (changed("familly", "decoder"), "X.familly: unknown key, did you mean 'family'"),
        (changed("family", "gpt"), "X.family: unknown family 'gpt'"),
        (changed("decoder_sequence_length", 128), "decoder_sequence_length: is for the family encoder_decoder, not"),
        (changed("decoder_sequence_length", None, name="T5-Large"), "X: missing decoder_sequence_length"),
        (changed("layers", None, name="T5-Large"), "X: an encoder-decoder has tokens on two sides"),
        (changed("layers.2.operators.2.pairs", "own_pairs", name="T5-Large"), "unknown pairs 'own_pairs'; known: att"),
        (changed("dtype", "fp8"), "X.dtype: bytes in the model DB are for bf16"),
        (changed("hidden_size", -1), "X.hidden_size: expected a finite number >= 0, got -1"),
        (changed("hidden_size", 1.5), "X.hidden_size: expected an integer"),
        (changed("parameters", 1e9), r"X.parameters: states 1,000,000,000, but the layers have 124,439,808"),
        ({"layers": []}, "X.layers: expected a list that is not empty"),
        (changed("layers.1.repeat", 0), r"X.layers\[1\].repeat: expected a finite number >= 1, got 0"),
        (changed("layers.1.repeat", 3_000_000), r"X.layers\[1\].repeat: must be at most 10,000, not 3,000,000"),
        (SMALL | {"num_layers": 3_000_000}, "X.num_layers: must be at most 10,000, not 3,000,000"),
        (changed("layers.1.spread", 1), r"X.layers\[1\].spread: expected true or false, got 1"),
        (changed("layers.1.operators", []), r"X.layers\[1\].operators: expected a list that is not empty"),
        (changed("layers.1.operators.1.parameters", NAN), r"X.layers\[1\].operators\[1\].parameters: .*got nan"),
        (changed("layers.1.operators.1.parameters", "7"), r"operators\[1\].parameters: expected a number, got '7'"),
        (changed("layers.1.operators.1.kind", "lstm"), r"operators\[1\].kind: unknown kind 'lstm'; known: gemm"),
        (changed("layers.1.operators.1.name", None), r"operators\[1\]: missing name"),
        (changed("layers.1.operators.1.per_logit", 1), "expected true or false, got 1"),
        (changed("layers.1.operators.1.experts_per_token", 2), r"expected 1 to experts \(1\), got 2"),
        (changed("layers.1.operators.1.flops", 2), r"operators\[1\].flops: unknown key"),
        (changed("tied_parameters", 1e12) | {"parameters": None}, "exceeds the parameters of the layers"),
        ({"aggregated_ops": {"prefill": {}}}, "X.aggregated_ops: missing decode"),
        (
            {"aggregated_ops": {"prefill": {}, "decode": {}}},
            "X.aggregated_ops.prefill: missing total_flops_per_prompt",
        ),
        (
            changed_step("total_flops_per_prompt_token", -1),
            r"prefill.total_flops_per_prompt_token: .*finite number >= 0",
        ),
        (changed_step("critical_path_factor", 0), r"prefill.critical_path_factor: must be above 0"),
        (
            changed("aggregated_ops.forward.attention_flops_per_token_pair", 9, name="ResNet-50"),
            "aggregated_ops.forward.attention_flops_per_token_pair: states 9, but the layers have nothing of it",
        ),
        ({"aggregated_ops": SMALL["aggregated_ops"] | {"train": {}}}, "aggregated_ops.train: unknown key"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_place(tmp_path, entry, message):
    paths = write(tmp_path, {"X": entry})
    with pytest.raises(ConfigError, match=message) as error:
        load_model("x", paths)
    assert str(tmp_path / FILENAME) in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "where", "said"),
    [
        ('"hidden_size": 768', '"hidden_size": "wide"', '"wide"', "hidden_size: expected a number, got 'wide'"),
        ('"repeat": 12', '"repeats": 12', "12", "layers[1].repeats: unknown key, did you mean 'repeat'?"),
        ('"name": "embedding",', "", "", "layers[0]: missing name"),
        (
            '"critical_path_factor": 1',
            '"critical_path_factor": 0',
            "0",
            "aggregated_ops.prefill.critical_path_factor: ",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_column(tmp_path, old, new, where, said):
    text = "// mine\n" + json.dumps({"GPT-2.5": entry_of("GPT2-Small")}, indent=1)
    index = text.index(old) + (new.index(where) if new else -len("{\n    "))
    line, column = text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)
    with pytest.raises(ConfigError) as found:
        load_model("GPT-2.5", write(tmp_path, text.replace(old, new, 1)))
    assert f"{FILENAME}:{line}:{column}: GPT-2.5.{said}" in str(found.value)


def test_wrong_aliases_are_refused_when_an_alias_is_looked_for(tmp_path):
    with pytest.raises(ConfigError, match=r"X\.aliases: expected a list of strings"):
        load_model("y", write(tmp_path, {"X": changed("aliases", "y")}))


def test_a_macro_mixture_of_experts_reads_what_each_step_says_and_warns(tmp_path):
    entry = macro_entry("Mixtral-8x7B")
    model = load_model("X", write(tmp_path, {"X": entry}))
    read = {step: amounts["weight_bytes_per_step"] for step, amounts in entry["aggregated_ops"].items()}
    tokens = {step: entry["aggregated_ops"][step][key] for step, key in TOKEN_BYTES.items()}
    prompt, decode = Batch(tokens=1, attention_pairs=1), Batch(tokens=1, logits=1, decode_sequences=1)
    assert work_of(model, prompt).nbytes == pytest.approx(read["prefill"] + tokens["prefill"])
    assert work_of(model, decode).nbytes == pytest.approx(read["decode"] + tokens["decode"])
    assert model.warnings == (
        "without layers, a decode step of X reads the same weights whatever its batch; a mixture of experts reads "
        "more of them for a larger batch",
    )
    assert model.parameters == pytest.approx(BUILT["Mixtral-8x7B"].parameters)


TOKEN_BYTES = {
    "prefill": "total_memory_bytes_per_prompt_token",
    "decode": "total_memory_bytes_per_token_in_batch",
}


def test_a_decoded_token_may_cost_less_than_a_prompt_token(tmp_path):
    entry = copy.deepcopy(SMALL)
    entry["aggregated_ops"]["decode"]["total_flops_per_token_in_batch"] = 1e9
    model = load_model("X", write(tmp_path, {"X": entry}))
    assert work_of(model, Batch(tokens=4, attention_pairs=10)).flop == pytest.approx(4 * 1.5e9)
    assert work_of(model, Batch(tokens=4, logits=4, decode_sequences=4)).flop == pytest.approx(4 * 1e9)


def test_a_file_that_is_no_model_db_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r":1:2: not valid JSON: "):
        load_model("GPT2-Small", write(tmp_path, "{"))
    with pytest.raises(UsageError, match="expected a mapping"):
        load_model("GPT2-Small", write(tmp_path, "[]"))
    with pytest.raises(UsageError, match="no model DB at"):
        load_model("GPT2-Small", [tmp_path / "absent"])


@pytest.mark.parametrize("left_out", ["layers", "aggregated_ops"])
def test_the_storage_of_weights_counts_with_layers_or_aggregates_alone(left_out):
    entry = {key: value for key, value in DATABASE["DeepSeek-V3"].items() if key != left_out}
    found = model_from_entry("DeepSeek-V3", Fields(entry))
    assert found.quantization.weights == "fp8_block"
