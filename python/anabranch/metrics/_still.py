"""The states of a viewer's screen: time without a new picture. The Rust crate `metrics` computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.plugins.tables import module

if TYPE_CHECKING:
    from anabranch.metrics._rows import Tables

    #: Begin and end, in seconds.
    Stretch = tuple[float, float]

#: The shortest stretch that counts as a freeze, in seconds. W3C's WebRTC statistics define `freezeCount` with
#: a delay of 150 ms. It is the `FREEZE_S` of the Rust crate.
FREEZE_S = 0.15


def standing_times(own: Tables) -> list[Stretch]:
    """Return a client's freezes. If a player never shows a picture, the whole session is one freeze."""
    found: list[Stretch] = module().standing_times(own)
    return found


def strips(tables: Tables) -> list[list[dict[str, Any]]]:
    """Return the states of each client's screen: dicts with `from_s`, `to_s` and `state`.

    `state` is `wait` before the start, `play` or `freeze`. A client without a player has none. The freezes
    are those of `standing_times`.
    """
    found: list[list[dict[str, Any]]] = module().strips(tables)
    return found
