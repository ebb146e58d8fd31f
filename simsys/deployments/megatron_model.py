"""The arguments of Megatron-LM that describe a decoder, and the models of the DB with these arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from simsys.config.architectures import listed_models
from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Correspondence, InexpressibleError, Options, Settings
from simsys.deployments.deployment import Deployment
from simsys.errors import UsageError
from simsys.model.transformer_architecture import TransformerArchitecture

ROTARY = {
    "position-embedding-type": "rope",
    "normalization": "RMSNorm",
    "swiglu": True,
    "disable-bias-linear": True,
    "attention-dropout": 0.0,
    "hidden-dropout": 0.0,
}
"""What Llama and its relatives have instead of the parts of GPT-2."""


def model_arguments(architecture: TransformerArchitecture) -> Options | None:
    """The arguments of a decoder like GPT-2 or Llama; None for other architectures.

    Args:
        architecture: The numbers that define the model.
    """
    like_gpt = architecture.biases and architecture.learned_positions and not architecture.gated_mlp
    like_llama = architecture.gated_mlp and not architecture.biases and not architecture.learned_positions
    if not (like_gpt or like_llama) or _has_other_parts(architecture):
        return None
    found: Options = {
        "num-layers": architecture.num_layers,
        "hidden-size": architecture.hidden_size,
        "ffn-hidden-size": architecture.intermediate_size,
        "num-attention-heads": architecture.num_attention_heads,
        "kv-channels": architecture.head_size,
        "max-position-embeddings": architecture.max_context_tokens,
        "vocab-size": architecture.vocab_size,
    }
    if architecture.num_key_value_heads != architecture.num_attention_heads:
        found |= {"group-query-attention": True, "num-query-groups": architecture.num_key_value_heads}
    found |= ROTARY if like_llama else {}
    if like_gpt and not architecture.dropout:
        found |= {"attention-dropout": 0.0, "hidden-dropout": 0.0}
    flags = {
        "untie-embeddings-and-output-weights": not architecture.tied_embeddings,
        "add-qkv-bias": architecture.qkv_biases,
        "qk-layernorm": architecture.qk_norms,
    }
    found |= {name: True for name, given in flags.items() if given}
    if architecture.experts > 1:
        found |= {
            "num-experts": architecture.experts,
            "moe-router-topk": architecture.experts_per_token,
            "moe-ffn-hidden-size": architecture.expert_intermediate_size,
            "moe-grouped-gemm": True,
            "moe-token-dispatcher-type": "alltoall",
        }
    if architecture.experts > 1 and architecture.dense_layers_first:
        dense = architecture.dense_layers_first
        found["moe-layer-freq"] = f"([0]*{dense}+[1]*{architecture.num_layers - dense})"
    if architecture.shared_experts:
        width = architecture.shared_experts * architecture.expert_intermediate_size
        found["moe-shared-expert-intermediate-size"] = width
    return {**found, **_latent_attention(architecture)}


def _latent_attention(architecture: TransformerArchitecture) -> Options:
    """The arguments of multi-head latent attention."""
    if not architecture.latent:
        return {}
    return {
        "multi-latent-attention": True,
        "qk-layernorm": True,
        **({"q-lora-rank": architecture.q_lora_rank} if architecture.q_lora_rank else {}),
        "kv-lora-rank": architecture.kv_lora_rank,
        "qk-head-dim": architecture.qk_nope_head_size,
        "qk-pos-emb-head-dim": architecture.qk_rope_head_size,
        "v-head-dim": architecture.v_head_size,
    }


def _has_other_parts(architecture: TransformerArchitecture) -> bool:
    """Whether a decoder has parts that these arguments do not describe."""
    numbers = (
        *(architecture.decoder_layers, architecture.token_types, architecture.mamba_layers),
        *(architecture.dense_layers_between, architecture.index_tokens),
        *(architecture.window_layers, architecture.linear_layers),
    )
    others = (not architecture.causal, architecture.post_norm, architecture.gated_attention)
    return any(numbers) or any(others) or architecture.sandwich_norms


@cache
def _arguments() -> dict[str, Options]:
    """Arguments by name of the model, for all models of the DB that have them."""
    found = {each.architecture.name: model_arguments(each.architecture) for each in listed_models()}
    return {name: arguments for name, arguments in found.items() if arguments is not None}


SIZES = {
    "num-layers": "num_layers",
    "hidden-size": "hidden_size",
    "num-attention-heads": "num_attention_heads",
    "num-query-groups": "num_key_value_heads",
    "ffn-hidden-size": "intermediate_size",
    "vocab-size": "vocab_size",
}
"""Arguments that are sizes of a model given by its sizes."""
DISTINGUISHING = (
    *SIZES,
    "swiglu",
    "num-experts",
    "moe-router-topk",
    "moe-ffn-hidden-size",
    "kv-lora-rank",
    "q-lora-rank",
)
"""Arguments by which decoders are distinguished; scripts leave others out."""
POSITIONS = "max-position-embeddings"
USUAL = ("ffn-hidden-size", "vocab-size")
"""Of these, those that Megatron-LM derives from others or from the tokenizer."""


def model_of_arguments(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The section ``model`` of the arguments of a script: a decoder of the model DB, or else its sizes.

    What is assumed follows, since scripts leave the size of the vocabulary to the tokenizer.

    Args:
        options: Arguments by name, of which scripts leave many out.

    Raises:
        UsageError: Sizes are missing, or a mixture of experts is none of the model DB.
    """
    missing = [name for name in (*list(SIZES)[:3], "seq-length") if name not in options]
    if missing:
        raise UsageError(f"the command does not give {', '.join(f'--{name}' for name in missing)}")
    found = [
        name
        for name, arguments in _arguments().items()
        if all(options.get(key) == arguments.get(key) for key in DISTINGUISHING if key in options or key not in USUAL)
    ]
    if found:
        name = max(found, key=lambda name: options.get(POSITIONS) == _arguments()[name][POSITIONS])
        assumed = [] if "vocab-size" in options else [f"model.name: {name}, which has these sizes"]
        return {"name": name, "sequence_length": options["seq-length"]}, assumed
    if "num-experts" in options or "multi-latent-attention" in options:
        raise UsageError("no model of the model DB has these sizes; other mixtures of experts cannot be read")
    kind = "llama" if options.get("swiglu") else "gpt"
    sizes = {setting: options[name] for name, setting in SIZES.items() if name in options}
    assumed = [] if "vocab-size" in options else ["model.vocab_size: the usual one of simsys"]
    return {"model_type": kind, **sizes, "sequence_length": options["seq-length"]}, assumed


@dataclass(frozen=True)
class DecoderArguments(Correspondence):
    """The sizes of a decoder of the model DB, and the length of training sequences."""

    paths: ClassVar[tuple[str, ...]] = (
        *("model.name", "model.sequence_length", "model.huggingface", "model.model_type", "model.layers"),
        *("model.num_layers", "model.hidden_size", "model.num_attention_heads", "model.num_key_value_heads"),
        *("model.intermediate_size", "model.vocab_size"),
    )

    @property
    def options(self) -> tuple[str, ...]:
        """All options of any model."""
        names = dict.fromkeys(name for arguments in _arguments().values() for name in arguments)
        return (*names, "seq-length")

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The arguments, with room for the positions of the sequence."""
        model = deployment.model
        arguments = _arguments().get(model.name) if "model.name" in settings else None
        if arguments is None or "model.layers" in settings:
            path = "model.name" if "model.name" in settings else "model"
            known = "only decoders of the model DB that are built like GPT-2 or Llama"
            raise InexpressibleError(path, f"{model.name} cannot be expressed, {known}")
        length = settings.get("model.sequence_length", model.sequence_length)
        if length > arguments["max-position-embeddings"]:
            message = f"{length} tokens cannot be expressed, as the model has {arguments['max-position-embeddings']}"
            raise InexpressibleError("model.sequence_length", message)
        return {**arguments, "seq-length": length}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The model with these arguments, preferably that of the given scenario."""
        given = {name: value for name, value in options.items() if name in self.options and name != "seq-length"}
        names = [name for name, arguments in _arguments().items() if arguments == given]
        if not names:
            raise UsageError("no model of the model DB has these sizes")
        name = like.model.name if like.model.name in names else names[0]
        return {"model.name": name, "model.sequence_length": options["seq-length"]}
