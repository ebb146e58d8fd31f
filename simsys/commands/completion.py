"""`simsys completion`: the script with which a shell completes command lines."""

from __future__ import annotations

import click

from simsys.commands.options import common
from simsys.report.console import answer

VARIABLE = "_SIMSYS_COMPLETE"
"""Environment variable by which the script asks this program."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common
def completion(shell: str) -> None:
    r"""Print the script with which a SHELL completes commands, options and names.

    \b
    bash: in ~/.bashrc                  eval "$(simsys completion bash)"
    zsh:  in ~/.zshrc                   eval "$(simsys completion zsh)"
    fish: simsys completion fish > ~/.config/fish/completions/simsys.fish

    Completed are commands, options, files, settings (--set), metrics (--fail-on), scenarios of the file given, and
    all names of 'simsys list'.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root()
    # not its source(), which runs the shell to ask its version
    script = found(root.command, {}, "simsys", VARIABLE)
    answer((script.source_template % script.source_vars()).strip("\n"))
