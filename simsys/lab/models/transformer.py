"""Transformer decoders and encoders in PyTorch, from the sizes that the simulator uses.

Weights that the simulator counts as one operator are one matrix here, so that bytes of collectives are equal.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from simsys.lab.models.loss import language_loss
from simsys.lab.models.sizes import TransformerSizes, transformer_sizes
from simsys.model.model import MASKED, Model
from simsys.model.transformer import build_transformer
from simsys.model.transformer_architecture import gpt_architecture
from simsys.parallel.activations import Recompute

DROPOUT = 0.1
"""Share of dropped elements, of models that use dropout (Radford et al. 2019, Devlin et al. 2018)."""
INITIAL_DEVIATION = 0.02
ROTARY_BASE = 10_000.0


def norm_of(sizes: TransformerSizes, width: int | None = None) -> nn.Module:
    """A layer norm, or an RMS norm for models without biases."""
    width = width or sizes.hidden_size
    return nn.LayerNorm(width) if sizes.norm_biases else nn.RMSNorm(width, eps=1e-6)


class Embedding(nn.Module):
    """Tokens, learned positions and token types; with post-norm also the norm of their sum.

    Args:
        sizes: Sizes of the model.
    """

    def __init__(self, sizes: TransformerSizes) -> None:
        super().__init__()
        width = sizes.hidden_size
        self.tokens = nn.Embedding(sizes.vocab_size, width)
        self.positions = nn.Embedding(sizes.positions, width) if sizes.positions else None
        self.types = nn.Embedding(sizes.token_types, width) if sizes.token_types else None
        self.norm = norm_of(sizes) if sizes.post_norm else None
        self.dropout = nn.Dropout(DROPOUT) if sizes.dropout else None

    def forward(self, ids: Tensor) -> Tensor:
        """Hidden states (batch, length, width) of token numbers (batch, length)."""
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        if self.types is not None:
            x = x + self.types(torch.zeros_like(ids))
        x = x if self.norm is None else self.norm(x)
        return x if self.dropout is None else self.dropout(x)


class Attention(nn.Module):
    """Self-attention with grouped heads; `again` recomputes its core in the backward pass."""

    def __init__(self, sizes: TransformerSizes, *, again: bool = False) -> None:
        super().__init__()
        self.sizes, self.again = sizes, again
        width = sizes.num_attention_heads * sizes.head_size
        kv_width = sizes.num_key_value_heads * sizes.head_size
        self.qkv = nn.Linear(sizes.hidden_size, width + 2 * kv_width, bias=sizes.qkv_bias)
        self.query_norm = norm_of(sizes, sizes.head_size) if sizes.qk_norms else None
        self.key_norm = norm_of(sizes, sizes.head_size) if sizes.qk_norms else None
        self.output = nn.Linear(width, sizes.hidden_size, bias=sizes.biases)

    def forward(self, x: Tensor) -> Tensor:
        """As many hidden states as are given."""
        sizes = self.sizes
        batch, length, _ = x.shape
        heads, kv_heads = sizes.num_attention_heads, sizes.num_key_value_heads
        joint = self.qkv(x).view(batch, length, heads + 2 * kv_heads, sizes.head_size).transpose(1, 2)
        query, key, value = joint.split((heads, kv_heads, kv_heads), dim=1)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        if not sizes.positions:
            query, key = rotated(query), rotated(key)
        kept = checkpoint(self.core, query, key, value, use_reentrant=False) if self.again else None
        core = self.core(query, key, value) if kept is None else kept
        return self.output(core.transpose(1, 2).reshape(batch, length, -1))

    def core(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """The attention of each head."""
        grouped = self.sizes.num_key_value_heads < self.sizes.num_attention_heads
        return functional.scaled_dot_product_attention(
            query, key, value, is_causal=self.sizes.causal, enable_gqa=grouped
        )


def rotated(x: Tensor) -> Tensor:
    """Queries or keys (batch, heads, length, size) with rotary position embeddings (Su et al. 2021)."""
    half, length = x.shape[-1] // 2, x.shape[-2]
    rates = ROTARY_BASE ** -(torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = torch.arange(length, device=x.device, dtype=torch.float32)[:, None] * rates
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class FeedForward(nn.Module):
    """Two matrices with GELU, or three with SwiGLU, of which two are stored as one."""

    def __init__(self, sizes: TransformerSizes) -> None:
        super().__init__()
        self.gated, width = sizes.gated, sizes.intermediate_size
        self.up = nn.Linear(sizes.hidden_size, 2 * width if sizes.gated else width, bias=sizes.biases)
        self.down = nn.Linear(width, sizes.hidden_size, bias=sizes.biases)

    def forward(self, x: Tensor) -> Tensor:
        """As many hidden states as are given."""
        x = self.up(x)
        if self.gated:
            gate, up = x.chunk(2, dim=-1)
            return self.down(functional.silu(gate) * up)
        return self.down(functional.gelu(x, approximate="tanh"))


class TransformerBlock(nn.Module):
    """One layer.

    Args:
        sizes: Sizes of the model.
        recompute: What its backward pass recomputes: nothing, the attention core, or everything (``full``).
    """

    def __init__(self, sizes: TransformerSizes, recompute: Recompute = Recompute.NONE) -> None:
        super().__init__()
        self.post_norm, self.again = sizes.post_norm, recompute is Recompute.FULL
        self.attention_norm = norm_of(sizes)
        self.attention = Attention(sizes, again=recompute is Recompute.SELECTIVE)
        self.attention_output_norm = norm_of(sizes) if sizes.sandwich_norms else None
        self.mlp_norm = norm_of(sizes)
        self.mlp = FeedForward(sizes)
        self.mlp_output_norm = norm_of(sizes) if sizes.sandwich_norms else None
        self.dropout = nn.Dropout(DROPOUT) if sizes.dropout else None

    def forward(self, x: Tensor) -> Tensor:
        """As many hidden states as are given."""
        return checkpoint(self._both, x, use_reentrant=False) if self.again else self._both(x)

    def _both(self, x: Tensor) -> Tensor:
        x = self._sum(x, self.attention, self.attention_norm, self.attention_output_norm)
        return self._sum(x, self.mlp, self.mlp_norm, self.mlp_output_norm)

    def _sum(self, x: Tensor, part: nn.Module, norm: nn.Module, output_norm: nn.Module | None) -> Tensor:
        y = part(x if self.post_norm else norm(x))
        y = y if output_norm is None else output_norm(y)
        y = y if self.dropout is None else self.dropout(y)
        return norm(x + y) if self.post_norm else x + y


class Head(nn.Module):
    """The final norm, the projection to the vocabulary, and the pooler of an encoder."""

    def __init__(self, sizes: TransformerSizes) -> None:
        super().__init__()
        width = sizes.hidden_size
        self.pooler = nn.Linear(width, width) if sizes.pooler else None
        self.norm = None if sizes.post_norm else norm_of(sizes)
        self.projection = nn.Linear(width, sizes.vocab_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of hidden states."""
        return self.projection(x if self.norm is None else self.norm(x))

    def pooled_loss(self, x: Tensor) -> Tensor:
        """Loss of a binary classification of each sequence, whose answer is always the first of two classes.

        It gives the pooler a gradient, as the prediction of the next sentence does in BERT.
        """
        assert self.pooler is not None
        pooled = torch.tanh(self.pooler(x[:, 0]))
        return functional.cross_entropy(pooled[:, :2].float(), pooled.new_zeros(len(pooled), dtype=torch.long))


class SimpleModel(nn.Module):
    """A transformer: embedding, layers, head; its call returns the mean loss of a batch.

    Args:
        description: The model as the simulator knows it.
        recompute: What the backward pass recomputes.
    """

    def __init__(self, description: Model, recompute: Recompute = Recompute.NONE) -> None:
        super().__init__()
        self.description = description
        self.sizes = sizes = transformer_sizes(description)
        self.embedding = Embedding(sizes)
        self.layers = nn.ModuleList(TransformerBlock(sizes, _of_layer(recompute, i)) for i in range(sizes.num_layers))
        self.head = Head(sizes)
        self.apply(_initialise)
        if sizes.tied:
            self.head.projection.weight = self.embedding.tokens.weight

    @classmethod
    def of_sizes(
        cls, vocab_size: int = 4096, hidden_size: int = 384, num_layers: int = 6, num_heads: int = 6, length: int = 128
    ) -> SimpleModel:
        """A decoder in the style of GPT-2, without dropout and with a head of its own.

        Raises:
            UsageError: If the heads do not divide the hidden size.
        """
        from dataclasses import replace

        gpt = gpt_architecture(
            "SimpleModel",
            num_layers=num_layers,
            hidden_size=hidden_size,
            num_attention_heads=num_heads,
            vocab_size=vocab_size,
            max_context_tokens=length,
        )
        return cls(build_transformer(replace(gpt, tied_embeddings=False, dropout=False)))

    def units(self) -> list[list[nn.Module]]:
        """The parts whose weights FSDP gathers together, in the order of the forward pass.

        They are the blocks of the description; a weight that embedding and head share makes one unit of them.
        """
        if self.sizes.tied:
            return [[self.embedding, self.head], *([layer] for layer in self.layers)]
        return [[self.embedding], *([layer] for layer in self.layers), [self.head]]

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of predicting `targets`, of the same shape as `ids`.

        A decoder predicts all tokens, an encoder a share of them (`simsys.model.model.MASKED`), evenly spread.
        """
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        if self.sizes.causal:
            return language_loss(self.head(x), targets)
        places = masked_places(ids.shape[1], x.device)
        loss = language_loss(self.head(x[:, places]), targets[:, places])
        return loss + self.head.pooled_loss(x) if self.sizes.pooler else loss


def _of_layer(recompute: Recompute, index: int) -> Recompute:
    """What one layer recomputes; of every second layer everything, if it is half."""
    if recompute is not Recompute.HALF:
        return recompute
    return Recompute.FULL if index % 2 else Recompute.NONE


def masked_places(length: int, device: torch.device) -> Tensor:
    """The predicted places of a sequence of an encoder."""
    count = max(1, round(MASKED * length))
    return torch.arange(count, device=device) * length // count


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=INITIAL_DEVIATION)
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)
