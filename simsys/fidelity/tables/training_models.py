"""Models of tables of training runs, as the ``model`` of an experiment."""

from __future__ import annotations

import re
from typing import Any

from simsys.errors import UnknownNameError
from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.facts import facts
from simsys.fidelity.tables.model_names import Models
from simsys.fidelity.tables.table import Row
from simsys.model.model_db import load_model


def model_of(row: Row) -> dict[str, Any]:
    """Return the model of a row: by its sizes, or by its name if its kind cannot be given by sizes.

    Raises:
        Unsupported: Its kind is not modelled.
    """
    arch, known = row.text("arch"), facts(Models)
    length = {"sequence_length": row.length("seq_len")} if row.text("seq_len") else {}
    if length and _has_no_padding(row, length["sequence_length"]):
        length["sequence_length"] = round(known.unpadded.share * length["sequence_length"])
    kind = known.kinds.get(arch)
    if kind is not None and kind.model_type is not None and row.text("layers"):
        return {"model_type": kind.model_type, **_sizes(row), **length}
    if kind is not None:
        name = _database_name(row.text("model"))
        if arch == "moe" and row.text("layers"):
            length["num_layers"] = row.whole("layers")
        if arch == "enc-dec" and length:
            length["decoder_sequence_length"] = length["sequence_length"]
        return {"name": name, **length}
    raise Unsupported(f"no model of kind {arch!r}")


def _has_no_padding(row: Row, length: int) -> bool:
    return "unpadded" in row.text("attn_kernel") or length == facts(Models).unpadded.binned.get(row.text("group"))


def layers_of(row: Row) -> int:
    """Return the stated number of layers, or else that of the model DB; 0 if neither is known."""
    if row.text("layers"):
        return row.whole("layers")
    try:
        return load_model(_database_name(row.text("model"))).num_layers
    except UnknownNameError:
        return 0


def _sizes(row: Row) -> dict[str, Any]:
    hidden, known = row.whole("hidden"), facts(Models)
    heads = row.whole("heads", max(1, hidden // known.head_size))
    return {
        "num_layers": row.whole("layers"),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": row.whole("kv_heads", heads),
        "intermediate_size": row.whole("ffn", 4 * hidden),
        "vocab_size": row.whole("vocab", known.vocab_size),
    }


def _database_name(text: str) -> str:
    """Return a name without remarks in brackets."""
    name = re.sub(r"\(.*?\)", "", text).strip()
    if not name:
        raise Unsupported("neither a name nor sizes of the model")
    return "ResNet-50" if name.lower().startswith("resnet-50") else name
