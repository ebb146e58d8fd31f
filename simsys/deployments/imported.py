"""The scenario of commands that start a server and send traffic to it, as people write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simsys.build.model import build_model
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import is_known, load_gpu, load_node, profile_names
from simsys.deployments.correspondence import Fixed
from simsys.deployments.deployment import model_of_checkpoint
from simsys.deployments.launch import Launch
from simsys.deployments.manifests import ContainerCommand, is_manifest, manifest_commands
from simsys.deployments.nesting import nested
from simsys.deployments.serving_parts import Checkpoint
from simsys.deployments.shell_words import commands_of
from simsys.deployments.target import Target, target_names, target_of
from simsys.errors import UnknownNameError, UsageError

TRAFFIC: Mapping[str, Any] = {
    "arrivals": {"kind": "poisson", "rate": "4 req/s"},
    "prompt_tokens": {"kind": "lognormal", "mean": 1024, "max": 4096},
    "output_tokens": {"kind": "lognormal", "mean": 256, "max": 1024},
    "num_requests": 1000,
}
"""Traffic to start from, where no command says what is sent; the same as in `simsys init --serving`."""

STORED = ("quantization", "dtype")
"""Options that do not change in which precision a quantised checkpoint stores its weights."""
LIKE: Mapping[str, Any] = {
    "serving": {"serving": {}, "workload": TRAFFIC},
    "training": {"training": {"batch_size_per_gpu": 1}},
}
"""Sections of a scenario before any option is read, by kind."""
SECTIONS = ("name", "hardware", "model", "parallelism", "training", "serving", "workload", "slo")
ACCEPTANCE = 0.7
"""Share of drafted tokens that are accepted, where no command can state it."""


@dataclass(frozen=True)
class Imported:
    """A scenario read from commands.

    Args:
        data: Its sections, as in an experiment file.
        tools: The tools whose commands were read.
        unread: Options that were not read, with their values: what they change is not in the scenario.
        without_effect: Names of options that change no time and no memory.
        assumed: What the scenario has that no command states.
    """

    data: dict[str, Any]
    tools: Sequence[str]
    unread: Sequence[str]
    without_effect: Sequence[str]
    assumed: Sequence[str]


@dataclass(frozen=True)
class _Command:
    """A command of a known tool, and how many copies of it run."""

    tool: Target
    launch: Launch
    options: dict[str, Any]
    replicas: Any = 1

    @property
    def starts_server(self) -> bool:
        return any(isinstance(each, Fixed) for each in self.tool.table)


@dataclass(frozen=True)
class _Read:
    """What was read of a command.

    Args:
        settings: Values by dotted path.
        origins: The options of each setting.
        unread: Options that were not read, with their values.
        options: All options.
    """

    settings: dict[str, Any]
    origins: Mapping[str, Sequence[str]]
    unread: list[str]
    options: Mapping[str, Any]

    def without(self, path: str) -> str:
        """Remove a setting, whose options are then not read; returns its path."""
        del self.settings[path]
        self.unread.extend(_written(name, self.options[name]) for name in self.origins[path])
        return path


def import_commands(
    texts: Sequence[str], hardware: str, *, folder: Path, environment: Mapping[str, str], name: str = "imported"
) -> Imported:
    """Return the scenario of the server that commands start, under the traffic that they send.

    Args:
        texts: Scripts, single commands, or manifests of containers. Together they start one server, and may send
            traffic to it.
        hardware: Name of a node or GPU profile; the degrees of parallelism give the number of GPUs.
        folder: Where models and files of options are looked for.
        environment: Variables that scripts do not set.
        name: Name of the scenario.

    Raises:
        UnknownNameError: There is no such hardware, or no such model in the model DB.
        UsageError: No command starts a known server, or several do; or a command cannot be read.
        pydantic.ValidationError: The values of options do not fit the schema.
    """
    commands = [found for text in texts for found in _commands(text, folder, environment)]
    servers = [each for each in commands if each.starts_server]
    senders = [each for each in commands if not each.starts_server]
    if len(servers) != 1 or len(senders) > 1:
        raise UsageError(_wrong_number(servers, senders))
    server = servers[0]
    model, assumed = _model(server, folder)
    base = {"name": name, "hardware": _hardware(hardware, 1), "model": model}
    like = SimulationConfig.model_validate({**base, **LIKE[server.tool.kind]}).located_in(folder)
    if build_model(like.model, folder).quantization is not None:  # then the engine reads the precision from it
        server = replace(server, options={name: value for name, value in server.options.items() if name not in STORED})
    read = [_read(command, like) for command in (server, *senders)]
    _remove_invalid(base, read)
    data, more = _scenario(base, read)
    _replicate(data, server.replicas, read[0].unread)
    degrees = SimulationConfig.model_validate(data).parallelism
    data["hardware"] = _hardware(hardware, degrees.shards * (degrees.dp_degree or 1))
    return Imported(
        {key: data[key] for key in SECTIONS if key in data},
        [each.tool.tool for each in commands],
        [option for each in read for option in each.unread],
        [name for each in commands for name in each.options if each.launch.changes_nothing(name)],
        [*assumed, *more],
    )


def launched_tools() -> list[Target]:
    """The targets whose commands can be read."""
    return [tool for tool in map(target_of, target_names()) if tool.launch is not None]


def _commands(text: str, folder: Path, environment: Mapping[str, str]) -> Iterator[_Command]:
    if is_manifest(text):
        found = manifest_commands(text, environment)
    else:
        found = [ContainerCommand(words) for words in commands_of(text, environment)]
    for command in found:
        for tool in launched_tools():
            launch = tool.launch
            arguments = None if launch is None else launch.arguments(command.words)
            if launch is None or arguments is None:
                continue
            known = {name for each in tool.table for name in each.options}
            try:
                yield _Command(tool, launch, launch.options(arguments, known, folder), command.replicas)
            except UsageError as error:
                raise UsageError(f"{tool.tool}: {error}") from None


def _scenario(base: Mapping[str, Any], read: Sequence[_Read]) -> tuple[dict[str, Any], list[str]]:
    """The scenario of some settings, and what it has that no command states."""
    data = {**base, **nested({path: value for each in read for path, value in each.settings.items()})}
    assumed = []
    drafts = data.get("serving", {}).get("speculative")
    if drafts is not None:
        drafts["acceptance_rate"] = ACCEPTANCE
        assumed.append(f"serving.speculative.acceptance_rate: {ACCEPTANCE}; measure the one of your traffic")
    if "serving" in data and "workload" not in data:
        data["workload"] = dict(TRAFFIC)
        assumed.append("workload: no command sends traffic; write your own")
    return data, assumed


def _replicate(data: dict[str, Any], replicas: Any, unread: list[str]) -> None:
    """Serve on as many replicas as a manifest wants; what is no number of servers is noted as not read."""
    if "serving" in data and isinstance(replicas, int) and replicas >= 1:
        if replicas > 1:
            degrees = data.get("parallelism", {})
            data["parallelism"] = {**degrees, "dp_degree": replicas * (degrees.get("dp_degree") or 1)}
    elif replicas != 1:
        unread.append(f"replicas: {replicas}")


def _wrong_number(servers: Sequence[_Command], senders: Sequence[_Command]) -> str:
    if servers and len(servers) > 1:
        return f"one server is needed, not {len(servers)}: {', '.join(each.tool.tool for each in servers)}"
    if len(senders) > 1:
        return f"one command may send traffic, not {len(senders)}"
    ways = ", ".join(" ".join(each.launch.starts[0]) for each in launched_tools() if each.launch)
    return f"no command starts a server that simsys knows; known: {ways}"


def _model(server: _Command, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The model of a server, of the DB or a folder with its configuration, and what is assumed of it.

    Raises:
        UnknownNameError: There is none of this name.
    """
    if server.launch.model is not None:
        return server.launch.model(server.options)
    option = next(each.name for each in server.tool.table if isinstance(each, Checkpoint))
    if option not in server.options:
        raise UsageError(f"{server.tool.tool}: the command names no model (--{option})")
    given = str(server.options[option])
    if (folder / given / "config.json").is_file():
        return {"huggingface": given}, []
    if "$" in given:
        raise UsageError(f"{server.tool.tool}: the model is {given}, which the script does not set; set it before")
    return {"name": model_of_checkpoint(given) or given}, []


def _read(command: _Command, like: SimulationConfig) -> _Read:
    """The settings of a command's options, without those of the model."""
    options, settings, origins = command.options, dict[str, Any](), dict[str, list[str]]()
    for each in command.tool.table:
        own = [name for name in each.options if name in options]
        if "model.name" in each.paths:
            origins["model.name"] = own
            continue
        try:
            found = each.read(options, like)
        except (KeyError, ValueError, TypeError, StopIteration, UsageError):
            continue  # a value that emitted files do not have
        settings |= found
        origins |= dict.fromkeys(found, own)
    read = {name for own in origins.values() for name in own}
    missed = [name for name in options if name not in read and not command.launch.changes_nothing(name)]
    return _Read(settings, origins, [_written(name, options[name]) for name in missed], options)


def _remove_invalid(base: Mapping[str, Any], read: Sequence[_Read]) -> None:
    """Remove settings that are not valid; their options are then not read.

    Raises:
        pydantic.ValidationError: Something else is not valid.
    """
    while True:
        try:
            SimulationConfig.model_validate(_scenario(base, read)[0])
            return
        except ValidationError as error:
            wrong = {".".join(map(str, each["loc"])) for each in error.errors()}
            removed = [each.without(path) for each in read for path in list(each.settings) if _concerns(path, wrong)]
            if not removed:
                raise


def _concerns(path: str, wrong: Iterable[str]) -> bool:
    """Whether an error at one of these paths is one of a setting, or of what is missing beside it in its part."""
    part = f"{path.rpartition('.')[0]}."
    begins = (f"{path}.", part) if part.count(".") > 1 else f"{path}."
    return any(f"{place}.".startswith(begins) for place in wrong)


def _written(name: str, value: Any) -> str:
    """An option as on a command line."""
    values = [] if value is True else value if isinstance(value, list) else [value]
    return " ".join([f"--{name}", *map(str, values)])


def _hardware(name: str, gpus: int) -> dict[str, Any]:
    """The nodes with this number of GPUs.

    Raises:
        UnknownNameError: There is neither a node nor a GPU of this name.
    """
    if is_known("node", name):
        node = load_node(name)
        per_node = min(gpus, node.gpus_per_node)
        nodes = -(-gpus // per_node)
        return {"profile": node.name, "gpus_per_node": per_node, **({"num_nodes": nodes} if nodes > 1 else {})}
    if not is_known("gpu", name):
        raise UnknownNameError("node or GPU", name, [*profile_names("node"), *profile_names("gpu")])
    gpu = load_gpu(name)
    return {"gpu": gpu.name, **({"gpus_per_node": gpus} if gpus > 1 else {})}
