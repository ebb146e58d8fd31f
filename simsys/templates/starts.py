"""What can be started: the files of each, and their names."""

from __future__ import annotations

import keyword
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Template
from typing import TextIO

from simsys.config.hardware import is_known
from simsys.data import shipped_folder
from simsys.errors import UsageError
from simsys.report.files import write_files

_FOLDER = Path(__file__).parent
_TAKEN = {"simsys", "frameworks", "experiments", "hardware_profiles", "model_db", "tests"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,60}")


@dataclass(frozen=True)
class Start:
    """Files to write, and what to do with them.

    Args:
        files: Path and content.
        next_steps: Commands that use them.
    """

    files: dict[Path, str]
    next_steps: Sequence[str]

    def write(self, *, force: bool = False) -> list[Path]:
        """Write the files; return them.

        Args:
            force: Replace those that exist.

        Raises:
            UsageError: If one exists and `force` is not given; then nothing is written.
            OutputError: If one cannot be written.
        """
        taken = [path for path in self.files if path.exists() or path.is_symlink()]
        if taken and not force:
            listed = ", ".join(map(str, taken))
            verb = "exist" if len(taken) > 1 else "exists"
            raise UsageError(f"{listed} {verb}; --force replaces, --out writes elsewhere")
        for path, text in self.files.items():
            write_files(path.parent, {path.name: partial(_put, text)})
        return list(self.files)


def start_of_experiment(kind: str, out: Path | None = None) -> Start:
    """An experiment.

    Args:
        kind: ``serving``, ``training`` or ``cluster``.
        out: The file to write; ``<kind>.yaml`` by default.
    """
    file = out or Path(f"{kind}.yaml")
    text = _filled(f"{kind}.yaml", file=_word(file))
    return Start({file: text}, (f"simsys check {_word(file)}", f"simsys run {_word(file)}"))


def start_of_hardware(name: str, out: Path | None = None) -> Start:
    """A GPU of the user's own, and an experiment that uses it.

    Args:
        name: Name of the GPU.
        out: The folder to write to; the current one by default.

    Raises:
        UsageError: If there is such a profile already, or the name is none of a file.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"--hardware {name!r}: a name begins with a letter and has letters, digits, '.', '_' and '-'")
    if is_known("gpu", name):
        raise UsageError(f"--hardware {name}: simsys has a GPU of this name ('simsys show gpu {name}'); take another")
    folder = out or Path(".")
    experiment = folder / f"{name}.yaml"
    texts = {
        folder / "gpus" / f"{name}.yaml": _filled("gpu.yaml"),
        experiment: _filled("hardware.yaml", name=name, file=_word(experiment)),
    }
    return Start(texts, (f"simsys run {_word(experiment)}",))


def start_of_plugin(name: str, out: Path | None = None) -> Start:
    """An installable package with a scheduler, a metric, their tests, and an experiment that uses them.

    Args:
        name: Name of the distribution; that of the package has ``_`` instead of ``-`` and ``.``.
        out: The folder to write to; `name` by default.

    Raises:
        UsageError: If it is no name of a package.
    """
    package = re.sub(r"[-._]+", "_", name).lower()
    taken = package in _TAKEN or package in sys.stdlib_module_names or keyword.iskeyword(package)
    if not _NAME.fullmatch(name) or not package.isidentifier() or taken:
        why = "is the name of another package" if taken else "is no name of a package, such as my-scheduler"
        raise UsageError(f"--plugin {name!r} {why}")
    folder = out or Path(name)
    names = {"name": name, "package": package, "class_name": "".join(map(str.capitalize, package.split("_")))}
    paths = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        "experiment.yaml": "experiment.yaml",
        "package.py": f"{package}/__init__.py",
        "scheduler.py": f"{package}/scheduler.py",
        "metric.py": f"{package}/metric.py",
        "test_modules.py": "tests/test_modules.py",
    }
    texts = {folder / path: _filled(f"plugin/{file}", **names) for file, path in paths.items()}
    steps = (
        f"cd {_word(folder)}",
        "simsys run experiment.yaml",
        "pip install --editable '.[test]' && python -m pytest",
    )
    return Start(texts, steps)


EXPERIMENTS = ("serving", "training", "cluster")
"""Kinds of `start_of_experiment`."""
NAMED: dict[str, Callable[[str, Path | None], Start]] = {"plugin": start_of_plugin, "hardware": start_of_hardware}
"""What is started with a name."""


def _filled(template: str, **names: str) -> str:
    schema = shipped_folder("experiments") / "experiment.schema.json"
    text = (_FOLDER / f"{template}.tmpl").read_text(encoding="utf-8")
    return Template(text).substitute(schema=schema, **names)


def _word(path: Path) -> str:
    """A path as a word of a command."""
    return shlex.quote(str(path))


def _put(text: str, file: TextIO) -> None:
    file.write(text)
