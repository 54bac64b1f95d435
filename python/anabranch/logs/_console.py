"""Messages of hls.js and dash.js in a browser's console."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anabranch.logs import _times
from anabranch.logs._events import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HLSJS = re.compile(
    r"\[(?:log|warn|error|debug|info)\] >|\[(?:audio-)?stream-controller\]|\[level-controller\]"
)
DASHJS = re.compile(r"\[\d+\]\[(?:[A-Z]\w+)\]|\[dash\.js \d")

#: Safari writes each part of a message in quotation marks, with a dash between.
_SAFARI = re.compile(r'"? – "?')
_LOADING = re.compile(r"Loading (?:fragment|segment) (\d+)\b.*?\blevel:? ?(\d+)")
_LOADING_NEW = re.compile(r"Loading (?:main|audio) sn: (\d+)\b.*?\blevel:? ?(\d+)")
_LOADED = re.compile(r"Loaded (?:fragment|segment|main sn:|sn:) ?(\d+) of (?:level|track):? ?(\d+)")
_SWITCHING = re.compile(r"[Ss]witching to level (\d+)")
_STALLED = re.compile(r"bufferStalledError|Playback stalling at @")
_OVER = re.compile(r"playback not stuck anymore @[\d.]+, after (\d+) ?ms")

_DASH = re.compile(r"\[(\d+)\](?:\[(\w+)\])?(?:\[(\w+)\])? ?(.*)")
_NATIVE = re.compile(r"Native video element event: (\w+)")
_NEXT = re.compile(r"(?:Next fragment request url|Init fragment url).*? is (\S+)")
_COMPLETED = re.compile(r"OnFragmentLoadingCompleted\b.*? - Url: (\S+)")
_QUALITY = re.compile(r"[Ss]witch(?:ing|ed)?(?: quality)? from (\d+) to (\d+)")


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
        audio = whole[3] == "audio" or "media type audio" in text
        if (found := _NATIVE.search(text)) is not None:
            if found[1] in {"playing", "waiting", "seeking", "ended"}:
                yield number, Event(found[1], at_s)
        elif (found := _NEXT.search(text)) is not None:
            yield number, Event("loading", at_s, resource=_path(found[1]), audio=audio)
        elif (found := _COMPLETED.search(text)) is not None:
            yield number, Event("loaded", at_s, resource=_path(found[1]), audio=audio)
        elif (found := _QUALITY.search(text)) is not None and not audio:
            yield number, Event("switching", at_s, level=int(found[2]))


def _path(url: str) -> str:
    """Return the path of an address, as table `requests` has it."""
    return urlsplit(url).path.removeprefix("/")
