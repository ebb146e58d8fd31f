"""Output of the command line: answers to stdout, everything else to stderr, errors as exit codes.

Imports nothing heavier than click, so that ``--help`` is fast.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from typing import Any, NoReturn

import click

from simsys.errors import (
    ConfigError,
    InfeasibleConfigError,
    OutputError,
    SimsysError,
    UsageError,
    described,
    did_you_mean,
)
from simsys.interrupts import INTERRUPTED
from simsys.user_modules import place_in_user_module, text_with_place

INTERNAL = 4
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
DEBUG = "simsys.debug"
"""Key in click's ``Context.meta``: whether errors print a traceback."""


class CommandGroup(click.Group):
    """A group of commands that return exit codes; an error becomes a message and its exit code."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run a command line and exit with its code."""
        if sys.stdout is None:  # how Python starts if file descriptor 1 is closed
            say("error: cannot write to standard output: it is closed")
            sys.exit(OutputError.exit_code)
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
        except click.ClickException as error:
            shown = StringIO()
            error.show(shown)
            say(shown.getvalue().rstrip("\n"))
            code = error.exit_code
        sys.exit(code or 0)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """Parse options before the command; ``--help`` and ``--version`` print here."""
        with _errors_reported({}):
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _errors_reported(ctx.meta):
            return super().invoke(ctx)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command, or suggest a similar one."""
        unknown = self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing
        if unknown and not args[0].startswith("-"):
            raise click.UsageError(f"No such command {args[0]!r}{did_you_mean(args[0], self.commands)}", ctx)
        return super().resolve_command(ctx, args)


def answer(text: str, *, headline: bool = False) -> None:
    """Write an answer to stdout; ignore a closed pipe (``| head``).

    Args:
        text: The answer.
        headline: Print its first line bold on a terminal.

    Raises:
        OSError: If writing fails for another reason, such as a full disk.
    """
    try:
        click.echo(_headline_bold(escaped(text), headline=headline))
    except BrokenPipeError:
        _abandon_stdout()


def say(text: str, *, path: str = "") -> None:
    """Write a line to stderr; ignore a closed stream.

    Args:
        text: The line.
        path: Part of it to print red on a terminal.
    """
    with suppress(OSError):
        click.echo(_path_red(escaped(text), escaped(path)), err=True)


@contextmanager
def _errors_reported(meta: dict[str, Any]) -> Iterator[None]:
    """Turn errors into a message on standard error and an exit."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit):
        raise
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        code = INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        _abandon_stdout()
        code = 0
    except (Exception, SystemExit) as error:  # the latter in a user's module
        if meta.get(DEBUG):
            traceback.print_exc()
        code = _report(error)
    else:
        return
    raise click.exceptions.Exit(code)


def _report(error: BaseException) -> int:
    """Print an error; return the exit code."""
    if isinstance(error, ConfigError | InfeasibleConfigError):
        for problem in error.problems:
            say(str(problem), path=f"{problem.path}: " if problem.path else "")
        say(f"{len(error.problems)} problem{'s' if len(error.problems) > 1 else ''}")
        return error.exit_code
    if isinstance(error, OSError) and error.filename is None:  # a stream: errors of files have a name
        _abandon_stdout()
        error = OutputError(f"cannot write to standard output: {error.strerror or error}")
    if isinstance(error, SimsysError) and error.exit_code != INTERNAL:
        say(f"error: {text_with_place(error)}")
        return error.exit_code
    place = place_in_user_module(error)
    if place and not isinstance(error, SimsysError):
        say(f"error: {place}: {type(error).__name__}: {error}; --debug shows the traceback")
        return UsageError.exit_code
    text = str(error) if isinstance(error, SimsysError) else described(error)
    say(f"internal error: {text}: this is a bug; run again with --debug for a traceback")
    return INTERNAL


def escaped(text: str) -> str:
    r"""Escape characters that control a terminal: control characters, changes of direction.

    Example:
        >>> escaped("red: \x1b[31m")
        'red: \\u001b[31m'

    They come from names, cells of tables and paths. Line ends and tabs stay.
    """
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _headline_bold(text: str, *, headline: bool) -> str:
    first, newline, rest = text.partition("\n")
    return click.style(first, bold=True) + newline + rest if headline else text


def _path_red(text: str, path: str) -> str:
    return text.replace(path, click.style(path, fg="red"), 1) if path else text


def _abandon_stdout() -> None:
    """Discard buffered output, so that the flush at exit does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
