"""Reports: one self-contained HTML file about a run, a comparison, an advice, a sweep or a study.

`write` and `build` are of a run, with the comparison of its paths on top where there is one; `write_advice`
and `build_advice` are of an advice. `write_folder` and `build_folder` are of a folder of results, of a sweep,
a study or a comparison; `verdicts` are the sentences on top of these, for who writes another page. A page
whose template extends `base.html.j2` of this room has the same look, dark and on paper; `page` renders those
of this room:

>>> from pathlib import Path
>>> from anabranch import report
>>> report.write_folder(Path("sweep.html"), Path("results/two-paths"))  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.report._build import build, write
from anabranch.report._page import rendered as page

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.advice import Advice

__all__ = [
    "build",
    "build_advice",
    "build_folder",
    "page",
    "verdicts",
    "write",
    "write_advice",
    "write_folder",
]


def build_advice(advice: Advice) -> str:
    """Return the page of an advice as HTML text that loads nothing from outside."""
    from anabranch.report import _advice

    return _advice.build(advice)


def write_advice(path: Path, advice: Advice) -> None:
    """Write the page of an advice.

    Raises
    ------
    MissingError
        When the file cannot be written.
    """
    from anabranch import _files

    _files.write(path, build_advice(advice), "the report")


def build_folder(folder: Path) -> str:
    """Return the page of a folder of results as HTML text that loads nothing from outside.

    Raises
    ------
    InputError
        When the folder holds no results.
    """
    from anabranch.report import _folder

    return _folder.build(folder)


def write_folder(path: Path, folder: Path) -> None:
    """Write the page of a folder of results.

    Raises
    ------
    InputError
        When the folder holds no results.
    MissingError
        When the file cannot be written.
    """
    from anabranch import _files

    _files.write(path, build_folder(folder), "the report")


def verdicts(folder: Path) -> list[str]:
    """Return what a folder of results says: for each setting its best cell, of a comparison what paths add.

    Raises
    ------
    InputError
        When the folder holds no results.
    """
    from anabranch.report import _folder

    return _folder.verdicts(folder)
