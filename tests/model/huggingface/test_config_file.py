"""Configurations in files and folders, and what may be wrong with these."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simsys.errors import ConfigError, UsageError
from simsys.model.huggingface import model_of, read_checkpoint
from simsys.model.huggingface.config_file import MAX_BYTES
from tests.helpers.published_configs import LLAMA_3_1_8B, NVFP4, QWEN3_32B


def written(folder: Path, text: str, name: str = "config.json") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_file_or_its_folder_can_be_read_and_names_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "My-Llama"
    folder.mkdir()
    written(folder, json.dumps(LLAMA_3_1_8B))
    for path in (folder, folder / "config.json", str(folder)):
        architecture = read_checkpoint(path).architecture
        assert (architecture.name, architecture.num_layers) == ("My-Llama", 32)
    written(folder, json.dumps(LLAMA_3_1_8B), "other.json")
    assert read_checkpoint(folder / "other.json").architecture.name == "other"
    written(folder, json.dumps(LLAMA_3_1_8B | {"_name_or_path": "meta/Llama-8B/"}))
    assert read_checkpoint(folder).architecture.name == "Llama-8B"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON: Expecting property name"),
        ("[]", r"expected a mapping, got \[\]"),
        ("null", "expected a mapping, got None"),
        ('{"hidden_size": 1, "hidden_size": 2}', "the key 'hidden_size' stands twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"hidden_size": 1' + "0" * 5000 + "}", r":1:17: a number of 5001 digits"),
        ('{"a": "' + "x" * MAX_BYTES + '"}', "the file is larger than 16 MiB"),
    ],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_checkpoint(written(tmp_path, text))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read model configuration '.*config.json': No such file"):
        read_checkpoint(tmp_path)
    (tmp_path / "config.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(UsageError, match=r":1:\d+: this is not UTF-8 text"):
        read_checkpoint(tmp_path)
    with pytest.raises(UsageError, match="cannot read model configuration"):
        read_checkpoint("a\0b")


def test_what_modelopt_writes_beside_counts(tmp_path: Path) -> None:
    quantized = {"producer": {"name": "modelopt", "version": "0.33.0"}, "quantization": NVFP4}
    written(tmp_path, json.dumps(QWEN3_32B))
    written(tmp_path, json.dumps(quantized), "hf_quant_config.json")
    found = model_of(read_checkpoint(tmp_path)).quantization
    assert found is not None
    assert (found.weights, found.kv) == ("fp4", "fp8")
    written(tmp_path, json.dumps(quantized | {"quantization": NVFP4 | {"quant_algo": 4}}), "hf_quant_config.json")
    with pytest.raises(ConfigError, match=r"hf_quant_config.json: quantization.quant_algo: expected a string"):
        read_checkpoint(tmp_path)


def test_the_configuration_itself_counts_before_what_stands_beside(tmp_path: Path) -> None:
    own = QWEN3_32B | {"quantization_config": {"quant_method": "fp8"}}
    written(tmp_path, json.dumps(own))
    written(tmp_path, json.dumps({"quantization": NVFP4}), "hf_quant_config.json")
    found = model_of(read_checkpoint(tmp_path)).quantization
    assert found is not None
    assert found.weights == "fp8"
