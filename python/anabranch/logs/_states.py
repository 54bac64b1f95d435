"""The playback that CMCD's reports of events show (version 2, event mode)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.logs._cmcd_values import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anabranch.logs._parsed import Found


def is_event(cmcd: Mapping[str, Any]) -> bool:
    """Return whether keys are a report of an event, and not of a request."""
    return isinstance(cmcd.get("e"), str)


def has_states(reports: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether reports have changes of the player's state."""
    return any(cmcd.get("e") == "ps" and "sta" in cmcd for cmcd in reports)


def play(
    reports: Sequence[tuple[float, Mapping[str, Any]]], found: Found
) -> list[tuple[float, float | None]]:
    """Add the start, the end and the switches of playback, and return its stalls.

    A stall is the state `r` (rebuffering) after the start, to the next other state. After a seek (`k`) it
    belongs to the seek.

    Parameters
    ----------
    reports
        Reports of events with their times, in the order of time.
    found
        Receives the rows.
    """
    stalls: list[tuple[float, float | None]] = []
    started = seeking = False
    open_s: float | None = None
    for at_s, cmcd in reports:
        if cmcd.get("e") == "bc" and cmcd.get("ot", "v") != "a":
            found.happened(at_s, "switch")
        if cmcd.get("e") != "ps" or not isinstance(cmcd.get("sta"), str):
            continue
        state = cmcd["sta"]
        if open_s is not None and state != "r":
            stalls.append((open_s, at_s))
            open_s = None
        if state == "p":
            if not started:
                found.happened(at_s, "start")
            started, seeking = True, False
        elif state == "r" and started and not seeking and open_s is None:
            open_s = at_s
        elif state == "k":
            seeking = True
        elif state == "e":
            found.happened(at_s, "end")
    if open_s is not None:
        stalls.append((open_s, None))
    return stalls


def response(cmcd: Mapping[str, Any], at_s: float | None) -> dict[str, float | None]:
    """Return when the first and the last byte of a response came (`ttfb`, `ttlb`), after its request."""
    first_ms, last_ms = (number(dict(cmcd), key) for key in ("ttfb", "ttlb"))
    return {
        "first_byte_s": None if at_s is None or first_ms is None else at_s + first_ms / 1e3,
        "done_s": None if at_s is None or last_ms is None else at_s + last_ms / 1e3,
    }
