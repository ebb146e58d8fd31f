"""The commands of a shell script as people write them: comments, continued lines, variables and arrays."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from simsys.errors import UsageError

Variables: TypeAlias = dict[str, list[str]]
"""The words of each variable; an array has several."""

END = "\n;&|<>"
"""Signs that end a command, or that separate it from a redirection."""
ENDS, SIGNS = frozenset(END), frozenset(f"(){END}")
_COMMENT = re.compile(r"\s#\s.*")
_ASSIGNED = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.DOTALL)
_USED = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:\[[@*]\])?(?::?[-=]([^}]*))?\})")


def commands_of(text: str, environment: Mapping[str, str]) -> list[list[str]]:
    """Return the words of each command of a script, with its variables replaced.

    A variable is known if the script sets it, else by its default (``${NAME:-default}``), else from the environment.
    Other variables stay as they are written; so does what the shell would compute.

    Args:
        text: The script, or a single command.
        environment: Variables that the script does not set.

    Raises:
        UsageError: A quotation mark has no counterpart.
    """
    lines = [_COMMENT.sub("", line) for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\[ \t]*\n", " ", "\n".join(lines))
    lexer = shlex.shlex(joined, posix=True, punctuation_chars=f"(){END}")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        words = [part for word in lexer for part in (word if word and set(word) <= SIGNS else [word])]
    except ValueError as error:
        raise UsageError(f"the command cannot be read: {error}".lower()) from None
    variables: Variables = {name: [value] for name, value in environment.items()}
    return [command for each in _divided(words) if (command := _without_assignments(each, variables))]


def _divided(words: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words of each command, without comments behind it; an array is one command."""
    command: list[str] = []
    depth, comment = 0, False
    for word in words:
        comment = (comment or word.startswith("#")) and word != "\n"
        if comment:
            continue
        depth = max(0, depth + (word == "(") - (word == ")"))
        if word not in ENDS:
            command.append(word)
        elif not depth:
            yield command
            command = []
    yield command


def _without_assignments(words: list[str], variables: Variables) -> list[str]:
    """Return a command with its variables replaced; assignments before it are made."""
    place = 1 if words[:1] == ["export"] else 0
    while place < len(words) and (found := _ASSIGNED.fullmatch(words[place])):
        name, value = found[1], found[2]
        if not value and words[place + 1 : place + 2] == ["("]:
            end = words.index(")", place) if ")" in words[place:] else len(words)
            variables[name] = _replaced(words[place + 2 : end], variables)
            place = end + 1
        else:
            variables[name] = [" ".join(_replaced([value], variables))]
            place += 1
    return _replaced(words[place:], variables)


def _replaced(words: Iterable[str], variables: Variables) -> list[str]:
    """Return words with variables replaced; a word that is one variable may become several words."""
    found: list[str] = []
    for word in words:
        whole = _USED.fullmatch(word)
        known = variables.get(whole[1] or whole[2]) if whole else None
        if known is not None:
            found += [part for each in known for part in (shlex.split(each) if each.startswith("-") else [each])]
        else:
            found.append(_USED.sub(lambda match: _value(match, variables), word))
    return [word for word in found if word]


def _value(match: re.Match[str], variables: Variables) -> str:
    """Return what a variable within a word stands for; itself if it is not known."""
    known = variables.get(match[1] or match[2])
    if known is not None:
        return " ".join(known)
    return match[0] if match[3] is None else match[3]
