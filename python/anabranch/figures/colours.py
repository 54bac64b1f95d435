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


#: The colours of the lowest and the highest resolution, and of a picture that stands still.
_LOW, _HIGH = (0xD6, 0xE6, 0xF2), (0x08, 0x30, 0x6B)
STILL = "#D55E00"

#: The colour of each congestion control.
CONTROLS: Mapping[str, str] = {
    "cubic": _PALETTE[0],
    "lia": _PALETTE[1],
    "olia": _PALETTE[2],
    "ccp": _PALETTE[3],
    "compound": _PALETTE[4],
    "bbr": _PALETTE[5],
    "reno": _PALETTE[6],
    "balia": _PALETTE[7],
    "wvegas": "#F0E442",
    "ccpd": "#AA4499",
}
#: The mark of each scheduler.
SCHEDULERS: Mapping[str, str] = {
    "dft": "circle",
    "linux": "circle",
    "linux-6.1": "circle",
    "min-rtt": "circle",
    "spd": "circle",
    "lpc": "square",
    "let": "triangle-up",
    "spdx": "cross",
    "lpcx": "diamond",
    "letx": "triangle-down",
    "gr-sty": "square",
    "redundant": "stroke",
    "round-robin": "triangle-right",
}
#: The colour and the mark of what has none of its own.
OTHER_COLOUR, OTHER_MARK = "#666666", "circle"


def of_paths(paths: Sequence[str]) -> dict[str, str]:
    """Return the colour of each path, by its place in the scenario."""
    return {path: _PALETTE[index % len(_PALETTE)] for index, path in enumerate(dict.fromkeys(paths))}


def of_steps(names: Sequence[str]) -> dict[str, str]:
    """Return the colour of each step of a scale, from the lowest, which is the lightest."""
    last = max(len(names) - 1, 1)
    return {
        name: "#"
        + "".join(
            f"{round(low + (high - low) * step / last):02X}" for low, high in zip(_LOW, _HIGH, strict=True)
        )
        for step, name in enumerate(names)
    }
