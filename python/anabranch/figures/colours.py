"""The one table of colours: the palette of Okabe and Ito, which colour-blind readers can tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000")

#: The colour of each fate of a picture.
FATES: Mapping[str, str] = {
    "displayed": "#8DB4CC",
    "discarded": "#D55E00",
    "flushed": "#B07AA1",
    "unplayed": "#CFCFCF",
}

#: The colours of the rendition on the screen, the player's buffer, an underflow and a change of a link.
RENDITION = "#8DB4CC"
BUFFER = "#5B8A72"
UNDERFLOW = "#F6C7B6"
EVENT = "#444444"


def of_paths(paths: Sequence[str]) -> dict[str, str]:
    """Return the colour of each path, by its place in the scenario."""
    return {path: _PALETTE[index % len(_PALETTE)] for index, path in enumerate(dict.fromkeys(paths))}
