"""For mkdocs: links to files outside of `docs` become their paths, since the site has only the pages."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Replace the links of a page that leave the folder of the pages."""
    return within_site(markdown, page.file.src_uri)


def within_site(markdown: str, page: str) -> str:
    """Return the text of a page with its outward links as code.

    Args:
        markdown: the text.
        page: the path of the page below `docs`.
    """

    def replace(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link[2]))
        return (
            link[0]
            if target.startswith("docs/")
            else f"{link[1]} (`{target}`)"
            if link[1] != target
            else f"`{target}`"
        )

    return _LINK.sub(replace, markdown)
