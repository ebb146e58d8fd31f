"""The transformers of ``model_db/architectures.yaml``, from which the shipped model DB is generated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from pydantic import Field, create_model

from simsys.config.base import FrozenModel
from simsys.config.document import Document, KeyPath, Mark, read_document
from simsys.config.validation import problem_at, validate
from simsys.data import shipped_folder
from simsys.errors import ConfigError, Problem, UsageError
from simsys.model.transformer_architecture import TransformerArchitecture

FILENAME = "architectures.yaml"


class Family(FrozenModel):
    """Models of one paper or model card.

    Args:
        urls: Addresses of the paper and the model card.
        common: Keys of all models of the family; the keys of a model come first.
        models: Keys by name of the model.
    """

    urls: Annotated[tuple[Annotated[str, Field(pattern="^https://")], ...], Field(min_length=1)]
    common: dict[str, Any] = Field(default_factory=dict)
    models: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]


class Families(FrozenModel):
    """The whole file: families by name."""

    families: Annotated[dict[str, Family], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model of the file.

    Args:
        architecture: The numbers that define it.
        aliases: Further names of the same architecture.
        quantization_config: How its checkpoint stores weights, as in its ``config.json``; None for 16 bit.
    """

    architecture: TransformerArchitecture
    aliases: tuple[str, ...] = ()
    quantization_config: Mapping[str, Any] | None = None


def listed_models(path: Path | None = None) -> tuple[ListedModel, ...]:
    """Return the models of a file of architectures, in its order.

    Args:
        path: The file; the shipped one by default.

    Raises:
        ConfigError: With every problem of the file, each at its line.
    """
    return _read(shipped_folder("model_db") / FILENAME if path is None else path)


def listed_architectures(path: Path | None = None) -> tuple[TransformerArchitecture, ...]:
    """Return the architectures of `listed_models`, without their aliases."""
    return tuple(listed.architecture for listed in listed_models(path))


@cache
def _read(path: Path) -> tuple[ListedModel, ...]:
    document = read_document(path)
    families = validate(document, Families).families
    entries = [_Entry(document, family, name) for family, content in families.items() for name in content.models]
    found: list[ListedModel] = []
    problems: list[Problem] = []
    for entry in entries:
        try:
            found.append(_model(entry))
        except ConfigError as error:
            problems += error.problems
    problems += [] if problems else _used_twice(zip(entries, found, strict=True))
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return tuple(found)


class _Entry:
    """The keys of a model merged over the common keys of its family, each with its place in the file."""

    def __init__(self, document: Document, family: str, name: str) -> None:
        content = document.data["families"][family]
        self.name = name
        self.own: Mapping[str, Any] = content["models"][name]
        self.data: dict[str, Any] = {**content.get("common", {}), **self.own}
        self._document, self._family = document, ("families", family)

    def locate(self, path: KeyPath, *, key: bool = False) -> Mark | None:
        """The place of a key or value: in the model, or in the common keys of the family."""
        shared = bool(path) and path[0] not in self.own
        part: KeyPath = ("common",) if shared else ("models", self.name)
        return self._document.locate((*self._family, *part, *path), key=key)


def _keys() -> Mapping[str, Any]:
    """The fields of an architecture, apart from its name, as keys of the file; a source has to be stated."""
    types = get_type_hints(TransformerArchitecture)
    return {
        spec.name: (types[spec.name], ... if spec.default is MISSING or spec.name == "source" else spec.default)
        for spec in fields(TransformerArchitecture)
        if spec.name != "name"
    }


_Keys: type[FrozenModel] = create_model(
    "Architecture",
    __base__=FrozenModel,
    aliases=(tuple[str, ...], ()),
    quantization_config=(dict[str, Any] | None, None),
    **_keys(),
)


def _model(entry: _Entry) -> ListedModel:
    values = validate(entry, _Keys).model_dump()
    aliases, quantization_config = values.pop("aliases"), values.pop("quantization_config")
    try:
        return ListedModel(TransformerArchitecture(name=entry.name, **values), aliases, quantization_config)
    except UsageError as error:
        raise ConfigError([problem_at(entry, (), str(error), key=True)]) from None


def _used_twice(models: Iterable[tuple[_Entry, ListedModel]]) -> Iterator[Problem]:
    """Problems of names that are used by two models, or listed twice for one model."""
    first: dict[str, str] = {}
    for entry, listed in models:
        for name in (entry.name, *listed.aliases):
            if name in first:
                yield problem_at(entry, (), f"the name {name!r} is already one of {first[name]}", key=True)
            first.setdefault(name, entry.name)
