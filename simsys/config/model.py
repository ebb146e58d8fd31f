"""The experiment file's `model`: a name, a Hugging Face configuration, sizes of an architecture, or layers."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid


class ModelConfig(FrozenModel):
    """The model: a name of the model DB, a Hugging Face ``config.json``, an architecture, or layers.

    Exactly one of ``name``, ``huggingface``, ``layers`` and ``model_type`` with its sizes. A Hugging Face model of an
    unknown type can be read as a known type: `assume` names it, such as ``llama``. With a name or a ``config.json``,
    `num_layers` keeps only the first layers, as in proxies of large models.
    """

    name: str | None = Field(
        default=None, description="Model of the model DB (simsys list models), or its Hugging Face repository"
    )
    huggingface: str | None = Field(default=None, description="config.json of a Hugging Face model, or its folder")
    assume: str | None = Field(
        default=None, description="Model type as which an unknown Hugging Face model is read, such as llama"
    )
    model_type: str | None = Field(
        default=None, description="Architecture that the sizes describe, such as gpt or llama"
    )
    num_layers: PositiveInt | None = Field(
        default=None, description="Layers; of a model with a name, only its first layers are used"
    )
    hidden_size: PositiveInt | None = Field(default=None, description="Size of the hidden states")
    num_attention_heads: PositiveInt | None = Field(default=None, description="Attention heads")
    num_key_value_heads: PositiveInt | None = Field(
        default=None, description="Heads of keys and values; by default the number of attention heads"
    )
    intermediate_size: PositiveInt | None = Field(default=None, description="Inner size of the feed-forward layers")
    vocab_size: PositiveInt | None = Field(default=None, description="Size of the vocabulary")
    sequence_length: PositiveInt | None = Field(
        default=None, description="Tokens of a training sequence; by default the context of the model"
    )
    decoder_sequence_length: PositiveInt | None = Field(
        default=None, description="Tokens of a target sequence of an encoder-decoder"
    )
    tied_embeddings: bool | None = Field(
        default=None, description="Whether the head uses the weights of the embedding, of a model given by its sizes"
    )
    dropout: bool | None = Field(
        default=None, description="Whether training uses dropout, of a model given by its sizes"
    )
    layers: list[dict[str, Any]] | None = Field(
        default=None, description="Layers one by one, each with its kind and sizes"
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [key for key in ("name", "huggingface", "model_type", "layers") if getattr(self, key) is not None]
        if self.layers is not None and given in (["name", "layers"], ["model_type", "layers"]):
            given = ["layers"]
        if len(given) != 1:
            found = f"not {' and '.join(given)}" if given else "but none is"
            raise invalid(f"exactly one of name, huggingface, model_type and layers is to be given, {found}")
        if self.layers is not None and not self.layers:
            raise invalid("a model needs at least one layer")
        styled = next((key for key in ("tied_embeddings", "dropout") if getattr(self, key) is not None), None)
        if styled is not None and (self.model_type is None or self.layers is not None):
            raise invalid(f"{styled} is for a model that is given by its sizes; write model_type and its sizes too")
        if self.assume is not None and self.huggingface is None:
            raise invalid(
                "assume says how a Hugging Face configuration is read; write huggingface too or remove assume"
            )
        return self
