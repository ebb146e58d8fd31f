"""What programs tables of measurements come from, as engine profiles."""

from __future__ import annotations

import re

_WORDS = (
    (r"megatron.?deepspeed|deepspeed|vtrain|bigscience|mt.?nlg", "deepspeed"),
    (r"nemo|bridge|megatron.?core|dgxc|mlperf.?(gpt3|llama)|simumax|transformer.?engine", "nemo"),
    (r"torchtitan", "torchtitan"),
    (r"fsdp|llm-foundry|mosaic|maxtext", "pytorch-fsdp"),
    (r"internevo|internlm", "internevo"),
    (r"hagemann|aleph", "scaling"),
    (r"mxnet|mlperf.?resnet", "mxnet"),
    (r"mlperf", "pytorch-graphs"),
    (r"megatron|narayanan|korthikanti", "megatron"),
)
"""The first that is found in what a table says of a row's program or source."""

OTHERWISE = "pytorch"


def engine_of(*said: str) -> str:
    """The engine profile for what a table says of a row, the most telling text first; plain PyTorch if nothing helps.

    Example:
        >>> engine_of("", "NVIDIA/NeMo docs"), engine_of("Megatron-LM README")
        ('nemo', 'megatron')
    """
    for text in said:
        for pattern, engine in _WORDS:
            if re.search(pattern, text, re.IGNORECASE):
                return engine
    return OTHERWISE
