"""Parser for the text of HLS playlists (.m3u8, RFC 8216). It reports every fault with its line.

The tags of a segment apply to the next address, in any order (section 4.3.2). Variables (`EXT-X-DEFINE`)
follow draft-pantos-hls-rfc8216bis section 4.3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from anabranch import _files
from anabranch.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_SECOND = 10**9
_LINES = re.compile(r"\r\n|\n|\r")
# Like hls.js (`ATTR_LIST_REGEX`), but wider than section 4.2: small letters, and spaces after a quoted value.
_ATTRIBUTE = re.compile(r'\s*([A-Za-z0-9-]+)=("[^"]*"\s*|[^",]*)(?:,|$)')
_DECIMAL = re.compile(r"\d{1,9}(\.\d{1,18})?")
_BYTE_RANGE = re.compile(r"(\d{1,12})(?:@(\d{1,12}))?")
_RESOLUTION = re.compile(r"\d{1,6}x\d{1,6}")
_INTEGER = re.compile(r"\d{1,15}")
_VARIABLE = re.compile(r"\{\$([A-Za-z0-9_-]+)\}")
#: The largest playlist that is read, bytes.
LARGEST = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A rendition in a master playlist: its attributes, its address, and the lines of both."""

    attributes: Mapping[str, str]
    uri: str
    line: int
    tag_line: int

    @property
    def bandwidth_bps(self) -> int:
        """The declared peak rate (`BANDWIDTH`)."""
        return int(self.attributes["BANDWIDTH"])

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture; zeros if not declared."""
        width, _, height = self.attributes.get("RESOLUTION", "0x0").partition("x")
        return int(width), int(height)

    @property
    def frame_rate(self) -> float:
        """Pictures per second; zero if not declared."""
        return float(self.attributes.get("FRAME-RATE", 0))


@dataclass(frozen=True, kw_only=True)
class Span:
    """A part of a file: its address, its byte range as text, and its line."""

    uri: str
    span: str | None
    line: int


@dataclass(frozen=True, kw_only=True)
class Segment(Span):
    """A segment of a media playlist.

    Attributes
    ----------
    duration_ns
        The duration; zero is allowed.
    gap
        Whether the server lacks the segment (`EXT-X-GAP`).
    setup
        The index of the last `EXT-X-MAP` before the segment; None if no such tag came before it.
    """

    duration_ns: int
    gap: bool
    setup: int | None


@dataclass
class Playlist:
    """A parsed playlist, and its faults.

    Attributes
    ----------
    file
        The file.
    variants, media
        Of a master playlist: its renditions, and the line and attributes of each `EXT-X-MEDIA`.
    segments, setups
        Of a media playlist: its segments and decoder set-ups (`EXT-X-MAP`).
    target
        `EXT-X-TARGETDURATION` in seconds, and its line.
    ended
        Whether it has `EXT-X-ENDLIST`.
    variables
        The variables that it defines.
    faults
        The faults that were found.
    """

    file: Path
    variants: list[Variant] = field(default_factory=list)
    media: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    setups: list[Span] = field(default_factory=list)
    target: tuple[int, int] | None = None
    ended: bool = False
    variables: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def fault(self, message: str, line: int | None = None, *, hint: str = "") -> None:
        """Add a fault."""
        self.faults.append(Fault(message=message, where=str(self.file), line=line, hint=hint))


def read(file: Path, *, given: Mapping[str, str] | None = None, query: str = "") -> Playlist:
    """Parse the playlist in a file.

    Parameters
    ----------
    file
        The file.
    given
        The variables of the master playlist, which a media playlist may import.
    query
        The query of the address that requests the playlist. Its parameters may be used as variables.
    """
    playlist = Playlist(file=file)
    try:
        content = _files.content(file, LARGEST)
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        playlist.fault("not UTF-8 text", content[: error.start].count(b"\n") + 1, hint="is this a playlist?")
        return playlist
    except (OSError, ValueError) as error:
        playlist.fault(f"cannot read the playlist: {getattr(error, 'strerror', None) or error}")
        return playlist
    return parse(text, file, given=given, query=query)


def parse(text: str, file: Path, *, given: Mapping[str, str] | None = None, query: str = "") -> Playlist:
    """Parse the text of a playlist. `file` is its name in faults; the others are those of `read`."""
    playlist = Playlist(file=file)
    lines = _LINES.split(text.removeprefix("\ufeff"))
    if lines == [""]:
        playlist.fault("an empty file, not a playlist")
    elif lines[0].strip() != "#EXTM3U":
        playlist.fault("the first line is not #EXTM3U", 1, hint="is this a playlist?")
    else:
        _Reader(playlist, given or {}, dict(parse_qsl(query, keep_blank_values=True))).read(lines)
    return playlist


@dataclass
class _Pending:
    """The tags that wait for the next address."""

    tag: str = ""
    line: int = 0
    attributes: dict[str, str] | None = None
    duration_ns: int = 0
    span: str | None = None
    gap: bool = False
    broken: bool = False


class _Reader:
    """Reads a playlist line by line."""

    def __init__(self, playlist: Playlist, given: Mapping[str, str], query: Mapping[str, str]) -> None:
        self._playlist, self._given, self._query = playlist, given, query
        self._pending = _Pending()
        self._tags: dict[str, Callable[[str, int], str | None]] = {
            "#EXTINF": self._extinf,
            "#EXT-X-BYTERANGE": self._byte_range,
            "#EXT-X-DEFINE": self._define,
            "#EXT-X-ENDLIST": self._endlist,
            "#EXT-X-GAP": self._gap,
            "#EXT-X-MAP": self._map,
            "#EXT-X-MEDIA": self._media,
            "#EXT-X-STREAM-INF": self._stream,
            "#EXT-X-TARGETDURATION": self._target,
        }

    def read(self, lines: list[str]) -> None:
        """Read all lines."""
        for number, line in enumerate(map(str.strip, lines), 1):
            tag, _, value = line.partition(":")
            if line and not line.startswith("#"):
                self._address(line, number)
            elif tag in self._tags:
                message = self._variables_of(value) or self._tags[tag](self._replaced(value), number)
                if message:
                    self._playlist.fault(f"{tag[1:]}: {message}", number)
                    self._pending.broken = self._pending.broken or tag in _OF_AN_ADDRESS
        self._unaddressed()

    def _variables_of(self, text: str) -> str | None:
        """Return a message if a text uses a variable that is not defined."""
        unknown = [name for name in _VARIABLE.findall(text) if name not in self._playlist.variables]
        return f"no variable `{unknown[0]}` is defined before" if unknown else None

    def _replaced(self, text: str) -> str:
        """Replace each variable in a text by its value."""
        variables = self._playlist.variables
        return _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), text)

    def _address(self, line: str, number: int) -> None:
        """Handle an address, which completes the tags before it."""
        pending, self._pending = self._pending, _Pending()
        message = self._variables_of(line)
        if message:
            self._playlist.fault(message, number)
            return
        uri = self._replaced(line)
        if not pending.tag:
            self._playlist.fault(f"an address without EXTINF or EXT-X-STREAM-INF: `{line[:60]}`", number)
        elif pending.broken:
            return
        elif pending.attributes is not None:
            variant = Variant(attributes=pending.attributes, uri=uri, line=number, tag_line=pending.line)
            self._playlist.variants.append(variant)
        else:
            setups = len(self._playlist.setups)
            segment = Segment(
                uri=uri,
                span=pending.span,
                line=number,
                duration_ns=pending.duration_ns,
                gap=pending.gap,
                setup=setups - 1 if setups else None,
            )
            self._playlist.segments.append(segment)

    def _unaddressed(self) -> None:
        """Report a tag whose address is missing."""
        if self._pending.tag and not self._pending.broken:
            self._playlist.fault(f"{self._pending.tag} without an address", self._pending.line)

    def _begin(self, tag: str, line: int) -> None:
        """Start an entry with the tag that requires an address. Other tags of the segment may precede it."""
        if self._pending.tag:
            self._unaddressed()
            self._pending = _Pending()
        self._pending.tag, self._pending.line = tag, line

    def _extinf(self, value: str, line: int) -> str | None:
        self._begin("EXTINF", line)
        seconds = value.partition(",")[0].strip()
        if not _DECIMAL.fullmatch(seconds):
            return f"not a duration: `{seconds[:60]}`"
        self._pending.duration_ns = round(Decimal(seconds) * _SECOND)
        return None

    def _stream(self, value: str, line: int) -> str | None:
        self._begin("EXT-X-STREAM-INF", line)
        found = attributes(value)
        if found is None:
            return f"not a list of attributes: `{value[:60]}`"
        self._pending.attributes = found
        return _check_stream(found)

    def _byte_range(self, value: str, _line: int) -> str | None:
        self._pending.span = value.strip()
        return None if _BYTE_RANGE.fullmatch(value.strip()) else f"not a byte range: `{value.strip()[:60]}`"

    def _gap(self, _value: str, _line: int) -> None:
        self._pending.gap = True

    def _endlist(self, _value: str, _line: int) -> None:
        self._playlist.ended = True

    def _target(self, value: str, line: int) -> str | None:
        if not _INTEGER.fullmatch(value.strip()):
            return f"not whole seconds: `{value.strip()[:60]}`"
        self._playlist.target = int(value), line
        return None

    def _map(self, value: str, line: int) -> str | None:
        found = attributes(value)
        if found is None:
            return f"not a list of attributes: `{value[:60]}`"
        if "URI" not in found:
            return "no URI"
        span = found.get("BYTERANGE")
        if span is not None and not _BYTE_RANGE.fullmatch(span):
            return f"not a byte range: `{span[:60]}`"
        # Without an offset the range begins at the start of the file.
        span = span if span is None or "@" in span else f"{span}@0"
        self._playlist.setups.append(Span(uri=found["URI"], span=span, line=line))
        return None

    def _media(self, value: str, line: int) -> str | None:
        found = attributes(value)
        if found is None:
            return f"not a list of attributes: `{value[:60]}`"
        missing = [name for name in ("TYPE", "GROUP-ID") if name not in found]
        if missing:
            return f"no {missing[0]}"
        self._playlist.media.append((line, found))
        return None

    def _define(self, value: str, _line: int) -> str | None:
        found = attributes(value)
        if found is None:
            return f"not a list of attributes: `{value[:60]}`"
        known = self._playlist.variables
        if "NAME" in found:
            name, text = found["NAME"], found.get("VALUE")
            lacks = "no VALUE"
        elif "IMPORT" in found:
            name, text = found["IMPORT"], self._given.get(found["IMPORT"])
            lacks = f"the master playlist does not define `{name[:60]}`"
        elif "QUERYPARAM" in found:
            name, text = found["QUERYPARAM"], self._query.get(found["QUERYPARAM"])
            lacks = f"the address of the playlist has no parameter `{name[:60]}`"
        else:
            return "no NAME, IMPORT or QUERYPARAM"
        if text is None:
            return lacks
        if name in known:
            return f"a second variable `{name[:60]}`"
        known[name] = text
        return None


#: The tags that belong to one address. If one of them is broken, the address is ignored.
_OF_AN_ADDRESS = {"#EXTINF", "#EXT-X-STREAM-INF", "#EXT-X-BYTERANGE"}


def attributes(value: str) -> dict[str, str] | None:
    """Parse an attribute list (section 4.2); None if the text is not one."""
    found: dict[str, str] = {}
    at = 0
    while at < len(value):
        match = _ATTRIBUTE.match(value, at)
        if match is None:
            return None
        found[match[1]] = match[2].strip().strip('"')
        at = match.end()
    return found


def _check_stream(found: Mapping[str, str]) -> str | None:
    """Check the attributes of a variant that are used."""
    if "BANDWIDTH" not in found:
        return "no BANDWIDTH"
    patterns = {
        "BANDWIDTH": _INTEGER,
        "AVERAGE-BANDWIDTH": _INTEGER,
        "RESOLUTION": _RESOLUTION,
        "FRAME-RATE": _DECIMAL,
    }
    for name, pattern in patterns.items():
        if name in found and not pattern.fullmatch(found[name]):
            return f"not a value of {name}: `{found[name][:60]}`"
    return None if int(found["BANDWIDTH"]) else "not a value of BANDWIDTH: `0`"
