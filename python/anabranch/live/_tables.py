"""Tables of the trace that are made in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def made(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401
    """Return rows as a table of the trace with these columns, each of a kind.

    A missing value is an empty text in a column of text, and else None, which only columns of floats accept.
    """
    from anabranch import plugins

    rust = plugins.module()
    nothing = {"text": ""}
    return rust.Table(
        [
            (name, rust.Column(kind, [row.get(name, nothing.get(kind)) for row in rows]))
            for name, kind in columns.items()
        ]
    )
