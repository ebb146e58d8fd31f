"""The numbers that define a transformer."""

from __future__ import annotations

from dataclasses import dataclass, fields

from simsys.errors import UsageError

_MAY_BE_ZERO = {
    *("decoder_layers", "decoder_sequence_length", "token_types"),
    *("expert_intermediate_size", "shared_experts", "expert_latent_size"),
    *("dense_layers_first", "dense_layers_between"),
    *("q_lora_rank", "kv_lora_rank", "qk_nope_head_size", "qk_rope_head_size", "v_head_size"),
    *("window_layers", "sliding_window", "index_tokens", "index_heads", "index_head_size"),
    *("linear_layers", "linear_key_heads", "linear_value_heads", "linear_head_size"),
    *("mamba_layers", "mamba_heads", "mamba_head_size", "mamba_state_size", "mamba_groups", "mlp_layers"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerArchitecture:
    """The numbers that define a transformer; sizes are in elements.

    Args:
        name: Name of the model.
        num_layers: Transformer layers; layers of the encoder in an encoder-decoder.
        decoder_layers: Layers of a decoder that attends to the encoder's output (0: there is none).
        decoder_sequence_length: Tokens of such a decoder's training sequence by default (0: as many as the encoder's).
        hidden_size: Width of the residual stream.
        num_attention_heads: Query heads.
        num_key_value_heads: Key and value heads (= query heads without grouping).
        head_size: Width of one head; not always hidden_size / heads.
        intermediate_size: Width of the dense MLP.
        gated_mlp: True for three matrices (SwiGLU), False for two.
        vocab_size: Rows of the embedding.
        tied_embeddings: True if the head uses the embedding's weights.
        max_context_tokens: Longest sequence.
        learned_positions: True if positions are a table of `max_context_tokens` rows.
        biases: True if linear layers and norms have biases (GPT-2, BERT), False for RMSNorm without (Llama).
        qkv_biases: True if only the query, key and value projections have biases (Qwen2).
        qk_norms: True if queries and keys are normalised per head (Qwen3).
        dropout: True if training uses dropout, whose masks are kept for the backward pass.
        causal: False for an encoder such as BERT, with attention to all tokens; also for an encoder-decoder.
        post_norm: True if norms follow the sums and the embedding (BERT, BART), False if they come first and last.
        token_types: Rows of the token-type embedding (BERT: 2).
        experts: Routed experts per mixture-of-experts layer (1: dense model).
        experts_per_token: Experts each token is routed to.
        expert_intermediate_size: MLP width of one expert.
        shared_experts: Experts that every token passes through, in addition to the routed ones.
        expert_latent_size: Width to which tokens are projected for the routed experts (0: they are not).
        dense_layers_first: Leading layers with a dense MLP.
        dense_layers_between: Further layers with a dense MLP, evenly spread among the others (Llama 4 Maverick).
        q_lora_rank: Latent width of the queries in multi-head latent attention (0: queries are not compressed).
        kv_lora_rank: Latent width of keys and values (0: no latent attention).
        qk_nope_head_size: Head width of queries and keys without position.
        qk_rope_head_size: Head width of queries and keys with rotary position.
        v_head_size: Head width of the values.
        window_layers: Layers that attend only to the last `sliding_window` tokens, evenly spread.
        sliding_window: Window of these layers.
        linear_layers: Layers with linear attention and a constant state, evenly spread.
        linear_key_heads: Query and key heads of these layers.
        linear_value_heads: Value heads of these layers.
        linear_head_size: Width of such a head.
        mamba_layers: Layers with a Mamba-2 mixer alone, evenly spread. A model with them has one mixer in each layer:
            Mamba, an MLP or experts, or attention (Nemotron-H).
        mamba_heads: Heads of a Mamba mixer.
        mamba_head_size: Width of such a head.
        mamba_state_size: State of each element of a head.
        mamba_groups: Groups of heads that share their inputs to and outputs from the state.
        mlp_layers: Layers of such a model with an MLP or experts alone; the layers with neither have attention.
        index_tokens: Keys that a query attends to, chosen by an indexer (DeepSeek sparse attention; 0: all keys).
        index_heads: Query heads of the indexer.
        index_head_size: Width of such a head, and of the indexer's key of a token.
        gated_attention: True if attention has an output gate as wide as the queries (Qwen3.5).
        sandwich_norms: True if the outputs of attention and MLP are normalised too (Gemma 2).
        source: Source of the numbers.

    Raises:
        UsageError: A size that is not positive, heads that do not divide, more experts per token than experts, or a
            decoder that does not fit its encoder.
    """

    name: str
    num_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_size: int
    intermediate_size: int
    gated_mlp: bool
    vocab_size: int
    tied_embeddings: bool
    max_context_tokens: int
    decoder_layers: int = 0
    decoder_sequence_length: int = 0
    learned_positions: bool = False
    biases: bool = False
    qkv_biases: bool = False
    qk_norms: bool = False
    dropout: bool = False
    causal: bool = True
    post_norm: bool = False
    token_types: int = 0
    experts: int = 1
    experts_per_token: int = 1
    expert_intermediate_size: int = 0
    shared_experts: int = 0
    expert_latent_size: int = 0
    dense_layers_first: int = 0
    dense_layers_between: int = 0
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_nope_head_size: int = 0
    qk_rope_head_size: int = 0
    v_head_size: int = 0
    window_layers: int = 0
    sliding_window: int = 0
    linear_layers: int = 0
    linear_key_heads: int = 0
    linear_value_heads: int = 0
    linear_head_size: int = 0
    mamba_layers: int = 0
    mamba_heads: int = 0
    mamba_head_size: int = 0
    mamba_state_size: int = 0
    mamba_groups: int = 0
    mlp_layers: int = 0
    index_tokens: int = 0
    index_heads: int = 0
    index_head_size: int = 0
    gated_attention: bool = False
    sandwich_norms: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        """Check the sizes against each other."""
        for item in fields(self):
            value = getattr(self, item.name)
            if not isinstance(value, int):
                continue
            if value < (0 if isinstance(value, bool) or item.name in _MAY_BE_ZERO else 1):
                raise UsageError(f"model {self.name}: {item.name} must be positive, got {value}")
        if self.num_attention_heads % self.num_key_value_heads:
            raise UsageError(
                f"model {self.name}: num_attention_heads ({self.num_attention_heads}) must be a multiple of "
                f"num_key_value_heads ({self.num_key_value_heads})"
            )
        if self.experts_per_token > self.experts:
            raise UsageError(
                f"model {self.name}: experts_per_token ({self.experts_per_token}) exceeds experts ({self.experts})"
            )
        if self.experts > 1 and not self.expert_intermediate_size:
            raise UsageError(f"model {self.name}: a mixture of experts needs expert_intermediate_size")
        if self.dense_layers > self.num_layers:
            raise UsageError(
                f"model {self.name}: the number of dense layers ({self.dense_layers}) exceeds num_layers "
                f"({self.num_layers})"
            )
        if self.kv_lora_rank and not (self.qk_nope_head_size and self.v_head_size):
            raise UsageError(f"model {self.name}: latent attention needs qk_nope_head_size and v_head_size")
        self._check_attention_kinds()
        self._check_decoder()

    def _check_attention_kinds(self) -> None:
        """Check the layers without full attention."""
        if (self.window_layers > 0) != (self.sliding_window > 0):
            raise UsageError(f"model {self.name}: window_layers goes with sliding_window")
        if self.linear_layers and not (self.linear_key_heads and self.linear_value_heads and self.linear_head_size):
            raise UsageError(
                f"model {self.name}: linear_layers needs linear_key_heads, linear_value_heads and linear_head_size"
            )
        if self.index_tokens and not (self.latent and self.index_heads and self.index_head_size):
            message = "index_tokens needs latent attention (kv_lora_rank), index_heads and index_head_size"
            raise UsageError(f"model {self.name}: {message}")
        self._check_mamba()
        if self.window_layers and self.linear_layers:
            raise UsageError(f"model {self.name}: window_layers and linear_layers cannot be combined")
        if self.window_layers + self.linear_layers > self.num_layers:
            raise UsageError(
                f"model {self.name}: {self.window_layers + self.linear_layers} window and linear layers exceed "
                f"num_layers ({self.num_layers})"
            )

    def _check_mamba(self) -> None:
        """Check the layers of a hybrid with Mamba."""
        sizes = (self.mamba_heads, self.mamba_head_size, self.mamba_state_size, self.mamba_groups, self.mlp_layers)
        if not self.mamba_layers:
            if any(sizes):
                raise UsageError(f"model {self.name}: mamba sizes and mlp_layers need mamba_layers")
            return
        if not all(sizes):
            message = "mamba_layers needs mamba_heads, mamba_head_size, mamba_state_size, mamba_groups and mlp_layers"
            raise UsageError(f"model {self.name}: {message}")
        if self.window_layers or self.linear_layers or self.dense_layers or self.latent or not self.causal:
            raise UsageError(f"model {self.name}: mamba_layers cannot be combined with other kinds of layers")
        if self.full_attention_layers < 0:
            raise UsageError(f"model {self.name}: mamba_layers and mlp_layers exceed num_layers ({self.num_layers})")

    def _check_decoder(self) -> None:
        """Check the decoder of an encoder-decoder."""
        if not self.decoder_layers:
            if self.decoder_sequence_length:
                raise UsageError(f"model {self.name}: decoder_sequence_length needs decoder_layers")
            return
        if self.causal:
            raise UsageError(f"model {self.name}: with decoder_layers, the encoder must not be causal")
        if self.experts > 1 or self.latent:
            what = "a mixture of experts" if self.experts > 1 else "latent attention"
            raise UsageError(f"model {self.name}: {what} cannot be combined with decoder_layers")
        if self.decoder_sequence_length > self.max_context_tokens:
            raise UsageError(
                f"model {self.name}: decoder_sequence_length ({self.decoder_sequence_length}) exceeds "
                f"max_context_tokens ({self.max_context_tokens})"
            )

    @property
    def latent(self) -> bool:
        """True for multi-head latent attention."""
        return self.kv_lora_rank > 0

    @property
    def dense_layers(self) -> int:
        """Layers of a mixture of experts that have a dense MLP."""
        return self.dense_layers_first + self.dense_layers_between

    @property
    def full_attention_layers(self) -> int:
        """Layers with full attention, whose cache grows with the context."""
        return self.num_layers - self.window_layers - self.linear_layers - self.mamba_layers - self.mlp_layers

    @property
    def kv_elements_per_layer(self) -> int:
        """KV-cache elements one token needs in one layer, with the indexer's key."""
        return self.attended_elements_per_layer + (self.index_head_size if self.index_tokens else 0)

    @property
    def attended_elements_per_layer(self) -> int:
        """KV-cache elements of a token that attention reads."""
        if self.latent:
            return self.kv_lora_rank + self.qk_rope_head_size
        return 2 * self.num_key_value_heads * self.head_size


def gpt_architecture(
    name: str,
    *,
    num_layers: int,
    hidden_size: int,
    num_attention_heads: int,
    vocab_size: int = 50257,
    max_context_tokens: int = 1024,
    source: str = "",
) -> TransformerArchitecture:
    """Return a decoder in the style of GPT-2: MLP of 4·hidden, biases, learned positions, tied embeddings, dropout.

    Raises:
        UsageError: The heads do not divide the hidden size.
    """
    if num_attention_heads < 1 or hidden_size % num_attention_heads:
        raise UsageError(
            f"model {name}: hidden_size ({hidden_size}) must be a multiple of num_attention_heads "
            f"({num_attention_heads})"
        )
    return TransformerArchitecture(
        name=name,
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_attention_heads=num_attention_heads,
        num_key_value_heads=num_attention_heads,
        head_size=hidden_size // num_attention_heads,
        intermediate_size=4 * hidden_size,
        gated_mlp=False,
        vocab_size=vocab_size,
        tied_embeddings=True,
        max_context_tokens=max_context_tokens,
        learned_positions=True,
        biases=True,
        dropout=True,
        source=source,
    )
