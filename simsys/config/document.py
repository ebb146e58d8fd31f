"""Reads YAML files with the place of every key and value, so that an error can point at its line.

The values follow the core schema of YAML 1.2 (section 10.3): only ``true``/``false`` are booleans (``no`` and ``on``
are text), ``1e9`` and ``.5`` are numbers, ``012`` is 12, and ``12:30`` and dates are text. Keys are always text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import yaml

from simsys.errors import ConfigError, Problem
from simsys.input_files import ContentError, read_bytes, text_of

KeyPath = tuple[str | int, ...]
"""Path of a value inside a document: keys of mappings and indexes of lists, from the root."""

MAX_BYTES = 4 * 2**20
MAX_NODES = 100_000
MAX_DEPTH = 64

_PLAIN = "plain"  # the tag of a scalar that was written without quotes and without a tag
_STANDARD = "tag:yaml.org,2002:"
_ALLOWED_TAGS = {_PLAIN, _STANDARD + "str", _STANDARD + "map", _STANDARD + "seq"}
_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_INTEGER = re.compile(r"[-+]?[0-9]{1,400}")
_OCTAL_OR_HEX = re.compile(r"0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {"": None, "~": None} | {
    spelling: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for spelling in (word, word.capitalize(), word.upper())
}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the C parser where it was built
    """Parses YAML and leaves the meaning of plain scalars to `plain_value`."""

    yaml_implicit_resolvers = {None: [(_PLAIN, re.compile(""))]}  # noqa: RUF012  # PyYAML's own class attribute


@dataclass(frozen=True, slots=True)
class Mark:
    """Line and column in a file, counted from 1, with the source line; `line` 0 means the whole of `file`."""

    file: str
    line: int = 0
    column: int = 0
    source: str = ""

    def problem(self, message: str, path: str = "") -> Problem:
        """Return a problem at this place."""
        return Problem(message, path, self.file, self.line, self.column, self.source)


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A parsed file. It may be shared, so do not change it.

    Args:
        name: The file's name as the user wrote it.
        data: The root mapping.
        marks: Where each key and each value stands.
    """

    name: str
    data: dict[str, Any]
    marks: dict[KeyPath, tuple[Mark, Mark]]

    def mark(self, path: KeyPath, *, key: bool = False) -> Mark | None:
        """Return the place of exactly this value (or of its key), or None if the document has no such path."""
        marks = self.marks.get(path)
        return marks and marks[0 if key else 1]

    def locate(self, path: KeyPath, *, key: bool = False) -> Mark | None:
        """Return the place of a value (or of its key), or of the nearest mapping or list around it."""
        found = self.mark(path, key=key)
        return found if found or not path else self.locate(path[:-1], key=True)


def read_document(path: Path) -> Document:
    """Read a YAML file.

    Raises:
        ConfigError: The file cannot be read, is not UTF-8 text, is larger than 4 MiB, or is not the YAML that
            `parse_document` accepts.
    """
    whole = Mark(str(path))
    try:
        content = read_bytes(path, MAX_BYTES)
        if b"\0" in content:
            line = content.count(b"\n", 0, content.index(b"\0")) + 1
            raise ContentError("this is a binary file (it holds NUL bytes), not YAML text", line)
        text = text_of(content)
    except OSError as error:
        raise ConfigError([whole.problem(_why_unreadable(error))]) from None
    except ContentError as error:
        raise ConfigError([Mark(whole.file, error.line, error.column).problem(str(error))]) from None
    except ValueError as error:
        reason = f"cannot be read: {error}" if "\0" in whole.file else str(error)
        raise ConfigError([whole.problem(reason)]) from None
    return parse_document(text, whole.file)


def unchanged_document(path: Path) -> Document:
    """Return a parsed file: the same object on each call, until the file has changed."""
    status = path.stat()
    return _read_version(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _read_version(path: Path, mtime_ns: int, nbytes: int) -> Document:
    return read_document(path)


def _why_unreadable(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "this is a directory, a YAML file is needed"
    if isinstance(error, PermissionError):
        return "no permission to read this file"
    return f"cannot be read: {error.strerror or error}"


def parse_document(text: str, name: str) -> Document:
    """Parse the text of a YAML file whose root is a mapping.

    Args:
        text: The text, with or without a byte order mark.
        name: Name of the file in messages.

    Raises:
        ConfigError: Syntax error, duplicate keys, tags, several documents, an anchor inside itself, too many or too
            deeply nested values, or a root that is not a mapping.
    """
    builder = _Builder(text.removeprefix("\ufeff"), name)
    node = builder.compose()
    data = None if node is None else builder.build(node, ())
    if data is None:
        builder.fail("the file is empty", Mark(name, 1, 1))
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "a single value"
        builder.fail(f"the file must hold a mapping ('key: value' lines), not {kind}", builder.mark(node))
    if builder.problems:
        raise ConfigError(list(dict.fromkeys(builder.problems)))
    return Document(name, data, builder.marks)


def parse_value(text: str, name: str) -> Any:
    """Parse one YAML value, such as the right side of a setting on the command line; raises as `parse_document`."""
    builder = _Builder(text, name)
    node = builder.compose()
    value = None if node is None else builder.build(node, ())
    if builder.problems:
        raise ConfigError(builder.problems)
    return value


def plain_value(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar in the core schema of YAML 1.2 (section 10.3.2)."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL_OR_HEX.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


class _Builder:
    """Turns one text into data and marks. Problems are collected; parsing stops only where the rest cannot be read."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.lines = _LINE_BREAK.split(text)
        self.marks: dict[KeyPath, tuple[Mark, Mark]] = {}
        self.problems: list[Problem] = []
        self._built = 0
        self._open: set[int] = set()

    def mark(self, node: Any) -> Mark:
        """Return the place of a node or event, or of a PyYAML mark."""
        at = getattr(node, "start_mark", node)
        source = self.lines[at.line] if at.line < len(self.lines) else ""
        return Mark(self.name, at.line + 1, at.column + 1, source.replace("\t", " ") if len(source) <= 200 else "")

    def fail(self, message: str, mark: Mark) -> NoReturn:
        raise ConfigError([*self.problems, mark.problem(message)])

    def compose(self) -> Any:
        """Parse the text to PyYAML's nodes; None if it is empty."""
        if control := _CONTROL.search(self.text):
            line = len(_LINE_BREAK.findall(self.text, 0, control.start())) + 1
            code = f"U+{ord(control[0]):04X}"
            self.fail(f"this is not plain text: it holds the control character {code}", Mark(self.name, line))
        try:
            self._check_shape()
            return yaml.compose(self.text, Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Mark(self.name) if mark is None else self.mark(mark)
            if mark is not None and self.text[mark.index : mark.index + 1] == "\t":
                self.fail("a tab cannot indent YAML; use spaces", place)
            if "nesting depth" in (error.problem or ""):  # a limit of newer parsers, which read far ahead
                self.fail(f"nested deeper than {MAX_DEPTH} levels", place)
            began = f" ({error.context}, line {error.context_mark.line + 1})" if error.context_mark else ""
            self.fail(f"not valid YAML: {error.problem or error.context}{began}", place)
        except yaml.YAMLError as error:
            self.fail(f"not valid YAML: {getattr(error, 'reason', None) or 'it cannot be parsed'}", Mark(self.name))

    def _check_shape(self) -> None:
        """Refuse several documents, deep nesting and too many values before recursive code reads the text."""
        depth = documents = 0
        for number, event in enumerate(yaml.parse(self.text, Loader=_Loader)):
            if number > 4 * MAX_NODES:  # a value has at most four events: its key, itself, a begin and an end
                self.fail(f"more than {MAX_NODES:,} values", self.mark(event))
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    self.fail(f"nested deeper than {MAX_DEPTH} levels", self.mark(event))
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self.fail("a file holds one YAML document; a second one begins here", self.mark(event))

    def build(self, node: Any, path: KeyPath, key: Any = None) -> Any:
        """Return the data of a node and record its place."""
        self._count(node)
        if len(path) > MAX_DEPTH:
            self.fail(f"nested deeper than {MAX_DEPTH} levels once its anchors are expanded", self.mark(node))
        if id(node) in self._open:
            self.fail("an anchor is used inside itself", self.mark(node))
        self.marks[path] = (self.mark(key or node), self.mark(node))
        self._check_tag(node)
        if isinstance(node, yaml.ScalarNode):
            return plain_value(node.value) if node.tag == _PLAIN else node.value
        self._open.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            data: Any = [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        else:
            pairs = self._pairs(node).values()
            data = {name.value: self.build(value, (*path, name.value), name) for name, value in pairs}
        self._open.discard(id(node))
        return data

    def _count(self, node: Any, values: int = 1) -> None:
        """Limit the number of values that anchors expand to."""
        self._built += values
        if self._built > MAX_NODES:
            self.fail(f"more than {MAX_NODES:,} values once its anchors are expanded", self.mark(node))

    def _check_tag(self, node: Any) -> None:
        if node.tag not in _ALLOWED_TAGS:
            tag = node.tag.replace(_STANDARD, "!!")
            self.problems.append(self.mark(node).problem(f"the tag {tag!r} is not allowed; write the plain value"))

    def _pairs(self, node: Any) -> dict[str, tuple[Any, Any]]:
        """Return the keys and values of a mapping by key text, after adding the pairs that ``<<`` merges in."""
        pairs: dict[str, tuple[Any, Any]] = {}
        merged: dict[str, tuple[Any, Any]] = {}
        for key, value in node.value:
            self._check_tag(key)
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(self.mark(key).problem("a key must be plain text"))
            elif key.tag == _PLAIN and key.value == "<<":
                merged = self._merged(value) | merged
            elif key.value in pairs:
                first = self.mark(pairs[key.value][0]).line
                mark = self.mark(key)
                self.problems.append(mark.problem(f"duplicate key {key.value!r}: lines {first} and {mark.line}"))
            else:
                pairs[key.value] = (key, value)
        return pairs | {name: pair for name, pair in merged.items() if name not in pairs}

    def _merged(self, value: Any) -> dict[str, tuple[Any, Any]]:
        """Return the pairs that a merge key adds; where several mappings have a key, the first one wins."""
        pairs: dict[str, tuple[Any, Any]] = {}
        for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            if not isinstance(source, yaml.MappingNode):
                self.fail("'<<' merges a mapping or a list of mappings", self.mark(source))
            if id(source) in self._open:
                self.fail("an anchor is used inside itself", self.mark(source))
            self._count(source, len(source.value))
            self._open.add(id(source))
            pairs = self._pairs(source) | pairs
            self._open.discard(id(source))
        return pairs
