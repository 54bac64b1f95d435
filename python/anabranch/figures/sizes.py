"""Figures in the size of a column: a width in centimetres, and the size of the letters in points."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import Any

from anabranch import _extras

#: The widths of columns in centimetres: IEEE's of two columns (3.5 in, 7.16 in), and ACM's (3.33 in, 7 in).
COLUMNS = {"ieee": 8.89, "ieee-page": 18.19, "acm": 8.46, "acm-page": 17.78}
#: Pixels of an inch and of a point, in a drawing.
_INCH, _POINT = 96.0, 96 / 72
#: The size of letters unless given, in points.
POINTS = 8.0
#: The number of attempts to make the figure's width fit.
_DRAWN = 4
#: The least height of a plot as a share of its height on a screen: the title of its axis must fit beside it.
_LEAST_HEIGHT = 0.6
_SIZE = re.compile(r'<svg\b[^>]*?\bwidth="([\d.]+)"[^>]*?\bheight="([\d.]+)"')
_CENTIMETRES = re.compile(r'="([\d.]+)cm"')
_ROOT = re.compile(r'(<svg\b[^>]*?)\bwidth="[\d.]+"([^>]*?)\bheight="[\d.]+"')


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of a figure.

    Attributes
    ----------
    width_cm
        Its width.
    points
        The size of its letters.
    """

    width_cm: float
    points: float = POINTS


def parse(text: str) -> float | None:
    """Return a width in centimetres: a number, also with `cm`, or a column's name; None if neither."""
    if text in COLUMNS:
        return COLUMNS[text]
    found = re.fullmatch(r"([\d.]+)\s*(?:cm)?", text.strip())
    try:
        width = float(found[1]) if found else 0.0
    except ValueError:
        return None
    return width if 2 <= width <= 100 else None


def drawn(spec: dict[str, Any], size: Size) -> str:
    """Return a figure as SVG with a width and with letters of a size.

    The width of the plots is changed until the figure fits. A remaining difference of some per cent is
    removed by scaling.

    Parameters
    ----------
    spec
        The figure as Vega-Lite has it.
    size
        Its size.
    """
    _extras.need("vl_convert", for_="writing a figure")
    import vl_convert

    wanted = size.width_cm / 2.54 * _INCH
    _lettered(spec, size.points * _POINT)
    text, share, known = "", 1.0, []
    for _ in range(_DRAWN):
        own = copy.deepcopy(spec)
        _widened(own, share)
        text = str(vl_convert.vegalite_to_svg(own, allowed_base_urls=[]))
        width, _ = _measured(text)
        if abs(width - wanted) < 0.01 * wanted:
            break
        known.append((share, width))
        share = _next(known, wanted)
    width, height = _measured(text)
    high = size.width_cm * height / width
    return _ROOT.sub(rf'\g<1>width="{size.width_cm:g}cm"\g<2>height="{high:.4g}cm"', text, count=1)


def _next(known: list[tuple[float, float]], wanted: float) -> float:
    """Return the share of the plots' width to try next: the width of a figure is linear in it."""
    share, width = known[-1]
    before, narrower = known[-2] if len(known) > 1 else (0.0, 0.0)
    slope = (width - narrower) / (share - before) if share != before else width
    return max(0.05, share + (wanted - width) / slope) if slope > 0 else share


def in_points(svg: str) -> str:
    """Return a drawing with its size in points, because vl-convert treats a pixel as a point."""
    return _CENTIMETRES.sub(lambda found: f'="{float(found[1]) / 2.54 * 72:.5g}"', svg, count=2)


def _measured(svg: str) -> tuple[float, float]:
    """Return the width and the height of a drawing in pixels."""
    found = _SIZE.search(svg)
    return (float(found[1]), float(found[2])) if found else (1.0, 1.0)


def _lettered(spec: dict[str, Any], pixels: float) -> None:
    """Give all letters of a figure one size; titles of panels are as large."""
    config = spec.setdefault("config", {})
    for part, keys in {
        "axis": ("labelFontSize", "titleFontSize"),
        "legend": ("labelFontSize", "titleFontSize"),
        "header": ("labelFontSize", "titleFontSize"),
        "title": ("fontSize",),
        "text": ("fontSize",),
    }.items():
        table = config.setdefault(part, {})
        table.update(dict.fromkeys(keys, pixels))
    config["axis"] |= {"titlePadding": 3, "labelPadding": 2}
    config["legend"] |= {"symbolSize": 40, "orient": "bottom", "columns": 3, "offset": 4, "titlePadding": 2}
    _headers(spec, pixels)


def _headers(node: object, pixels: float) -> None:
    """Give the headers of small multiples the size of the other letters."""
    if isinstance(node, dict):
        header = node.get("header")
        if isinstance(header, dict) and "labelFontSize" in header:
            header["labelFontSize"] = pixels
        for child in node.values():
            _headers(child, pixels)
    elif isinstance(node, list):
        for child in node:
            _headers(child, pixels)


def _widened(node: object, share: float) -> None:
    """Scale the width of all plots of a figure, and the height to a share from `_LEAST_HEIGHT` to 1."""
    if isinstance(node, dict):
        for key in ("width", "height"):
            value = node.get(key)
            if isinstance(value, int | float) and not isinstance(value, bool):
                own = share if key == "width" else min(1.0, max(share, _LEAST_HEIGHT))
                node[key] = max(20.0, value * own)
            elif isinstance(value, dict) and "step" in value:
                node[key] = {**value, "step": max(2.0, value["step"] * share)}
        for key, child in node.items():
            if key not in ("data", "datasets", "config", "mark"):
                _widened(child, share)
    elif isinstance(node, list):
        for child in node:
            _widened(child, share)
