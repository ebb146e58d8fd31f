"""Models as tables and results of benchmarks call them, by their names in the model DB."""

from __future__ import annotations

import re
from functools import cache

from simsys.errors import UnknownNameError
from simsys.model.model_db import load_model

_QUALIFIER = re.compile(
    r"[-_](instruct|chat|it|hf|base|dynamic|quantized|fp8|nvfp4|mxfp4|fp4|bf16|fp16|int[48]|w\da\d+|awq|gptq|"
    r"v\d+(\.\d+)?|\d{4})$",
    re.IGNORECASE,
)
"""Ends of names that say how a model was tuned or quantised, or when, which does not change its layers."""
_VENDOR = re.compile(r"^meta[-_](?=llama)", re.IGNORECASE)


@cache
def database_name(name: str) -> str | None:
    """The name in the model DB of a model; None if it is not there.

    Names of Hugging Face (``owner/name``) count without their owner, and an x in a version stands for 1.

    Example:
        >>> database_name("meta-llama/Meta-Llama-3-8B-Instruct"), database_name("llama3.x-70b"), database_name("mine")
        ('Llama3-8B', 'Llama-3.1-70B', None)
    """
    short = _VENDOR.sub("", name.rstrip("/").rpartition("/")[2])
    candidates = [name, short, re.sub(r"(\d)\.x", r"\1.1", short)]
    while (plain := _QUALIFIER.sub("", short)) != short:
        short = plain
        candidates.append(short)
    for candidate in candidates:
        try:
            return load_model(candidate).name
        except UnknownNameError:
            continue
    return None
