"""Times in which a player ran out of media."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.plugins.tables import module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def stall_times(events: Sequence[Mapping[str, Any]], until_s: float) -> list[tuple[float, float]]:
    """Return when each underflow began and when playing went on, in seconds.

    Parameters
    ----------
    events
        One client's playback events by time.
    until_s
        The end of the session: an underflow without a resume lasts until then.
    """
    found: list[tuple[float, float]] = module().stall_times(
        [(row["t_s"], row["event"]) for row in events], until_s
    )
    return found
