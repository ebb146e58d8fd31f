"""Times of the kernels of training on one device: products, attention, element-wise work, copies, launches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from simsys.lab.measure.shapes import LARGE_BYTES, MEDIUM_BYTES, MOST_FLOP, ROWS, WEIGHTS, Shapes
from simsys.lab.measure.timing import Timing, timed
from simsys.lab.models.loss import language_loss

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Kernels:
    """Measures kernels on one device.

    Args:
        shapes: Sizes of the model.
        device: The device.
        threads: Threads of the processor.
    """

    def __init__(self, shapes: Shapes, device: torch.device, threads: int) -> None:
        self.shapes, self.device, self.threads = shapes, device, threads

    def all(self) -> dict[str, Any]:
        """Everything, as data for JSON."""
        single = {
            "triad": self.triad(),
            "copy": self.copy(),
            "sum": self.sum(),
            "buffers": self.buffers(),
            "update": self.update(),
            "launch": self.launch(),
            "loss": self.loss(),
            **({"to_device": self.to_device()} if self.device.type == "cuda" else {}),
        }
        return {
            **{name: timing.as_dict() for name, timing in single.items()},
            "gemm": list(self.products()),
            **{
                name: {dtype: measure(dtype).as_dict() for dtype in DTYPES}
                for name, measure in (
                    ("attention", self.attention),
                    ("norm", self.norm),
                    ("activation", self.activation),
                )
            },
        }

    def products(self) -> Iterator[dict[str, Any]]:
        """Matrix products at the shapes of the model and some numbers of rows."""
        for dtype, kind in DTYPES.items():
            for inner, columns in self.shapes.products:
                for rows in ROWS:
                    if 2.0 * rows * inner * columns > MOST_FLOP and self.device.type == "cpu":
                        continue
                    x, w = self._random(rows, inner, dtype=kind), self._random(columns, inner, dtype=kind)
                    timing = self._timed(partial(functional.linear, x, w), 0.03)
                    yield {"dtype": dtype, "m": rows, "n": columns, "k": inner, **timing.as_dict()}

    def triad(self) -> Timing:
        """A sum of two buffers into a third, 3 · `LARGE_BYTES`."""
        x, y = self._random(LARGE_BYTES // 4), self._random(LARGE_BYTES // 4)
        out = torch.empty_like(x)
        return self._timed(lambda: torch.add(x, y, out=out))

    def copy(self) -> Timing:
        """A copy of one buffer to another, 2 · `LARGE_BYTES`."""
        x = self._random(LARGE_BYTES // 4)
        out = torch.empty_like(x)
        return self._timed(lambda: out.copy_(x))

    def sum(self) -> Timing:
        """A sum of two buffers into a new one, 3 · `MEDIUM_BYTES`, as training makes them."""
        x, y = self._random(MEDIUM_BYTES // 4), self._random(MEDIUM_BYTES // 4)
        return self._timed(lambda: x + y)

    def buffers(self) -> Timing:
        """A copy into a new buffer, 2 · `MEDIUM_BYTES`."""
        x = self._random(MEDIUM_BYTES // 4)
        return self._timed(x.clone)

    def update(self) -> Timing:
        """AdamW in one kernel on `WEIGHTS` weights, 28 bytes each."""
        weights = [self._random(WEIGHTS // 4).requires_grad_() for _ in range(4)]
        for each in weights:
            each.grad = torch.randn_like(each)
        return self._timed(torch.optim.AdamW(weights, fused=True).step)

    def launch(self) -> Timing:
        """A kernel that does next to nothing."""
        tiny = torch.zeros(8, device=self.device)
        return self._timed(lambda: tiny.add_(1.0))

    def to_device(self) -> Timing:
        """A copy of `LARGE_BYTES` from pinned memory of the host."""
        x = torch.randn(LARGE_BYTES // 4).pin_memory()
        return self._timed(lambda: x.to(self.device))

    def loss(self) -> Timing:
        """Both passes of the loss of a micro-batch, at most 4,096 tokens."""
        tokens = min(self.shapes.tokens, 4096)
        logits = self._random(tokens, self.shapes.vocab_size).requires_grad_()
        targets = torch.randint(self.shapes.vocab_size, (tokens,), device=self.device)
        return self._timed(lambda: torch.autograd.grad(language_loss(logits, targets), logits))

    def attention(self, dtype: str) -> Timing:
        """Both passes of attention over a micro-batch."""
        shapes, kind = self.shapes, DTYPES[dtype]
        size = shapes.batch_size, shapes.heads, shapes.length, shapes.head_size
        query, key, value = (self._random(*size, dtype=kind).requires_grad_() for _ in range(3))
        upstream = self._random(*size, dtype=kind)

        def both() -> object:
            out = functional.scaled_dot_product_attention(query, key, value, is_causal=shapes.causal)
            return torch.autograd.grad(out, (query, key, value), upstream)

        return self._timed(both)

    def norm(self, dtype: str) -> Timing:
        """Both passes of a residual sum and its norm; with mixed precision, with the casts around them."""
        width, kind = self.shapes.hidden_size, DTYPES[dtype]
        x, y = self._random(self.shapes.tokens, width), self._random(self.shapes.tokens, width, dtype=kind)
        weight, bias = torch.ones(width, device=self.device), torch.zeros(width, device=self.device)
        inputs = [x.requires_grad_(), y.requires_grad_(), weight.requires_grad_()]
        upstream = [torch.randn_like(x), torch.randn_like(y)]

        def both() -> object:
            total = x + y
            if self.shapes.layer_norm:
                normed = functional.layer_norm(total, (width,), weight, bias)
            else:
                normed = functional.rms_norm(total, (width,), weight)
            return torch.autograd.grad((total, normed.to(kind)), inputs, upstream)

        return self._timed(both)

    def activation(self, dtype: str) -> Timing:
        """Both passes of the activation function."""
        width, kind = self.shapes.intermediate_size, DTYPES[dtype]
        columns = 2 * width if self.shapes.gated else width
        x = self._random(self.shapes.tokens, columns, dtype=kind).requires_grad_()
        upstream = self._random(self.shapes.tokens, width, dtype=kind)

        def both() -> object:
            if not self.shapes.gated:
                return torch.autograd.grad(functional.gelu(x, approximate="tanh"), x, upstream)
            gate, up = x.chunk(2, dim=-1)
            return torch.autograd.grad(functional.silu(gate) * up, x, upstream)

        return self._timed(both)

    def _random(self, *size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(*size, device=self.device).to(dtype)

    def _timed(self, call: Callable[[], object], budget_s: float = 0.3) -> Timing:
        finish = torch.cuda.synchronize if self.device.type == "cuda" else lambda: None
        return timed(call, threads=self.threads, budget_s=budget_s, finish=finish)
