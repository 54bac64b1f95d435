"""Reader of static DASH manifests (MPD, ISO/IEC 23009-1): the renditions and the lengths of their segments.

No segment is read. Lengths come from `SegmentTemplate` (with `@duration` or a `SegmentTimeline`) or
`SegmentList`, at the period, the adaptation set or the representation (section 5.3.9).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from anabranch import _files
from anabranch.errors import Fault, MediaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from xml.etree.ElementTree import Element

_SECOND = 10**9
#: The largest manifest that is read, bytes, and the most segments that one may describe.
_LARGEST, _MOST_SEGMENTS = 16 * 2**20, 200_000
#: Elements that describe the segments, by preference. Their attributes are inherited from the levels above.
_SEGMENTS = ("SegmentTemplate", "SegmentList")
#: A duration as XML Schema writes it. Years and months have no fixed length.
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_RATE = re.compile(r"(\d+)(?:/(\d+))?")


@dataclass(frozen=True, kw_only=True)
class Rendition:
    """A representation with pictures: the attributes of the same names. Zeros and None are missing values."""

    bandwidth_bps: int
    width: int
    height: int
    frame_rate: float | None
    codecs: str


@dataclass(kw_only=True)
class Manifest:
    """A manifest.

    Attributes
    ----------
    renditions
        The representations of the first period.
    lengths_ns
        The length of each segment over all periods; empty if the manifest does not divide its files.
    duration_ns
        The length of the film; None if unknown.
    notes
        Parts that are left out.
    """

    renditions: list[Rendition] = field(default_factory=list)
    lengths_ns: list[int] = field(default_factory=list)
    duration_ns: int | None = None
    notes: list[str] = field(default_factory=list)


def is_manifest(file: Path) -> bool:
    """Return whether a file looks like a DASH manifest: XML with an element `MPD`."""
    try:
        with file.open("rb") as opened:
            head = opened.read(4096)
    except OSError:
        return False
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") and b"MPD" in head


def read(file: Path) -> Manifest:
    """Read a manifest.

    Raises
    ------
    MediaError
        If it is no manifest, describes a live stream, or has no rendition with pictures.
    """
    try:
        content = _files.content(file, _LARGEST)
    except (OSError, ValueError) as error:
        raise _error(file, f"cannot read the manifest: {getattr(error, 'strerror', None) or error}") from None
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise _error(file, "a manifest with a document type", hint="its entities could be of any size")
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise MediaError(
            [Fault(message=f"not XML: {error.msg}", where=str(file), line=error.position[0])]
        ) from None
    for element in root.iter():
        element.tag = str(element.tag).rpartition("}")[2]
    try:
        return _manifest(root, file)
    except (ArithmeticError, ValueError) as error:
        raise _error(file, f"not a manifest: {error}") from None


def _error(file: Path, message: str, *, hint: str = "") -> MediaError:
    return MediaError([Fault(message=message, where=str(file), hint=hint)])


def _manifest(root: Element, file: Path) -> Manifest:
    """Return the contents of a parsed manifest."""
    if root.tag != "MPD":
        raise _error(file, f"not a manifest: the first element is `{root.tag[:60]}`", hint="expected `MPD`")
    if root.get("type", "static") != "static":
        hint = "save the manifest of a recorded stream"
        raise _error(file, 'a live stream: the manifest has type="dynamic"', hint=hint)
    periods = root.findall("Period")
    whole = root.get("mediaPresentationDuration")
    found = Manifest(duration_ns=_nanoseconds(duration(whole)) if whole else None)
    for number, (period, lasts) in enumerate(_periods(periods, duration(whole) if whole else None)):
        chosen = _pictures(period)
        if number == 0 and chosen is not None:
            found.renditions = [_rendition(chosen, one) for one in chosen.findall("Representation")]
            if sum(_kind(one) == "video" for one in period.findall("AdaptationSet")) > 1:
                found.notes.append("only the first adaptation set with pictures is used")
            if any(_kind(one) == "audio" for one in period.findall("AdaptationSet")):
                found.notes.append("the sound of the manifest is left out")
        if chosen is not None:
            found.lengths_ns += [_nanoseconds(one) for one in _lengths(period, chosen, lasts)]
    if not found.renditions:
        raise _error(file, "no representation with pictures in the first period")
    _check(len(found.lengths_ns))
    return found


def duration(text: str) -> Fraction:
    """Return a duration of XML Schema in seconds.

    Raises
    ------
    ValueError
        If it is no duration, or has years or months.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        message = f"not a duration: `{text[:60]}`"
        raise ValueError(message)
    days, hours, minutes, seconds = (Fraction(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _nanoseconds(seconds: Fraction) -> int:
    return round(seconds * _SECOND)


def _periods(periods: Sequence[Element], whole: Fraction | None) -> Iterator[tuple[Element, Fraction | None]]:
    """Yield each period with its length: its `@duration`, or until the next one or the end (5.3.2)."""
    starts: list[Fraction | None] = []
    for period in periods:
        given, before = period.get("start"), starts[-1] if starts else Fraction(0)
        last = periods[len(starts) - 1].get("duration") if starts else None
        follows = before + duration(last) if before is not None and last else None
        starts.append(duration(given) if given else (follows if starts else Fraction(0)))
    for period, start, end in zip(periods, starts, [*starts[1:], whole], strict=True):
        given = period.get("duration")
        left = end - start if end is not None and start is not None else None
        yield period, duration(given) if given else left


def _kind(group: Element) -> str:
    """Return the kind of an adaptation set (`video`, `audio`, `text`), by its type or sizes; else empty."""
    for element in (group, *group.findall("ContentComponent"), *group.findall("Representation")):
        kind = element.get("contentType") or (element.get("mimeType") or "").partition("/")[0]
        if kind:
            return kind
        if element.get("height") or element.get("width"):
            return "video"
    return ""


def _pictures(period: Element) -> Element | None:
    """Return the first adaptation set with pictures."""
    return next((one for one in period.findall("AdaptationSet") if _kind(one) == "video"), None)


def _rendition(group: Element, representation: Element) -> Rendition:
    """Return a representation. It inherits attributes of the adaptation set (section 5.3.7)."""

    def of(name: str) -> str:
        return representation.get(name) or group.get(name) or ""

    bandwidth = representation.get("bandwidth")
    if bandwidth is None or not bandwidth.strip().isdigit() or not int(bandwidth):
        message = f"a representation without a bandwidth: `{representation.get('id', '')[:60]}`"
        raise ValueError(message)
    rate = _RATE.fullmatch(of("frameRate").strip())
    return Rendition(
        bandwidth_bps=int(bandwidth),
        width=int(of("width") or 0),
        height=int(of("height") or 0),
        frame_rate=int(rate[1]) / int(rate[2] or 1) if rate and int(rate[2] or 1) else None,
        codecs=of("codecs"),
    )


def _lengths(period: Element, group: Element, lasts: Fraction | None) -> list[Fraction]:
    """Return the lengths of a period's segments in seconds, those of its first representation."""
    levels = [period, group, *group.findall("Representation")[:1]]
    for name in _SEGMENTS:
        found = [element for level in levels for element in level.findall(name)]
        if found:
            return _of_segments(found, lasts)
    return []


def _of_segments(levels: Sequence[Element], lasts: Fraction | None) -> list[Fraction]:
    """Return the lengths that an element and those above it describe."""
    attributes: dict[str, str] = {}
    for level in levels:
        attributes |= level.attrib
    scale = Fraction(int(attributes.get("timescale", 1)))
    timelines = [timeline for level in levels for timeline in level.findall("SegmentTimeline")]
    if timelines:
        return _of_timeline(timelines[-1], scale, lasts)
    if "duration" not in attributes:
        return []
    each = int(attributes["duration"]) / scale
    if each <= 0:
        message = "segments without a length"
        raise ValueError(message)
    count = len(levels[-1].findall("SegmentURL"))
    if lasts is None:
        return [each] * count
    count = count or ceil(lasts / each)
    _check(count)
    return [min(each, lasts - place * each) for place in range(count) if lasts > place * each]


def _check(count: int) -> None:
    """Refuse more segments than any film has."""
    if count > _MOST_SEGMENTS:
        message = f"more than {_MOST_SEGMENTS:,} segments"
        raise ValueError(message)


def _of_timeline(timeline: Element, scale: Fraction, lasts: Fraction | None) -> list[Fraction]:
    """Return the lengths of a timeline. A negative `@r` repeats until the next time or the period's end."""
    rows = timeline.findall("S")
    found: list[Fraction] = []
    now = Fraction(int(rows[0].get("t", 0))) if rows else Fraction(0)
    end = now + lasts * scale if lasts is not None else None
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        now = Fraction(int(row.get("t", now)))
        each = Fraction(int(row.get("d", 0)))
        if each <= 0:
            message = "a segment without a length"
            raise ValueError(message)
        again = int(row.get("r", 0))
        if again < 0:
            until = Fraction(int(following.get("t", 0))) if following is not None else end
            if until is None:
                message = "segments are repeated to an end that is unknown"
                raise ValueError(message)
            again = max(ceil((until - now) / each) - 1, 0)
        _check(len(found) + again + 1)
        found += [each / scale] * (again + 1)
        now += each * (again + 1)
    return found
