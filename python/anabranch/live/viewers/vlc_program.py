"""VLC without a window. It plays one address and reports events as lines of JSON.

It is a separate program: `python -m anabranch.live.viewers.vlc_program URL SECONDS USER [OPTION...]`. It
prints `ready` and begins when it receives a line. It ends with the film, after SECONDS, or when its input is
closed.
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
#: The longest time without a report if nothing changes.
_SILENCE_S = 0.1
#: The reported counters of libvlc, by our names.
_COUNTERS = {
    "read": "read_bytes",
    "demuxed": "demux_read_bytes",
    "decoded": "decoded_video",
    "displayed": "displayed_pictures",
    "lost": "lost_pictures",
}
#: The options with which VLC shows no picture, plays no sound and ignores the user's settings.
_OPTIONS = (
    "--vout=vdummy", "--aout=adummy", "--no-osd", "--no-spu", "--no-video-title-show", "--avcodec-hw=none",
    "--ignore-config", "--quiet",
)  # fmt: skip


def main(url: str, seconds: str, user: str, *options: str) -> None:
    """Play a film, as the user with this number if one is given."""
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
        # The parent has ended or requests the end.
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
    # VLC's own threads may still run. The process does not wait for them.
    os._exit(0)
