"""Messages of hls.js and dash.js in a browser's console."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from anabranch.logs import _times
from anabranch.logs._events import Event
from anabranch.logs._parsed import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HLSJS = re.compile(
    r"\[(?:log|warn|error|debug|info)\] >|\[(?:audio-)?stream-controller\]|\[level-controller\]"
)
DASHJS = re.compile(r"\[\d+\]\[(?:[A-Z]\w+)\]|\[dash\.js \d")

#: Safari writes each part of a message in quotation marks, with a dash between.
_SAFARI = re.compile(r'"? – "?')
#: `Loading fragment 3 cc: 0 of [0-9] level: 2`; before version 1 `Loading 3 of [0 ,9],level 2`.
_LOADING = re.compile(r"Loading (?:fragment |segment )?(\d{1,15})\b.{0,60}?\blevel:? ?(\d{1,4})\b")
_LOADING_NEW = re.compile(r"Loading (?:main|audio) sn: (\d{1,15})\b.{0,60}?\blevel:? ?(\d{1,4})\b")
_LOADED = re.compile(
    r"Loaded {1,9}(?:fragment |segment |main sn: ?|sn: ?)?(\d{1,15}) of (?:\[[\d ,-]{1,40}\],? ?)?"
    r"(?:level|track):? ?(\d{1,4})\b"
)
_SWITCHING = re.compile(r"[Ss]witching to level (\d{1,4})\b")
_STALLED = re.compile(r"bufferStalledError|Playback stalling at @")
_OVER = re.compile(r"playback not stuck anymore @[\d.]{1,20}, after (\d{1,12}) ?ms")

_DASH = re.compile(r"\[(\d{1,14})\](?:\[(\w+)\])?(?:\[(\w+)\])? ?(.*)")
_NATIVE = re.compile(r"Native video element event: (\w+)")
_NEXT = re.compile(r"(?:Next fragment request url|Init fragment url).{0,200}? is (\S+)")
_COMPLETED = re.compile(r"OnFragmentLoadingCompleted\b.{0,200}? - Url: (\S+)")
_QUALITY = re.compile(r"[Ss]witch(?:ing|ed)?(?: quality)? from (\d{1,4}) to (\d{1,4})\b")
#: The buffer, which `AbrController` adds to a switch.
_HELD = re.compile(r"\(buffer: (\d{1,6}(?:\.\d{1,9})?)\)")


def hlsjs(lines: Sequence[str]) -> Iterator[tuple[int, Event]]:
    """Yield the events in the console text of hls.js, with the number of each line."""
    prefixes = _times.Prefixes()
    for number, line in enumerate(lines, 1):
        at_s = prefixes.time(line)
        text = _SAFARI.sub(" ", line)
        if (found := _LOADED.search(text)) is not None:
            yield number, _chunk("loaded", at_s, text, found)
        elif (found := _LOADING.search(text) or _LOADING_NEW.search(text)) is not None:
            yield number, _chunk("loading", at_s, text, found)
        elif (found := _SWITCHING.search(text)) is not None:
            yield number, Event("switching", at_s, level=int(found[1]))
        elif (found := _OVER.search(text)) is not None:
            yield number, Event("unstalled", at_s, lasted_s=int(found[1]) / 1e3)
        elif _STALLED.search(text):
            yield number, Event("stalled", at_s)


def _chunk(kind: str, at_s: float | None, text: str, found: re.Match[str]) -> Event:
    """Return an event of a chunk. The level of sound is one of sound tracks, and left out."""
    audio = "[audio-stream-controller]" in text or "Loading audio" in text
    level = None if audio else int(found[2])
    return Event(kind, at_s, index=int(found[1]), level=level, audio=audio)


def dashjs(lines: Sequence[str]) -> Iterator[tuple[int, Event]]:
    """Yield the events in the console text of dash.js, with the number of each line.

    The number in brackets is the time since the player was made, in milliseconds.
    """
    for number, line in enumerate(lines, 1):
        if (whole := _DASH.search(line)) is None:
            continue
        at_s, text = int(whole[1]) / 1e3, whole[4]
        audio = whole[3] == "audio" or "media type audio" in text or "(audio)" in text
        if (found := _NATIVE.search(text)) is not None:
            if found[1] in {"playing", "waiting", "seeking", "ended"}:
                yield number, Event(found[1], at_s)
        elif (found := _NEXT.search(text)) is not None:
            yield number, Event("loading", at_s, resource=path_of(found[1]), audio=audio)
        elif (found := _COMPLETED.search(text)) is not None:
            yield number, Event("loaded", at_s, resource=path_of(found[1]), audio=audio)
        elif (found := _QUALITY.search(text)) is not None and not audio:
            held = _HELD.search(text)
            buffer_s = None if held is None else float(held[1])
            yield number, Event("switching", at_s, level=int(found[2]), buffer_s=buffer_s)
