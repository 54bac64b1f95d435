"""Computes VLC's counters from a trace.

The meaning of the columns (`vlc_play.py` of the laboratory, VLC 3.0's source):

`startup_s` From the start of the Python process to the first `MediaPlayerBuffering` of 100 %. VLC sends its
    request `LAUNCH_S` after the process began. 100 % is reported when the film that was read *reaches* the
    network delay (`es_out.c`, `EsOutDecodersStopBuffering`), one clock report before playback begins. This is
    `full` in the trace.
`rebuffer_count`, `rebuffer_s` From `MediaPlayerBuffering` of 0 % (`EsOutChangePosition`: the trace's
    `underflow`) to the next 100 % (`full`). A rebuffer that has not ended when the session is cut off does
    not count.
`lost_pictures`
    Pictures that came too late to the display (`video_output.c`): discarded, `late`. Pictures that the
    decoder skips or a flush drops are not counted.
`displayed_pictures` Pictures put on the screen. The last picture counts again every 80 ms while no new one
    comes (`video_output.c`, `VOUT_REDISPLAY_DELAY`; `ThreadDisplayRenderPicture` counts both).
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.metrics._rows import Tables

Figures = dict[str, float]

#: The time from the start of the process to VLC's request: 0.061 to 0.097 s in the logs of four sessions on
#: an idle machine.
LAUNCH_S = 0.07

# The time after which the current picture is displayed again, minus the time that the display takes to wake
# (`VOUT_MWAIT_TOLERANCE`).
_REDISPLAY_S = 0.080 - 0.004


def figures(tables: Tables) -> Figures:
    """Return the values that VLC would have counted in the session of a trace."""
    playback = tables["playback"]
    events = sorted(zip(playback["t_s"], playback["event"], strict=True), key=lambda event: event[0])
    started = next((time for time, event in events if event == "full"), None)
    stalls = _stalls(events)
    why = tables["frames"]["why"]
    until = float(tables["connections"]["duration_s"][0])
    result = {
        "rebuffer_count": float(len(stalls)),
        "rebuffer_s": sum(end - begin for begin, end in stalls),
        "lost_pictures": float(sum(cause == "late" for cause in why)),
        "displayed_pictures": float(displayed(tables["frames"], events, until)),
    }
    return result if started is None else {"startup_s": started + LAUNCH_S, **result}


def _stalls(events: Sequence[tuple[float, str]]) -> list[tuple[float, float]]:
    """Return the start of each underflow and the time of the 100 % that ended it."""
    stalls = []
    began: float | None = None
    for time, event in events:
        if event == "underflow":
            began = time
        elif began is not None and event in ("full", "resume"):
            stalls.append((began, time))
            began = None
    return stalls


def displayed(
    frames: Mapping[str, Sequence[Any]], events: Sequence[tuple[float, str]], until_s: float
) -> int:
    """Return how often a picture was put on the screen until the session ended.

    Parameters
    ----------
    frames
        The trace's pictures.
    events
        Times and names of playback events, in order.
    until_s
        The end of the session.
    """
    shown = sorted(time for time in frames["shown_s"] if time is not None and time <= until_s)
    # An underflow flushes the display: there is no last picture until the next one comes (`ThreadFlush`).
    flushes = [time for time, event in events if event == "underflow"]
    count = len(shown)
    for here, there in pairwise(shown):
        end = min([there, *(flush for flush in flushes if here <= flush < there)])
        # If the repetition is due at the same time as the next picture, it does not happen.
        count += max(ceil((end - here) / _REDISPLAY_S) - 1, 0)
    return count
