"""VLC without a window, which plays one address and reports events, a line of JSON each.

It is a separate program: `python -m anabranch.live.viewers.vlc_program URL SECONDS USER [OPTION...]`.
It prints `ready`, begins when it receives a line, and ends with the film, after so many seconds, or with its
input.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from typing import Any

from anabranch.live.viewers.lines import tell

#: Time between two looks at VLC's counters.
_PERIOD_S = 0.02
#: The longest time without a report, though nothing changed.
_SILENCE_S = 0.1
#: The reported counters of libvlc, by our names.
_COUNTERS = {
    "read": "read_bytes",
    "demuxed": "demux_read_bytes",
    "decoded": "decoded_video",
    "displayed": "displayed_pictures",
    "lost": "lost_pictures",
}
#: The options that have it show no picture, play no sound and heed no setting of the user's.
_OPTIONS = (
    "--vout=vdummy", "--aout=adummy", "--no-osd", "--no-spu", "--no-video-title-show", "--avcodec-hw=none",
    "--ignore-config", "--quiet",
)  # fmt: skip


def main(url: str, seconds: str, user: str, *options: str) -> None:
    """Play a film, as a user of this number where one is given."""
    import vlc

    if user:
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
    instance = vlc.Instance([*_OPTIONS, *options])
    player = instance.media_player_new()
    media = instance.media_new(url)
    player.set_media(media)
    over = threading.Event()
    _listen(vlc, player, over)
    tell("ready", version=vlc.libvlc_get_version().decode(), user=os.geteuid())
    if not sys.stdin.readline():
        return
    player.play()
    tell("play")
    _follow(media, player, vlc.MediaStats(), time.monotonic() + float(seconds), over)
    player.stop()


def _listen(vlc: Any, player: Any, over: threading.Event) -> None:  # noqa: ANN401
    """Report VLC's own events as they come."""
    manager = player.event_manager()

    def buffering(event: Any) -> None:  # noqa: ANN401
        tell("buffering", percent=event.u.new_cache, time_ms=player.get_time())

    def ended(name: str) -> None:
        tell(name)
        over.set()

    manager.event_attach(vlc.EventType.MediaPlayerBuffering, buffering)
    manager.event_attach(vlc.EventType.MediaPlayerEndReached, lambda _: ended("end"))
    manager.event_attach(vlc.EventType.MediaPlayerEncounteredError, lambda _: ended("error"))


def _follow(media: Any, player: Any, stats: Any, until: float, over: threading.Event) -> None:  # noqa: ANN401
    """Report VLC's counters whenever they change, until it is over."""
    last: tuple[int, ...] = ()
    told = 0.0
    while not over.wait(_PERIOD_S):
        now = time.monotonic()
        # The parent has ended, or asks it to end.
        if now >= until or select.select([sys.stdin], [], [], 0)[0]:
            break
        if not media.get_stats(stats):
            continue
        values = tuple(getattr(stats, name) for name in _COUNTERS.values())
        if values != last or now - told >= _SILENCE_S:
            last, told = values, now
            tell("counters", **dict(zip(_COUNTERS, values, strict=True)), time_ms=player.get_time())
    if media.get_stats(stats):
        tell("counters", **{name: getattr(stats, its) for name, its in _COUNTERS.items()})
    if not over.is_set():
        tell("stop")


if __name__ == "__main__":
    main(*sys.argv[1:])
    # VLC's own threads may still be about: nothing waits for them.
    os._exit(0)
