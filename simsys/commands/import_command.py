"""`simsys import-command`: the scenario of a command that starts a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from simsys.commands.options import JSON, answer_json, common
from simsys.report.console import answer, say

if TYPE_CHECKING:
    from simsys.deployments.imported import Imported


@click.command("import-command")
@click.argument("commands", metavar="COMMAND...", nargs=-1, required=True)
@click.option("--on", "hardware", metavar="NAME", required=True, help="Node or GPU profile (simsys list nodes).")
@click.option("--name", default="imported", show_default=True, help="Name of the scenario.")
@click.option("--out", type=click.Path(path_type=Path), help="Experiment file to write, instead of printing it.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@JSON
@common
def import_command(
    commands: Sequence[str], hardware: str, name: str, out: Path | None, force: bool, as_json: bool
) -> None:
    """Make an experiment of the COMMAND that starts a server, and of the one that sends traffic to it.

    A COMMAND is a script, a manifest of Kubernetes or Docker Compose, '-' for standard input, or the words of the
    command in quotation marks: vllm serve, docker run with vllm/vllm-openai, sglang.launch_server, trtllm-serve,
    torchrun with pretrain_gpt.py, and vllm bench serve for the traffic. Variables that a script does not set are those
    of the environment. Options that are not read are listed.
    """
    from pydantic import ValidationError

    from simsys.deployments.imported import import_commands
    from simsys.errors import UsageError

    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} exists; --force replaces it")
    texts = [_text(command) for command in commands]
    try:
        found = import_commands(texts, hardware, folder=Path("."), environment=os.environ, name=name)
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise UsageError("; ".join(wrong)) from None
    text = _experiment(found)
    if out is not None:
        _write(out, text)
    if as_json:
        answer_json({**_described(found), "files": [] if out is None else [str(out)]})
        return
    answer(text.rstrip("\n") if out is None else f"wrote {out}; next: simsys run {out}")
    for note in _notes(found):
        say(note)


def _text(command: str) -> str:
    """The text of a script, of standard input, or of a command itself."""
    from simsys.errors import UsageError
    from simsys.input_files import read_text, unreadable

    if command == "-":
        return sys.stdin.read()
    path = Path(command)
    if any(sign in command for sign in " \n") and not path.is_file():
        return command
    try:
        return read_text(path)
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None


def _notes(found: Imported) -> list[str]:
    """What the scenario does not have, and what it has that no command states."""
    return [f"not read: {option}" for option in found.unread] + [f"assumed: {text}" for text in found.assumed]


def _experiment(found: Imported) -> str:
    """The experiment file, with what was not read in its head."""
    from simsys.report.yaml_text import yaml_text

    head = [f"Made by simsys import-command of a command of {' and one of '.join(found.tools)}.", *_notes(found)]
    return "".join(f"# {line}\n" for line in head) + yaml_text(found.data)


def _write(path: Path, text: str) -> None:
    from simsys.report.files import write_files

    write_files(path.parent, {path.name: partial(_put, text=text)})


def _put(stream: TextIO, text: str) -> None:
    stream.write(text)


def _described(found: Imported) -> dict[str, object]:
    lists = {
        "tools": list(found.tools),
        "not_read": list(found.unread),
        "without_effect": list(found.without_effect),
        "assumed": list(found.assumed),
    }
    return {"scenario": found.data, **lists}
