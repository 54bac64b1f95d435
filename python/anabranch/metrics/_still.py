"""Time without a new picture, and film that is not shown. The Rust crate `metrics` computes both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.plugins.tables import module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.metrics._rows import Tables

    #: Begin and end, in seconds.
    Stretch = tuple[float, float]

#: The shortest stretch that counts as a freeze, in seconds. W3C's WebRTC statistics define `freezeCount` with
#: a delay of 150 ms. It is the `FREEZE_S` of the Rust crate.
FREEZE_S = 0.15


@dataclass(frozen=True, kw_only=True)
class Screen:
    """The time for which a client's screen showed new pictures.

    Attributes
    ----------
    begin_s
        When the first picture began to play; None if nothing was shown.
    until_s
        The end of the film, of `application.duration` or of the run, whichever is first.
    stretches
        The stretches without a new picture, in order.
    freezes
        The stretches that are long enough to be a freeze, joined if they nearly touch.
    shown_s
        Seconds of film that were shown.
    wanted_s
        The film's length, or `application.duration` if that is shorter.
    still_s
        Seconds without a new picture; None if nothing was shown.
    longest_s
        The longest stretch; None if nothing was shown.
    unplayed_s
        Seconds of `wanted_s` that were not shown.
    is_reached
        Whether the player reached the end of `wanted_s`.
    """

    begin_s: float | None
    until_s: float
    stretches: Sequence[Stretch]
    freezes: Sequence[Stretch]
    shown_s: float
    wanted_s: float
    still_s: float | None
    longest_s: float | None
    unplayed_s: float
    is_reached: bool


def screen(own: Tables) -> Screen:
    """Return the screen of the client with these tables; an empty one if it has no player."""
    return Screen(**module().screen(own))


def standing_times(own: Tables) -> list[Stretch]:
    """Return a client's freezes; a session of a player that shows no picture is one from its begin."""
    found: list[Stretch] = module().standing_times(own)
    return found
