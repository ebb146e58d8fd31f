"""Write what the console examples of pages print.

Usage: python scripts/make_console_examples.py [PAGE ...]

Parts of an output that are left out (a line `...`) stay so: a part begins and ends with the lines that are most like
the lines that it began and ended with, numbers aside. Text around the examples is not changed, even where it names
their numbers.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.helpers.console_examples import BLOCK, PAGES, REST, commands, printed_by  # noqa: E402

ALIKE = 0.5
"""Similarity of two lines below which one does not stand for the other."""


def page_with_outputs(text: str, folder: Path) -> str:
    """Return a page whose examples show what their commands print, which run in a folder."""
    return BLOCK.sub(lambda found: f"```console\n{_block(found[1], folder)}```", text)


def _block(block: str, folder: Path) -> str:
    lines: list[str] = []
    for typed, command, shown in commands(block):
        lines.append(f"$ {typed}\n")
        if command[0] == "cat":
            (folder / command[1]).write_text(shown, encoding="utf-8")
            lines.append(shown)
        else:
            printed = printed_by(command)
            same = " ".join(printed.split()) == " ".join(shown.split())
            lines.append(shown if same else shown_again(shown, printed))
    return "".join(lines)


def shown_again(shown: str, printed: str) -> str:
    """Return the parts of an output that correspond to the parts that were shown of an earlier one."""
    parts, found, begin = _parts(shown.splitlines()), list[str](), 0
    lines = printed.splitlines()
    for part in parts:
        if part == [REST]:
            found.append(REST)
            continue
        first = _most_alike(part[0], lines, begin)
        last = first if len(part) == 1 else _most_alike(part[-1], lines, first)
        whole = parts == [part]
        found += lines if whole else lines[first : last + 1]
        begin = last + 1
    return "\n".join(found) + "\n"


def _parts(lines: Sequence[str]) -> list[list[str]]:
    """Divide lines at those that stand for what is left out, which are parts of their own."""
    parts: list[list[str]] = []
    for line in lines:
        if line.strip() == REST or not parts or parts[-1] == [REST]:
            parts.append([line.strip() if line.strip() == REST else line])
        else:
            parts[-1].append(line)
    return parts


def _most_alike(line: str, lines: Sequence[str], begin: int) -> int:
    """Return the place of the line that is most like another one, numbers aside."""
    wanted = _plain(line)
    ratios = {place: SequenceMatcher(None, wanted, _plain(lines[place])).ratio() for place in range(begin, len(lines))}
    best = max(ratios, key=lambda place: ratios[place], default=-1)
    if best < 0 or ratios[best] < ALIKE:
        raise SystemExit(f"no line is printed that is like {line!r}")
    return best


def _plain(line: str) -> str:
    return re.sub(r"\d[\d,.]*", "0", line)


def main() -> int:
    """Write the pages that the arguments name, or all."""
    pages = {name: ROOT / "docs" / name for name in sys.argv[1:] or PAGES}
    for name, page in pages.items():
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "experiments").symlink_to(ROOT / "experiments")
            os.chdir(folder)
            changed = page_with_outputs(text, folder)
            os.chdir(ROOT)
        if changed != text:
            page.write_text(changed, encoding="utf-8", newline="\n")
            print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
