"""The file of architectures: its models are those of the model DB, and a mistake is reported at its line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from simsys.config.architectures import FILENAME, listed_architectures, listed_models
from simsys.config.document import read_document
from simsys.errors import ConfigError
from simsys.model.model_db import load_model
from tests.helpers.places import ROOT

SHIPPED = ROOT / "model_db" / FILENAME
SMALL = """\
families:
  Tiny:
    urls: [https://example.org/tiny]
    common:
      source: "Table 1"
      head_size: 64
      gated_mlp: false
      vocab_size: 1000
      tied_embeddings: true
      max_context_tokens: 512
    models:
      Tiny-1:
        aliases: [tiny]
        num_layers: 2
        hidden_size: 128
        num_attention_heads: 2
        num_key_value_heads: 2
        intermediate_size: 512
      Tiny-2:
        vocab_size: 2000
        num_layers: 4
        hidden_size: 128
        num_attention_heads: 2
        num_key_value_heads: 2
        intermediate_size: 512
"""


def written(folder: Path, text: str) -> Path:
    path = folder / FILENAME
    path.write_text(text, encoding="utf-8")
    return path


def test_a_model_has_the_keys_of_its_family_where_it_has_none_of_its_own(tmp_path: Path) -> None:
    small, large = listed_models(written(tmp_path, SMALL))
    assert (small.architecture.name, small.architecture.vocab_size, small.aliases) == ("Tiny-1", 1000, ("tiny",))
    assert (large.architecture.name, large.architecture.vocab_size, large.aliases) == ("Tiny-2", 2000, ())
    assert small.architecture.source == large.architecture.source == "Table 1"
    assert small.architecture.causal
    assert small.architecture.experts == 1


def test_every_shipped_model_names_its_source_and_is_in_the_model_db() -> None:
    for listed in listed_models():
        assert listed.architecture.source
        for name in (listed.architecture.name, *listed.aliases):
            assert load_model(name).name == listed.architecture.name
    assert len(listed_architectures()) == 95


def test_every_shipped_family_has_an_address() -> None:
    families = read_document(SHIPPED).data["families"]
    assert all(url.startswith("https://") for family in families.values() for url in family["urls"])


def test_the_example_of_the_documentation_is_an_entry_of_the_file(tmp_path: Path) -> None:
    page = (SHIPPED.parents[1] / "docs" / "reference" / "model-db.md").read_text(encoding="utf-8")
    (example,) = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if block.startswith("families")]
    (listed,) = listed_models(written(tmp_path, example))
    shipped = next(each for each in listed_architectures() if each.name == "OPT-6.7B")
    assert replace(listed.architecture, source=shipped.source) == shipped


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("num_layers: 2", "num_layer: 2", "14:9", "unknown key 'num_layer', did you mean 'num_layers'"),
        ("num_layers: 4", "num_layers: four", "21:21", "a whole number is needed, not 'four'"),
        ("num_layers: 4", "num_layers: true", "21:21", "a number is needed, not true"),
        ("head_size: 64", "head_size: big", "6:18", "a whole number is needed, not 'big'"),
        ('      source: "Table 1"\n', "", "11:7", "missing required key 'source'"),
        (
            "num_attention_heads: 2",
            "num_attention_heads: 3",
            "12:7",
            "(3) must be a multiple of",
        ),
        ("  Tiny-2:", "  tiny:", "19:7", "the name 'tiny' is already one of Tiny-1"),
        ("[https://example.org/tiny]", "[]", "3:11", "at least 1 entry"),
        ("    urls:", "    url:", "3:5", "unknown key 'url', did you mean 'urls'"),
    ],
)
def test_a_mistake_is_reported_at_its_line(tmp_path: Path, old: str, new: str, place: str, message: str) -> None:
    path = written(tmp_path, SMALL.replace(old, new, 1))
    with pytest.raises(ConfigError) as found:
        listed_models(path)
    assert f"{FILENAME}:{place}:" in str(found.value)
    assert message in str(found.value)
