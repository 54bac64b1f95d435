"""A figure that a notebook displays and that can be saved as SVG, PNG, PDF or CSV."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _extras, _files
from anabranch.errors import Fault, InputError
from anabranch.figures import sizes
from anabranch.figures.session import svg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

#: Pixels of a PNG for each pixel on the screen.
_SCALE = 2
#: The file name endings of a figure.
FORMS = (".svg", ".png", ".csv", ".pdf")
#: The forms that are always written together.
_USUAL = FORMS[:3]
#: Dots per inch of a PNG with the width of a column.
_PPI = 300
#: Attributes that vega writes for drawing programs or needlessly. They are nearly half of a file.
_IDLE = re.compile(
    r'<path class="(?:back|fore)ground"[^>]*\bd="(?:M0,0h0v0h0Z)?"[^>]*/>'
    r'| (?:class|role|aria-roledescription|aria-hidden|pointer-events|font-family)="[^"]*"'
    r'| (?:opacity|stroke-width)="1"'
)
_PLACES = re.compile(r'(?<= )(?:transform|d|x2|y2|width|height)="[^"]*"')
_FINE = re.compile(r"(\d+\.\d)\d+")
_ID = re.compile(r'(\bid="|url\(#|href="#)([\w-]+)')


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure and its numbers.

    Attributes
    ----------
    chart
        The figure as an altair chart, to be changed as one likes.
    data
        The numbers, one dict for each row. The suffix of a column's name is its unit. Empty for a figure of a
        run, whose numbers `Run.frame` has.
    notes
        Sentences about parts that are left out.
    size
        Width and size of letters in a paper; None is the size on a screen.
    """

    chart: alt.VConcatChart | alt.ConcatChart = field(repr=False)
    data: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    size: sizes.Size | None = None

    @property
    def svg(self) -> str:
        """The figure as SVG text that loads nothing."""
        if self.size is None:
            return svg(self.chart)
        return sizes.drawn(self.chart.to_dict(validate=False), self.size)

    def sized(self, width: str | float, *, points: float = sizes.POINTS) -> Picture:
        """Return the figure for a paper.

        Parameters
        ----------
        width
            Centimetres, or a column: `ieee`, `ieee-page`, `acm`, `acm-page`.
        points
            The size of its letters.

        Raises
        ------
        InputError
            If the width is none of these.
        """
        wide = sizes.parse(str(width))
        if wide is None:
            raise InputError([wrong_width(str(width), "width")])
        return replace(self, size=sizes.Size(width_cm=wide, points=points))

    def save(self, path: str | Path) -> Path:
        """Write the figure or its numbers, in the form that the ending of the file name gives.

        Parameters
        ----------
        path
            A file that ends in `.svg`, `.pdf`, `.png` (two pixels for each of a screen, or 300 an inch) or
            `.csv` (the numbers).

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            If the name has another ending, or there are no numbers.
        MissingError
            When the file cannot be written.
        """
        path = Path(path)
        fault = unfit(path, "path")
        if fault is None and path.suffix == ".csv" and not self.data:
            fault = Fault(message="the figure of a run has no table", hint="`Run.frame` has them")
        if fault is not None:
            raise InputError([fault])
        if path.suffix == ".csv":
            _files.write(path, _csv(self.data), "the numbers")
        else:
            _write(path, self.svg, is_sized=self.size is not None)
        return path

    def save_all(self, path: str | Path) -> list[Path]:
        """Write the figure as SVG and PNG, a PDF if asked for, with its numbers as CSV; return the files.

        Parameters
        ----------
        path
            One of the files; the others have its name with another ending.

        Raises
        ------
        InputError, MissingError
            As of `save`.
        """
        fault = unfit(Path(path), "path")
        if fault is not None:
            raise InputError([fault])
        files = [Path(path).with_suffix(form) for form in _USUAL]
        own = [Path(path)] if Path(path).suffix not in _USUAL else []
        drawn = self.svg
        for file in (*files[:2], *own):
            _write(file, drawn, is_sized=self.size is not None)
        return [*files[:2], *([self.save(files[2])] if self.data else []), *own]

    def inline(self) -> str:
        """Return the figure as SVG for a page with others, without parts that only editors need."""
        text = _IDLE.sub("", self.svg)
        # A tenth of a pixel is finer than any screen.
        text = _PLACES.sub(lambda found: _FINE.sub(r"\1", found[0]), text)
        # IDs must be unique to this figure, because all figures of a page share one set of IDs.
        own = hashlib.sha256(text.encode()).hexdigest()[:8]
        text = _ID.sub(rf"\g<1>f{own}-\g<2>", text)
        # If these fonts are missing, letters may be wider than planned. They must not be cut off.
        fits = 'role="img" overflow="visible" font-family="Liberation Sans, Arial, sans-serif"'
        return re.sub(r"<svg\b", f"<svg {fits}", text, count=1)

    def _repr_html_(self) -> str:
        """Return the notebook's view of the figure."""
        return f'<div style="background:white;max-width:100%;overflow-x:auto">{self.inline()}</div>'


def unfit(path: Path, where: str) -> Fault | None:
    """Return the fault of a file name whose ending is not a figure's; None if it is."""
    if path.suffix in FORMS:
        return None
    message = f"not a form of a figure: `{path.suffix or path.name}`"
    return Fault(message=message, where=where, hint=f"the name ends in {', '.join(FORMS)}")


def wrong_width(text: str, where: str) -> Fault:
    """Return the fault of a width."""
    hint = f"centimetres from 2 to 100, or {', '.join(sizes.COLUMNS)}"
    return Fault(message=f"not a width of a figure: `{text}`", where=where, hint=hint)


def _write(path: Path, drawn: str, *, is_sized: bool = False) -> None:
    """Write a drawn figure, as SVG or in another form."""
    if path.suffix == ".svg":
        _files.write(path, drawn, "the figure")
        return
    _extras.need("vl_convert", for_="writing a figure")
    import vl_convert

    if path.suffix == ".pdf":
        _files.write_bytes(path, vl_convert.svg_to_pdf(sizes.in_points(drawn)), "the figure")
    elif is_sized:
        _files.write_bytes(
            path, vl_convert.svg_to_png(sizes.in_points(drawn), scale=1, ppi=_PPI), "the figure"
        )
    else:
        _files.write_bytes(path, vl_convert.svg_to_png(drawn, scale=_SCALE), "the figure")


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV."""
    import csv
    import io

    out = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
