"""HTML elements for notebooks. All arguments are escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Style that works in any notebook. The colours of text are the notebook's, dark or light.
_TABLE = "border-collapse:collapse;margin:.4em 0"
_LEFT, _RIGHT = (f"text-align:{side};padding:.15em .7em" for side in ("left", "right"))
#: The size of a strip, pixels.
_WIDE, _HIGH = 480, 14


def block(*parts: str) -> str:
    """Return parts as one block, which can be scrolled if it is too wide."""
    return f'<div style="max-width:100%;overflow-x:auto">{"".join(parts)}</div>'


def heading(text: str, more: str = "") -> str:
    """Return a heading, followed by lighter text."""
    behind = f' <span style="opacity:.7">{escape(more)}</span>' if more else ""
    return f"<div><b>{escape(text)}</b>{behind}</div>"


def paragraph(text: str) -> str:
    """Return a sentence."""
    return f'<div style="margin:.2em 0">{escape(text)}</div>'


def table(head: Sequence[str], lines: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """Return a table.

    Parameters
    ----------
    head
        Name of each column; all empty for a table without a head.
    lines
        Cells.
    left
        The number of leading columns with words. The others hold numbers, aligned to the right.
    """

    def row(cells: Sequence[str], kind: str) -> str:
        styled = (
            f'<{kind} style="{_LEFT if place < left else _RIGHT}">{escape(cell)}</{kind}>'
            for place, cell in enumerate(cells)
        )
        return f"<tr>{''.join(styled)}</tr>"

    top = f"<thead>{row(head, 'th')}</thead>" if any(head) else ""
    return f'<table style="{_TABLE}">{top}<tbody>{"".join(row(one, "td") for one in lines)}</tbody></table>'


def strip(parts: Iterable[tuple[str, float, float, str]], whole: float, label: str) -> str:
    """Return a horizontal bar of coloured parts as SVG. Each part has a tooltip with its name.

    Parameters
    ----------
    parts
        Name, begin, end and colour of each.
    whole
        The end of the bar, in the unit of the parts.
    label
        The text of the bar for screen readers.
    """
    scale = _WIDE / whole if whole > 0 else 0.0
    marks = "".join(
        f'<rect x="{begin * scale:.1f}" width="{max((end - begin) * scale, 0.5):.1f}" height="{_HIGH}" '
        f'fill="{escape(colour)}"><title>{escape(name)}</title></rect>'
        for name, begin, end, colour in parts
    )
    size = f'viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}" height="{_HIGH}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(label)}" '
        f'style="display:block;max-width:100%;margin:.3em 0">{marks}</svg>'
    )
