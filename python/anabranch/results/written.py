"""Tables for a paper: LaTeX, Markdown or CSV, by the ending of the file name."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from anabranch.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: The forms of a table.
FORMS = (".tex", ".md", ".csv")
#: Characters with a meaning in LaTeX.
_LATEX = {
    "\\": r"\textbackslash{}",
    **{one: f"\\{one}" for one in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}


def unfit(path: Path, where: str) -> Fault | None:
    """Return the fault of a file name whose ending is not a table's; None if it is."""
    if path.suffix in FORMS:
        return None
    message = f"not a form of a table: `{path.suffix or path.name}`"
    return Fault(message=message, where=where, hint=f"the name ends in {', '.join(FORMS)}")


def text(form: str, heads: Sequence[str], lines: Sequence[Sequence[str]], *, left: int) -> str:
    """Return a table as text.

    Parameters
    ----------
    form
        One of `FORMS`.
    heads, lines
        The headings, and the cells as text.
    left
        The number of leading columns with words. The others hold numbers, aligned to the right.
    """
    if form == ".csv":
        out = io.StringIO()
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(heads)
        rows.writerows(lines)
        return out.getvalue()
    return _latex(heads, lines, left) if form == ".tex" else _markdown(heads, lines, left)


def _markdown(heads: Sequence[str], lines: Sequence[Sequence[str]], left: int) -> str:
    """Return a table as Markdown."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    rule = "|".join("---" if place < left else "--:" for place in range(len(heads)))
    return "\n".join([line(heads), f"|{rule}|", *map(line, lines), ""])


def _latex(heads: Sequence[str], lines: Sequence[Sequence[str]], left: int) -> str:
    """Return a table as LaTeX for the package booktabs."""

    def line(cells: Sequence[str]) -> str:
        return "  " + " & ".join(map(_escaped, cells)) + r" \\"

    columns = "".join("l" if place < left else "r" for place in range(len(heads)))
    body = [f"\\begin{{tabular}}{{{columns}}}", r"  \toprule", line(heads), r"  \midrule", *map(line, lines)]
    return "\n".join(["% needs \\usepackage{booktabs}", *body, r"  \bottomrule", r"\end{tabular}", ""])


def _escaped(cell: str) -> str:
    """Return a cell as LaTeX prints it."""
    return "".join(_LATEX.get(letter, letter) for letter in cell)
