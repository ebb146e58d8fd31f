"""Finds the line of a setting for an error that only names its path."""

from __future__ import annotations

import re
from pathlib import Path

from simsys.config.document import KeyPath, read_document
from simsys.errors import ConfigError, Problem

_PARTS = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def key_path(text: str) -> KeyPath:
    """The path that `dotted` wrote.

    Example:
        >>> key_path("model.layers[2].name")
        ('model', 'layers', 2, 'name')
    """
    return tuple(int(index) if index else key for index, key in _PARTS.findall(text))


def located(error: ConfigError) -> ConfigError:
    """An error with a line added to each problem of a JSON file, if the file can also be read as YAML."""
    return ConfigError([_located(problem) for problem in error.problems])


def _located(problem: Problem) -> Problem:
    if not problem.file or problem.line:
        return problem
    try:
        document = read_document(Path(problem.file))
    except ConfigError:
        return problem
    mark = document.locate(key_path(problem.path))
    return problem if mark is None else mark.problem(problem.message, problem.path)
