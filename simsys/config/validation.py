"""Turns errors of pydantic into problems for people: at a line, in YAML's terms, with suggestions, all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar, cast, get_args

from pydantic import AliasChoices, BaseModel, ValidationError

from simsys.config.document import KeyPath, Mark
from simsys.config.error_text import Error, any_of, joined, not_one_of, quoted, sentence
from simsys.errors import ConfigError, Problem, did_you_mean, listed

M = TypeVar("M", bound=BaseModel)
_Schema = Mapping[str, Any]
_Located = tuple[KeyPath, Error]
"""The part of an error's location below the current schema, and the error."""
NOTHING_HERE = "; there is nothing to set here"


class Locate(Protocol):
    """Finds the place of a path's value or key; None where nothing is known."""

    def __call__(self, path: KeyPath, *, key: bool = False) -> Mark | None:
        """Return the place of a path, or None."""


class Source(Protocol):
    """Data with the places of its values: a document, or one scenario of it."""

    @property
    def data(self) -> dict[str, Any]:
        """The root mapping of the data."""

    @property
    def locate(self) -> Locate:
        """Finds the place of a path in the root mapping."""


def problem_at(source: Source | Mapping[str, Any], path: KeyPath, message: str, *, key: bool = False) -> Problem:
    """Return a problem at a path of a document or scenario; without a line if it is plain data.

    Args:
        source: A `Document`, a scenario, or a dict.
        path: The path of the value, such as ``("hardware", "gpu")``.
        message: The problem and the allowed values.
        key: Point at the key, not at the value.
    """
    mark = None if isinstance(source, Mapping) else source.locate(path, key=key)
    return (mark or Mark("")).problem(message, dotted(path))


def dotted(path: KeyPath) -> str:
    """Write a path for people.

    Example:
        >>> dotted(("pipeline", "stages", 0, "layers"))
        'pipeline.stages[0].layers'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def validate(source: Source | Mapping[str, Any], model_class: type[M], *, at: KeyPath = ()) -> M:
    """Validate (part of) a document, a scenario or plain data.

    Args:
        source: A `Document`, a scenario, or a dict.
        model_class: The pydantic model that the data should fit.
        at: The part to validate, such as ``("hardware",)``; all of it by default.

    Raises:
        ConfigError: With every problem found, each at its line.
    """
    data: Any = source if isinstance(source, Mapping) else source.data
    for depth, part in enumerate(at):
        if not isinstance(data, Mapping) or part not in data:
            raise ConfigError([problem_at(source, at[:depth], f"missing required key {str(part)!r}", key=True)])
        data = data[part]
    try:
        return model_class.model_validate(data)
    except ValidationError as error:
        translator = _Translator(source, model_class)
        errors: list[_Located] = [(found["loc"], cast(Error, found)) for found in error.errors(include_url=False)]
        translator.collect(model_class.__pydantic_core_schema__, errors, at)
        raise ConfigError(list(dict.fromkeys(translator.problems))) from None


def validate_all(sources: Iterable[Source], model_class: type[M]) -> list[M]:
    """Validate each scenario of a file; raises one `ConfigError` with the problems of all."""
    valid: list[M] = []
    problems: dict[Problem, None] = {}  # an ordered set: an error in the defaults is met once per scenario
    for source in sources:
        try:
            valid.append(validate(source, model_class))
        except ConfigError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise ConfigError(list(problems))
    return valid


class _Translator:
    """Walks a core schema and the errors' locations together, because a location also names union branches.

    The schema distinguishes keys from branches, which keys a model knows, and where a union's noise can be reduced.
    """

    def __init__(self, source: Source | Mapping[str, Any], root: type[BaseModel]) -> None:
        self.source, self.root = source, root
        self.problems: list[Problem] = []
        self._definitions: dict[str, _Schema] = {}

    def collect(self, schema: _Schema, errors: list[_Located], path: KeyPath) -> None:
        """Add a problem for each error at or below a path."""
        schema, model = self._unwrap(schema)
        below: dict[str | int, list[_Located]] = {}
        unknown = [loc[0] for loc, error in errors if len(loc) == 1 and error["type"] == "extra_forbidden"]
        meant_here = {str(_key_of(model, key)).split(".")[0] for key in unknown} if model is not None else set()
        for loc, error in errors:
            if not loc:
                self._add(path, error, schema, model)
            elif len(loc) == 1 and error["type"] == "missing":
                if loc[0] not in meant_here:  # else written under another name, which its own message says
                    self._say(path, f"missing required key {str(loc[0])!r}", key=True)
            elif len(loc) == 1 and error["type"] == "extra_forbidden":
                meant = self._near_key(loc[0], path, model)
                self._say((*path, loc[0]), f"unknown key {str(loc[0])!r}{meant}", key=True)
            else:
                below.setdefault(loc[0], []).append((loc[1:], error))
        if below and schema.get("type") == "union":
            self._collect_union(schema, below, path)
            return
        for part, inner in below.items():
            if schema.get("type") == "tagged-union":
                self.collect(schema["choices"].get(part, {}), inner, path)
            elif part == "[key]":
                for _, error in inner:
                    self._say(path, sentence(error), key=True)
            else:
                self.collect(_child(schema, part), inner, (*path, part))

    def _near_key(self, given: object, path: KeyPath, model: type[BaseModel] | None) -> str:
        """A suggestion for an unknown key at a path: the key that is meant, here or elsewhere, or the allowed keys."""
        if model is None:
            return ""
        if meant := _key_of(model, given):
            return f", did you mean {meant!r}?"
        fields, places = self.root.model_fields, dict[str, None]()
        for section, kind in _sections(self.root):
            if section not in path and (key := _key_of(kind, given)):
                places[key if key.split(".")[0] in fields else f"{section}.{key}"] = None
        if places:
            return f", did you mean {' or '.join(map(repr, places))}?"
        return did_you_mean(given, _accepted_keys(model)) or NOTHING_HERE

    def _say(self, path: KeyPath, message: str, *, key: bool = False) -> None:
        self.problems.append(problem_at(self.source, path, message, key=key))

    def _add(self, path: KeyPath, error: Error, schema: _Schema, model: type[BaseModel] | None) -> None:
        """Add a problem of the value at a path itself."""
        context = error.get("ctx", {})
        if error["type"] == "union_tag_not_found":
            message = (
                f"missing required key {context['discriminator']}, one of {', '.join(map(str, schema['choices']))}"
            )
            self._say(path, message, key=True)
        elif error["type"] == "union_tag_invalid":
            message = not_one_of(context["tag"], quoted(context["expected_tags"]))
            self._say((*path, context["discriminator"].strip("'")), message)
        elif model is not None and error["type"].startswith("model_"):
            keys = _accepted_keys(model)
            named = "name" in keys and isinstance(error["input"], str)
            more = f"write {{name: {error['input']}}}" if named else f"its keys: {listed(keys)}"
            self._say(path, f"{sentence(error)}; {more}")
        else:
            self._say(path, sentence(error))

    def _unwrap(self, schema: _Schema) -> tuple[_Schema, type[BaseModel] | None]:
        """Go through the layers that add nothing to a location; also return the innermost model class."""
        model: type[BaseModel] | None = None
        while True:
            kind = schema.get("type")
            if kind == "definitions":
                self._definitions |= {inner["ref"]: inner for inner in schema["definitions"]}
            if kind == "model":
                model = schema["cls"]
            if kind == "definition-ref":
                schema = self._definitions[schema["schema_ref"]]
            elif kind == "lax-or-strict":
                schema = schema["lax_schema"]
            elif "schema" in schema and kind != "model-field":
                schema = schema["schema"]
            else:
                return schema, model

    def _collect_union(self, schema: _Schema, branches: dict[str | int, list[_Located]], path: KeyPath) -> None:
        """Report the branch that fits best: it accepts the type of the value, and has the fewest errors."""
        entered = {label: errors for label, errors in branches.items() if all(loc for loc, _ in errors)}
        if not entered:
            self._say(path, any_of([error for errors in branches.values() for _, error in errors]))
            return
        kinds = _disputed_kind(list(entered.values()))
        if kinds and len(entered) > 1:
            self._say((*path, *kinds[0][0]), sentence(joined([error for _, error in kinds])))
            return
        best = min(entered, key=lambda label: (_disputed_kind([entered[label]]) != [], len(entered[label])))
        choices = [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
        in_order = len(choices) == len(branches)  # every branch failed, in order, unless two share a label
        self.collect(choices[list(branches).index(best)] if in_order else {}, branches[best], path)


def _child(schema: _Schema, part: str | int) -> _Schema:
    """Return the schema below one part of a location; empty if it is of no known kind."""
    kind = schema.get("type")
    if kind == "model-fields":
        for name, field in schema["fields"].items():
            alias = field.get("validation_alias", name)
            aliases = [alias] if isinstance(alias, str) else [choice[0] for choice in alias]
            if part == name or part in aliases:
                return cast(_Schema, field["schema"])
    if kind == "tuple" and isinstance(part, int):
        items = schema["items_schema"]
        return cast(_Schema, items[min(part, len(items) - 1)])
    return cast(_Schema, schema.get("values_schema" if kind == "dict" else "items_schema", {}))


def _key_of(model: type[BaseModel], given: object) -> str | None:
    """The key of a model that has this name, here or in another program, however its words are joined."""
    others: Mapping[str, str] = getattr(model, "other_names", {})
    meant = {_words_joined(name): key for name, key in others.items()}
    return (meant | {_words_joined(key): key for key in _accepted_keys(model)}).get(_words_joined(str(given)))


def _words_joined(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


def _sections(root: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """The keys of a model whose values are mappings with keys of their own."""
    for name, field in root.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield name, kind


def _accepted_keys(model: type[BaseModel]) -> list[str]:
    """Return the keys that a model accepts: names, and aliases where it has them."""
    by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
    keys: list[str] = []
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        aliases = alias.choices if isinstance(alias, AliasChoices) else [alias]
        named = [choice for choice in aliases if isinstance(choice, str)]
        keys += [*named, *([name] if by_name or not named else [])]
    return keys


def _disputed_kind(branches: list[list[_Located]]) -> list[_Located]:
    """Return the errors about a key, such as ``kind``, for which every branch requires a different fixed value."""
    found = [next(((loc, e) for loc, e in errors if e["type"] == "literal_error"), None) for errors in branches]
    disputed = [item for item in found if item is not None]
    same = len({loc for loc, _ in disputed}) == 1
    return disputed if same and len(disputed) == len(branches) else []
