"""Models from the ``config.json`` that Hugging Face checkpoints carry; nothing is downloaded.

Every key of a file is used, known to change no cost, or named in a warning. What a model is made of is modelled or
refused by name; what is left out on purpose (vision towers, layers that predict further tokens) is named with its
size.
"""

from simsys.model.huggingface.checkpoint import Checkpoint, model_of, read_checkpoint
from simsys.model.huggingface.config_file import CONFIG_NAME

__all__ = ["CONFIG_NAME", "Checkpoint", "model_of", "read_checkpoint"]
