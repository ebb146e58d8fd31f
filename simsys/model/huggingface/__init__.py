"""Models from the ``config.json`` that Hugging Face checkpoints carry; nothing is downloaded.

Every key of a file is used, known to change no cost, or named in a warning. Parts of a model are modelled or refused
by name; omitted parts (vision towers, layers for multi-token prediction) are listed with their size.
"""

from simsys.model.huggingface.checkpoint import Checkpoint, model_of, read_checkpoint
from simsys.model.huggingface.config_file import CONFIG_NAME

__all__ = ["CONFIG_NAME", "Checkpoint", "model_of", "read_checkpoint"]
