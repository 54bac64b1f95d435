"""The one table of colours: the palette of Okabe and Ito, which colour-blind readers can distinguish."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

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
#: The colour of a screen before its first picture.
WAITING = "#CFCFCF"

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
#: The colour of the line of each scheduler.
LINES: Mapping[str, str] = {
    "linux": _PALETTE[0],
    "min-rtt": _PALETTE[1],
    "redundant": _PALETTE[2],
    "blest": _PALETTE[3],
    "ecf": _PALETTE[4],
    "min-rtt-0.9x": _PALETTE[5],
    "round-robin": _PALETTE[6],
    "linux-6.1": _PALETTE[7],
}
#: Colours for names that have none, in the order in which they are taken; the last may be used several times.
_OTHERS = ("#666666", "#117733", "#882255", "#332288", "#44AA99")
OTHER_COLOUR = _OTHERS[0]

#: The dash patterns of lines, the solid one first.
_DASHES = ((1, 0), (6, 2), (2, 2), (8, 2, 2, 2), (4, 4), (10, 3, 2, 3, 2, 3))

#: The share of a colour that remains in the next colour of its family.
_LIGHTER = 0.55
#: A star of five points, a plus turned into an x, and others that no chart has by name: paths from -1 to 1.
_STAR = "M0,-1.2L.28,-.38L1.14,-.38L.44,.14L.7,.98L0,.46L-.7,.98L-.44,.14L-1.14,-.38L-.28,-.38Z"
_X = "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z"
_HOURGLASS = "M-1,-1L1,-1L.24,0L1,1L-1,1L-.24,0Z"
_BOW = "M-1,-1L0,-.24L1,-1L1,1L0,.24L-1,1Z"
_BAR = "M-.3,-1.2L.3,-1.2L.3,1.2L-.3,1.2Z"
_DASH = "M-1.2,-.3L1.2,-.3L1.2,.3L-1.2,.3Z"
_HEXAGON = "M-1.1,0L-.56,-.96L.56,-.96L1.1,0L.56,.96L-.56,.96Z"
#: The mark of each scheduler, a filled shape: `spd`, `lpc`, `let` and their variants with
#: `rtx-aware` are drawn together.
SCHEDULERS: Mapping[str, str] = {
    "spd": "circle",
    "lpc": "square",
    "let": "triangle-up",
    "spdx": "cross",
    "lpcx": "diamond",
    "letx": "triangle-down",
    "linux": _HEXAGON,
    "linux-6.1": _HOURGLASS,
    "min-rtt": "triangle-right",
    "dft": "triangle-left",
    "gr-sty": _STAR,
    "redundant": _DASH,
    "round-robin": _X,
    "blest": _BOW,
    "ecf": _BAR,
}
#: Marks for names that have none, in the order in which they are taken.
_MARKS = tuple(dict.fromkeys(SCHEDULERS.values()))


def of_controls(names: Sequence[str]) -> dict[str, str]:
    """Return the colour of each of some congestion controls.

    A control with parameters, such as `compound(gamma=auto)`, has the colour of its family. If several of a
    family occur, each further one is lighter.
    """
    found: dict[str, str] = {}
    seen: dict[str, int] = {}
    families = dict.fromkeys(name.partition("(")[0] for name in names)
    others = dict(zip([one for one in families if one not in CONTROLS], _OTHERS, strict=False))
    # Those without parameters are first, because they have the family's usual colour.
    for name in sorted(dict.fromkeys(names), key=lambda name: "(" in name):
        family = name.partition("(")[0]
        found[name] = _lighter(
            CONTROLS.get(family) or others.get(family, _OTHERS[-1]), _LIGHTER ** seen.get(family, 0)
        )
        seen[family] = seen.get(family, 0) + 1
    return {name: found[name] for name in dict.fromkeys(names)}


def of_lines(names: Sequence[str]) -> dict[str, str]:
    """Return the colour of each line: the one of the scheduler or control with this name, or a free one."""
    found = {name: colour for name in names if (colour := LINES.get(name) or CONTROLS.get(name))}
    free = [one for one in (*_PALETTE, *_OTHERS) if one not in found.values()] or list(_OTHERS)
    others = [name for name in dict.fromkeys(names) if name not in found]
    found |= {name: free[place % len(free)] for place, name in enumerate(others)}
    return {name: found[name] for name in dict.fromkeys(names)}


def of_dashes(names: Collection[str]) -> list[tuple[int, ...]]:
    """Return the dash pattern of each of some lines: lengths of strokes and gaps."""
    return [_DASHES[place % len(_DASHES)] for place in range(len(names))]


def _lighter(colour: str, share: float) -> str:
    """Return a mixture of a colour's share and white."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - share * (255 - part)):02X}" for part in parts)


def of_schedulers(names: Sequence[str]) -> dict[str, str]:
    """Return the plot symbol of each scheduler. Marks differ as long as there are enough.

    A name with a mark keeps it; every other one takes the first free mark.
    """
    found = {name: SCHEDULERS[name] for name in names if name in SCHEDULERS}
    free = [mark for mark in _MARKS if mark not in found.values()]
    for place, name in enumerate(name for name in dict.fromkeys(names) if name not in found):
        found[name] = free[place] if place < len(free) else _MARKS[place % len(_MARKS)]
    return {name: found[name] for name in dict.fromkeys(names)}


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
