"""Storage of the weights of a published checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

INT8_ARITHMETIC = "int8"


@dataclass(frozen=True, slots=True)
class Quantization:
    """Storage of the weights of a published checkpoint.

    Args:
        method: The name of the method in the file, such as ``awq``.
        text: Its description in messages, such as ``AWQ, 4 bit in groups of 128``.
        weights: Precision of linear layers, a key of `simsys.model.precision.WEIGHT_BYTES`; empty if it is not
            modelled.
        weight_bytes: Bytes of one such weight, scales included.
        compute: ``half`` if kernels always compute in 16 bit, ``int8`` if in 8-bit integers where these are faster;
            empty for the default of `weights`.
        kv: Precision of the KV cache in the checkpoint; empty for 16 bit.
        unquantized: Names of linear operators whose weights stay in 16 bit.
        quantized_head: Whether the head is quantised too.
        trainable: True if training can start from it with weights converted to 16 bit.
        problem: The reason why it cannot be simulated; empty if it can.
    """

    method: str
    text: str
    weights: str = ""
    weight_bytes: float = 0.0
    compute: str = ""
    kv: str = ""
    unquantized: frozenset[str] = frozenset()
    quantized_head: bool = False
    trainable: bool = False
    problem: str = ""
