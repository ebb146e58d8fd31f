"""Write the shipped model DB from the model builders, or check that it is up to date.

Usage: python scripts/make_model_db.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.generated import write_or_check  # noqa: E402
from simsys.model.architectures import ARCHITECTURES  # noqa: E402
from simsys.model.cnn import build_resnet50  # noqa: E402
from simsys.model.model_db import FILENAME  # noqa: E402
from simsys.model.model_entry import entry_from_model  # noqa: E402
from simsys.model.transformer import build_transformer  # noqa: E402

DATABASE = ROOT / "model_db" / FILENAME
SCHEMA = "model_characteristics_db.schema.json"
ALIASES = {
    "GPT2-Small": ("gpt2",),
    "GPT-3-175B": ("gpt3",),
    "BERT-Base": ("bert-base-uncased", "bert"),
    "BERT-Large": ("bert-large-uncased",),
    "Llama-2-7B": ("Llama-2-7b-hf",),
    "Llama-2-13B": ("Llama-2-13b-hf",),
    "Llama-2-70B": ("Llama-2-70b-hf",),
    "Llama3-8B": ("Meta-Llama-3-8B",),
    "Llama3-70B": ("Meta-Llama-3-70B",),
    "Llama-3.1-8B": ("Meta-Llama-3.1-8B",),
    "Llama-3.1-70B": ("Meta-Llama-3.1-70B", "Llama-3.3-70B", "Llama-3.3-70B-Instruct"),
    "Llama-3.1-405B": ("Meta-Llama-3.1-405B",),
    "Mistral-7B": ("Mistral-7B-v0.1",),
    "Mixtral-8x7B": ("Mixtral-8x7B-v0.1",),
    "Mixtral-8x22B": ("Mixtral-8x22B-v0.1",),
    "DeepSeek-V3": ("DeepSeek-R1", "DeepSeek-V3.1"),
    "Kimi-K2": ("Kimi-K2.5",),
    "MiniMax-M2": ("MiniMax-M2.5",),
    "BLOOM-176B": ("bloom",),
}


def database_text() -> str:
    """Return the model DB as JSON text, sorted by name."""
    models = [build_transformer(architecture) for architecture in ARCHITECTURES] + [build_resnet50()]
    models.sort(key=lambda model: model.name)
    entries = {model.name: entry_from_model(model, aliases=ALIASES.get(model.name, ())) for model in models}
    return json.dumps({"$schema": SCHEMA, **entries}, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write or check the file; return the exit code."""
    return write_or_check("the shipped model DB", {DATABASE.name: database_text()}, DATABASE.parent)


if __name__ == "__main__":
    sys.exit(main())
