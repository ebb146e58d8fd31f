"""Draw and write pictures of contents by the names of their kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from simsys.contents.read import Content, read_contents
from simsys.contents.run import RunContent
from simsys.errors import UnknownNameError, UsageError
from simsys.plots.drawing import styled, write_figure
from simsys.plots.kind import KINDS, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def known_kinds() -> dict[str, Kind]:
    """All kinds of pictures by name."""
    import simsys.plots.kinds  # registers them  # noqa: F401

    return KINDS


def possible(content: Content) -> list[Kind]:
    """The kinds that can be drawn from some content."""
    return [each for each in known_kinds().values() if not each.obstacle(content)]


def draw(content: Content, name: str) -> Figure:
    """A picture of some content.

    Args:
        content: The content.
        name: The kind of picture.

    Raises:
        UnknownNameError: If there is no such kind.
        UsageError: If the content lacks something for it; the message says what.
    """
    found = known_kinds().get(name.replace("-", "_"))
    if found is None:
        raise UnknownNameError("kind of picture", name, KINDS)
    if obstacle := found.obstacle(content):
        raise UsageError(f"{found.name} {obstacle}")
    with styled():
        return found.draw(content)


def write_pictures(run: RunContent, folder: Path, prefix: str = "") -> list[Path]:
    """Draw all pictures that a run allows as PNG files in a folder, of several jobs also those of each job.

    Args:
        run: The run.
        folder: The folder.
        prefix: What the names of the files begin with.

    Returns:
        The files.

    Raises:
        OutputError: If one could not be written.
    """
    return list(_written(run, folder, prefix))


def _written(run: RunContent, folder: Path, prefix: str) -> Iterator[Path]:
    for each in possible(run):
        yield write_figure(draw(run, each.name), folder / f"{prefix}{each.name}.png")
    for job in run.jobs:
        yield from _written(job, folder, f"{prefix}{job.name}_")


def listed(content: Content) -> list[dict[str, str]]:
    """What can be drawn from some content: kind and what it shows, for a table."""
    return [{"kind": each.name, "shows": each.shows} for each in possible(content)]


def one_content(path: Path, job: str = "") -> Content:
    """The content of one run, sweep or output.

    Args:
        path: As for `read_contents`.
        job: One of the jobs of a run; empty for the whole run.

    Raises:
        UsageError: It has no results, or those of several runs.
        UnknownNameError: The run has no such job.
    """
    found = read_contents([path])
    content = found[0] if isinstance(found, list) else found
    if isinstance(found, list) and len(found) > 1:
        names = ", ".join(run.name for run in found[:5])
        raise UsageError(f"{path}: results of {len(found)} runs; give the folder of one of them ({names})")
    if not job:
        return content
    jobs = {each.name: each for each in content.jobs} if isinstance(content, RunContent) else {}
    if job not in jobs:
        raise UnknownNameError("job", job, jobs)
    return jobs[job]
