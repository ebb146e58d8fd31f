"""The models of tables of training runs, as the ``model`` of an experiment."""

from __future__ import annotations

import re
from typing import Any

from simsys.errors import UnknownNameError
from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.table import Row
from simsys.model.model_db import load_model

_BY_SIZES = {"gpt": "gpt", "llama": "llama", "bert": "bert", "transformer-xl": "transformer_xl", "": "gpt"}
_BY_NAME = {"moe": "a mixture of experts", "cnn": "a CNN", "enc-dec": "an encoder-decoder"}
UNPADDED = 0.5
"""Tokens of Wikipedia's sequences that are no padding, at a length of 512 (Krell et al. 2021, §2)."""
_BINNED = {"dle_bert": 512}
"""Sources whose batches hold sequences of like length, and the length from which they do (NVIDIA/LDDL, README)."""
HEAD_SIZE = 128
"""Where a table does not say how many heads there are."""


def model_of(row: Row) -> dict[str, Any]:
    """The model of a row: by its sizes, or by its name if its kind cannot be given by sizes.

    Raises:
        Unsupported: If it is of a kind that simsys does not know.
    """
    arch = row.text("arch")
    length = {"sequence_length": row.length("seq_len")} if row.text("seq_len") else {}
    if length and _has_no_padding(row, length["sequence_length"]):
        length["sequence_length"] = round(UNPADDED * length["sequence_length"])
    if arch in _BY_SIZES and row.text("layers"):
        return {"model_type": _BY_SIZES[arch], **_sizes(row), **length}
    if arch in _BY_SIZES or arch in _BY_NAME:
        name = _database_name(row.text("model"))
        if arch == "moe" and row.text("layers"):
            raise Unsupported("a mixture of experts with a number of layers of its own")
        if arch == "enc-dec" and length:
            length["decoder_sequence_length"] = length["sequence_length"]
        return {"name": name, **length}
    raise Unsupported(f"no model of kind {arch!r}")


def _has_no_padding(row: Row, length: int) -> bool:
    return "unpadded" in row.text("attn_kernel") or length == _BINNED.get(row.text("group"))


def layers_of(row: Row) -> int:
    """Layers that pipeline stages divide: those that are stated, or those of the model DB; 0 if neither says."""
    if row.text("layers"):
        return row.whole("layers")
    try:
        return load_model(_database_name(row.text("model"))).num_layers
    except UnknownNameError:
        return 0


def _sizes(row: Row) -> dict[str, Any]:
    hidden = row.whole("hidden")
    heads = row.whole("heads", max(1, hidden // HEAD_SIZE))
    return {
        "num_layers": row.whole("layers"),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": row.whole("kv_heads", heads),
        "intermediate_size": row.whole("ffn", 4 * hidden),
        "vocab_size": row.whole("vocab", 51200),
    }


def _database_name(text: str) -> str:
    """A name without what is said of it in brackets."""
    name = re.sub(r"\(.*?\)", "", text).strip()
    if not name:
        raise Unsupported("neither a name nor sizes of the model")
    return "ResNet-50" if name.lower().startswith("resnet-50") else name
