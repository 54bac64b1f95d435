"""Events of hls.js and dash.js in JSON: lines, or one array."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from anabranch.logs import _times
from anabranch.logs._events import Event
from anabranch.logs._parsed import MOST, BadLine, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The members of an object with the event's name, its time and its data.
_NAMES = ("event", "type", "name", "eventName", "eventType")
_TIMES = ("time", "timestamp", "ts", "t", "t_s", "at", "date", "wallclock")
_DATA = ("data", "detail", "payload", "details", "e")

#: Events of the video element, in the words of HTML, hls.js and dash.js.
_PLAIN: Mapping[str, str] = {
    "playing": "playing",
    "waiting": "waiting",
    "ended": "ended",
    "seeking": "seeking",
    "playbackplaying": "playing",
    "playbackwaiting": "waiting",
    "playbackended": "ended",
    "playbackseeking": "seeking",
    "bufferstalled": "stalled",
    "bufferloaded": "unstalled",
    "stallresolved": "unstalled",
    "stall_resolved": "unstalled",
}
#: hls.js events are `hlsFragLoaded`, or as in its code, `FRAG_LOADED`.
_HLSJS = re.compile(r"^(?:hls[A-Z]\w+|(?:FRAG|LEVEL|MANIFEST|BUFFER|FPS|ERROR|STALL)_?[A-Z_]*)$")
_DASHJS = re.compile(
    r"^(?:playback|fragmentLoading|quality|buffer|manifest|stream|period)[A-Z]\w*$|^bufferstalled$"
)


def rows(text: str, lines: Sequence[str]) -> tuple[list[tuple[int, Any]], list[BadLine]]:
    """Return the values of a file of JSON with the numbers of their lines, and the lines that are no JSON.

    A file with one array has its values; each has the number of its place in the array.
    """
    if text.lstrip().startswith("["):
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            whole = None
        if isinstance(whole, list):
            pair = len(whole) == 2 and isinstance(whole[0], str)
            return list(enumerate([whole] if pair else whole, 1)), []
    found, bad = [], []
    for number, line in enumerate(lines, 1):
        stripped = line.strip().rstrip(",")
        if stripped in {"", "[", "]"}:
            continue
        try:
            found.append((number, json.loads(stripped)))
        except json.JSONDecodeError as error:
            bad.append(BadLine(number=number, why=f"no JSON: {error.msg} at column {error.colno}"))
        except RecursionError:
            bad.append(BadLine(number=number, why="no JSON: it nests too deeply"))
        except ValueError:
            bad.append(BadLine(number=number, why="no JSON: a number of thousands of digits"))
    return found, bad


def name_of(row: Any) -> str:  # noqa: ANN401 - any value of JSON
    """Return the name of an event; empty if the value is none."""
    if isinstance(row, list) and row and isinstance(row[0], str):
        return row[0]
    if not isinstance(row, dict):
        return ""
    return next((row[name] for name in _NAMES if isinstance(row.get(name), str)), "")


def is_hlsjs(row: Any) -> bool:  # noqa: ANN401 - any value of JSON
    """Return whether a value is an event of hls.js."""
    return bool(_HLSJS.match(name_of(row)))


def is_dashjs(row: Any) -> bool:  # noqa: ANN401 - any value of JSON
    """Return whether a value is an event of dash.js, or a request in its metrics."""
    return bool(_DASHJS.match(name_of(row))) or (
        isinstance(row, dict) and {"trequest", "tresponse"} <= row.keys()
    )


def events(found: Sequence[tuple[int, Any]], kind: str) -> tuple[list[Event], list[BadLine]]:
    """Return the events of hls.js or dash.js, and the values that are none."""
    result: list[Event] = []
    bad: list[BadLine] = []
    read: Callable[[str, float | None, dict[str, Any]], Event | None] = (
        _hlsjs if kind == "hls.js" else _dashjs
    )
    for number, row in found:
        name = name_of(row)
        if not name and not is_dashjs(row):
            bad.append(BadLine(number=number, why="no event: it has no name"))
            continue
        try:
            at_s, data = _parts(row)
            one = _request(row) if not name or "trequest" in data else _shared(name, at_s, data)
            one = one or read(name, at_s, data)
        except (TypeError, ValueError, AttributeError, KeyError, OverflowError):
            bad.append(BadLine(number=number, why=f"the data of event `{name[:40]}` cannot be read"))
            continue
        if one is not None:
            result.append(one)
    return result, bad


def _parts(row: Any) -> tuple[float | None, dict[str, Any]]:  # noqa: ANN401 - any value of JSON
    """Return the time and the data of an event."""
    if isinstance(row, list):
        data = next((one for one in row[1:] if isinstance(one, dict)), {})
        times = [one for one in row[1:] if isinstance(one, int | float)]
        return _times.value(times[0], milliseconds=True) if times else None, data
    data = next((row[name] for name in _DATA if isinstance(row.get(name), dict)), row)
    name = next((name for name in _TIMES if row.get(name) is not None), None)
    return None if name is None else _times.value(row[name], milliseconds=name != "t_s"), data


def _shared(name: str, at_s: float | None, data: Mapping[str, Any]) -> Event | None:
    """Return an event that both players, or the video element, have; None for another one."""
    plain = name.lower().removeprefix("hls")
    kind = _PLAIN.get(plain)
    if kind is None or (kind in {"stalled", "unstalled"} and data.get("mediaType") not in {None, "video"}):
        return None
    place = data.get("position_s", data.get("currentTime", data.get("position")))
    return Event(kind, at_s, position_s=_number(place), buffer_s=_number(data.get("buffer_s")))


def _hlsjs(name: str, at_s: float | None, data: dict[str, Any]) -> Event | None:
    """Return an event of hls.js; None for one without a meaning here."""
    plain = name.removeprefix("hls").replace("_", "").lower()
    if plain in {"fragloading", "fragloaded", "fragloademergencyaborted"}:
        kind = {"fragloading": "loading", "fragloaded": "loaded"}.get(plain, "abandoned")
        return _fragment(kind, at_s, data)
    if plain == "levelswitched":
        return Event("switched", at_s, level=_whole(data.get("level")))
    if plain == "error" and data.get("details") == "bufferStalledError":
        return Event("stalled", at_s, buffer_s=_number(data.get("buffer")))
    if plain == "fpsdrop":
        return Event("dropped", at_s, index=_whole(data.get("currentDropped")))
    if plain == "manifestparsed" and isinstance(data.get("levels"), list):
        return Event(
            "levels",
            at_s,
            levels=[(_number(one.get("bitrate")), _whole(one.get("height"))) for one in data["levels"]],
        )
    return None


def _fragment(kind: str, at_s: float | None, data: dict[str, Any]) -> Event | None:
    """Return the load of a fragment of hls.js. `stats.loading` has its times in milliseconds."""
    fragment = data.get("frag") or data
    if fragment.get("type", "main") not in {"main", "audio"} or fragment.get("sn") == "initSegment":
        return None
    stats = data.get("stats") or fragment.get("stats") or {}
    times = stats.get("loading") or {}
    start, first, end = (_number(times.get(name)) or None for name in ("start", "first", "end"))
    if at_s is None and kind == "loaded" and end is not None:
        at_s = end / 1e3
    if at_s is None and kind == "loading" and start is not None:
        at_s = start / 1e3
    # The clock of the statistics may be another one than that of the events.
    shift_s = at_s - end / 1e3 if at_s is not None and end is not None else 0.0
    asked_s, first_s, done_s = (
        None if at_s is None or one is None or end is None else one / 1e3 + shift_s
        for one in (start, first, end)
    )
    url = fragment.get("url") or data.get("url") or fragment.get("relurl") or ""
    return Event(
        kind,
        at_s,
        index=_whole(fragment.get("sn")),
        level=_whole(fragment.get("level")),
        audio=fragment.get("type") == "audio",
        resource=path_of(url),
        duration_s=_number(fragment.get("duration")),
        asked_s=asked_s if kind == "loaded" else None,
        first_byte_s=first_s,
        done_s=done_s,
        bytes=_whole(stats.get("total") or stats.get("loaded")),
    )


def _dashjs(name: str, at_s: float | None, data: dict[str, Any]) -> Event | None:
    """Return an event of dash.js; None for one without a meaning here."""
    plain = name.lower()
    if plain in {"fragmentloadingstarted", "fragmentloadingcompleted", "fragmentloadingabandoned"}:
        kinds = {"fragmentloadingstarted": "loading", "fragmentloadingcompleted": "loaded"}
        request = data.get("request") or {}
        if request.get("type") not in {None, "MediaSegment"}:
            return None
        return _dash_load(kinds.get(plain, "abandoned"), at_s, request)
    if plain == "qualitychangerendered" and data.get("mediaType") == "video":
        return Event("switched", at_s, level=_whole(data.get("newQuality")))
    return None


def _dash_load(kind: str, at_s: float | None, request: Mapping[str, Any]) -> Event:
    """Return the load of a fragment of dash.js, from its FragmentRequest."""
    dates = [
        _times.value(request.get(new) or request.get(old), milliseconds=True)
        for new, old in (
            ("startDate", "requestStartDate"),
            ("firstByteDate", ""),
            ("endDate", "requestEndDate"),
        )
    ]
    place = request.get("index")
    return Event(
        kind,
        at_s if at_s is not None else dates[2] if kind == "loaded" else dates[0],
        index=_whole(place),
        level=_whole(request.get("quality")),
        audio=request.get("mediaType") == "audio",
        resource=path_of(str(request.get("url") or "")),
        duration_s=_number(request.get("duration")),
        asked_s=dates[0] if kind == "loaded" else None,
        first_byte_s=dates[1] if kind == "loaded" else None,
        done_s=dates[2] if kind == "loaded" else None,
        bytes=_whole(request.get("bytesLoaded")),
    )


def _request(row: Mapping[str, Any]) -> Event | None:
    """Return a request of dash.js' metrics (`HTTPList`); None if it is not of a media segment."""
    if row.get("type") != "MediaSegment":
        return None
    asked, first, done = (
        _times.value(row.get(name), milliseconds=True) for name in ("trequest", "tresponse", "_tfinish")
    )
    traces = row.get("trace") or []
    sizes = [sum(one.get("b") or [0]) for one in traces if isinstance(one, dict)]
    return Event(
        "loaded",
        done if done is not None else first,
        level=_whole(row.get("_quality")),
        audio=row.get("_streamType", row.get("mediaType")) == "audio",
        resource=path_of(str(row.get("url") or "")),
        duration_s=_number(row.get("_mediaduration")),
        asked_s=asked,
        first_byte_s=first,
        done_s=done,
        bytes=_whole(sum(sizes)) or None,
    )


def _number(value: Any) -> float | None:  # noqa: ANN401 - any value of JSON
    """Return a number; None for anything else, and for one that is too large."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST:
        return None
    return float(value)


def _whole(value: Any) -> int | None:  # noqa: ANN401 - any value of JSON
    """Return a whole number; None for anything else."""
    found = _number(value)
    return None if found is None else int(found)
