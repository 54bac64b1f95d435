"""The documentation as a site: `make docs`. The pages are Markdown that reads as well where it lies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "anabranch"
author = "The anabranch authors"
copyright = author  # noqa: A001 - Sphinx's name
extensions = ["myst_parser"]
# The source is the repository, so that links from page to page are links here as well.
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "groundtruth/README.md",
    "groundtruth/**/README.md",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
exclude_patterns = ["target", ".venv", ".git", "build", "results", "**/__pycache__"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
nitpicky = True
html_theme = "furo"
html_title = "anabranch"
html_copy_source = False

_SECTION = re.compile(r"^## ([^:\n]+)[^\n]*\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_PAGE = re.compile(r"\]\(([\w./-]+)\.md\)")


def _with_contents(_app: Sphinx, name: str, source: list[str]) -> None:
    """Give the index its table of contents: the pages that its sections link to."""
    if name != root_doc:
        return
    for title, body in _SECTION.findall(source[0]):
        pages = "\n".join(_PAGE.findall(body))
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n"
    source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n../README\n../groundtruth/**\n```\n"


def setup(app: Sphinx) -> None:
    """Take part in reading the pages."""
    app.connect("source-read", _with_contents)
