"""Commands in manifests: containers of Kubernetes and services of Docker Compose."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from simsys.deployments.shell_words import commands_of
from simsys.errors import UsageError

PARTS = ("image", "entrypoint", "command", "args")
"""Keys of a container, in the order of the words of its command."""
_USED = re.compile(r"\$\((\w+)\)")
SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")


@dataclass(frozen=True)
class ContainerCommand:
    """A command of a container.

    Args:
        words: Its words, with the image as the first.
        replicas: How many copies of the container the manifest wants, as written; 1 if it does not say.
    """

    words: list[str]
    replicas: Any = 1


def is_manifest(text: str) -> bool:
    """Whether a text is a manifest: of Kubernetes, or with services."""
    keys = [line.partition(":")[0] for line in text.splitlines()]
    return "services" in keys or {"apiVersion", "kind"} <= set(keys)


def manifest_commands(text: str, environment: Mapping[str, str]) -> list[ContainerCommand]:
    """Return the commands of all containers.

    Args:
        text: The manifest; it may have several documents.
        environment: Variables that scripts in it use.

    Raises:
        UsageError: It is no YAML, or a command in it cannot be read.
    """
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise UsageError(f"the manifest is no YAML: {str(error).splitlines()[0]}") from None
    found: list[ContainerCommand] = []
    for container, replicas in _containers(documents, 1):
        variables = {**environment, **_variables(container)}
        image, *parts = [_words(container.get(key)) for key in PARTS]
        words = [_replaced(word, variables) for part in parts for word in part]
        script = words[-1] if words[:1] and words[0] in SHELLS else shlex.join([*image, *words])
        found += [ContainerCommand(command, replicas) for command in commands_of(script, variables)]
    return found


def _containers(data: Any, replicas: Any) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """Yield the mappings that name an image, in the order of the manifest, with the replicas around them."""
    if isinstance(data, Mapping):
        replicas = _replicas(data, replicas)
        if isinstance(data.get("image"), str):
            yield data, replicas
        for value in data.values():
            yield from _containers(value, replicas)
    elif isinstance(data, list):
        for value in data:
            yield from _containers(value, replicas)


def _replicas(data: Mapping[str, Any], around: Any) -> Any:
    """The replicas of a workload of Kubernetes or a service of Compose; else those around it."""
    deploy = data.get("deploy")
    for part, key in ((data, "replicas"), (deploy, "replicas"), (data, "scale")):
        if isinstance(part, Mapping) and part.get(key) is not None:
            return part[key]
    return around


def _words(given: Any) -> list[str]:
    """The words of a command that is a text or a list."""
    if given is None:
        return []
    return shlex.split(given) if isinstance(given, str) else [str(word) for word in given]


def _replaced(word: str, variables: Mapping[str, str]) -> str:
    """A word in which ``$(NAME)`` is replaced, as Kubernetes does."""
    return _USED.sub(lambda used: variables.get(used[1], used[0]), word)


def _variables(container: Mapping[str, Any]) -> dict[str, str]:
    """The variables that a container sets, as a list of names and values, of assignments, or as a mapping."""
    given = container.get("env") or container.get("environment") or {}
    if isinstance(given, Mapping):
        return {str(name): str(value) for name, value in given.items()}
    pairs = [
        (each.get("name"), each.get("value")) if isinstance(each, Mapping) else str(each).partition("=")[::2]
        for each in given
    ]
    return {str(name): str(value) for name, value in pairs if value is not None}
