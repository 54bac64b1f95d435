"""Reports: one self-contained HTML file about a run, a comparison, an advice, a sweep or a study.

`write` and `build` make the page of a run, with the comparison of its paths at the top if given.
`write_advice` and `build_advice` make the page of an advice. `verdicts` and `measured` summarise a folder of
results (of a sweep, a study or a comparison) for the page that `Results.report` writes. A page whose template
extends `base.html.j2` has the same style, dark and on paper. `page` renders such templates.

>>> import anabranch
>>> anabranch.Results("results/two-paths").report("sweep.html")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.report._build import build, write
from anabranch.report._page import rendered as page

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.report._advice import Advice

__all__ = ["build", "build_advice", "page", "verdicts", "write", "write_advice"]


def build_advice(advice: Advice) -> str:
    """Return the page of an advice as self-contained HTML."""
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


def verdicts(folder: Path) -> tuple[list[str], list[tuple[str, list[dict[str, Any]]]]]:
    """Return the verdicts of a folder of results, and its measures as a page draws them.

    The first part has the best cell for each setting; for a comparison, the benefit of each path. The second
    part has a row for each cell and measure, as shares of the largest value.

    Raises
    ------
    InputError
        When the folder holds no results.
    """
    from anabranch.report import _folder

    return _folder.verdicts(folder)
