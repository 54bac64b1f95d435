"""HTTP requests of a captured session, and the HLS chunks among them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from anabranch.media import _hls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.capture._paths import Session
    from anabranch.capture._read import Capture


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """An HTTP request with its response.

    Attributes
    ----------
    method, target, host, range
        Of the request; empty if not given.
    status, content_length
        Of the response; None if not seen.
    t_s, first_byte_s, done_s
        The first byte of the request, and the first and last of the response, in seconds since the first
        frame; None if not seen.
    bytes
        Bytes of the body in order.
    length_guessed
        Whether the body is all data up to the next request, because its length was not captured.
    playlist
        The text of a playlist that was captured whole, or empty.
    """

    method: str
    target: str
    host: str
    range: str
    status: float | None
    content_length: float | None
    t_s: float
    first_byte_s: float | None
    done_s: float | None
    bytes: int
    length_guessed: bool
    playlist: str

    @property
    def address(self) -> str:
        """The address without its query, as playlists refer to it."""
        return urlsplit(urljoin(f"http://{self.host or 'server'}", self.target))._replace(query="").geturl()


def exchanges(capture: Capture, own: Sequence[Session]) -> list[Exchange]:
    """Return the HTTP exchanges of sessions in the order of their requests."""
    keys = {("connection", one.connection) for one in own}
    keys |= {("stream", path.stream) for one in own for path in one.paths}
    table = capture.tables["capture_requests"]
    names = list(Exchange.__dataclass_fields__)
    columns = [list(table[name]) for name in ("kind", "number", *names)]
    found = [
        Exchange(**dict(zip(names, values, strict=True)))
        for kind, number, *values in zip(*columns, strict=True)
        if (kind, number) in keys
    ]
    return sorted(found, key=lambda one: one.t_s)


def tables(found: Sequence[Exchange], begin_s: float) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of `requests`, `renditions` and `chunks`. Times count from `begin_s`."""

    def since(at_s: float | None) -> float | None:
        return None if at_s is None else at_s - begin_s

    requests = [
        {
            "client": 0,
            "id": number,
            "t_s": since(one.t_s),
            "resource": one.target.removeprefix("/"),
            "first_byte_s": since(one.first_byte_s),
            "done_s": since(one.done_s),
            "bytes": one.bytes,
        }
        for number, one in enumerate(found)
    ]
    ladder = _Ladder(found)
    chunks = []
    for one in found:
        place = ladder.chunk(one)
        if place is None:
            continue
        mbps = None
        if one.done_s is not None and one.done_s > one.t_s:
            mbps = 8e-6 * one.bytes / (one.done_s - one.t_s)
        chunks.append(
            {
                "client": 0,
                **place,
                "bytes": one.bytes,
                "t_s": since(one.t_s),
                "first_byte_s": since(one.first_byte_s),
                "done_s": since(one.done_s),
                "throughput_mbps": mbps,
                "abandoned": one.done_s is None,
            }
        )
    return {"requests": requests, "renditions": ladder.rows, "chunks": chunks}


class _Ladder:
    """The playlists of a session.

    Parameters
    ----------
    found
        The exchanges.
    """

    def __init__(self, found: Sequence[Exchange]) -> None:
        lists = {one.address: _hls.parse(one.playlist, Path(one.target)) for one in found if one.playlist}
        self.rows: list[dict[str, Any]] = []
        #: Track, rendition, index and duration by address and byte range.
        self._chunks: dict[tuple[str, str], dict[str, Any]] = {}
        masters = [(address, one) for address, one in lists.items() if one.variants]
        known: set[str] = set()
        if masters:
            address, master = masters[0]
            ordered = sorted(master.variants, key=lambda one: _number(one.attributes.get("BANDWIDTH")))
            targets = dict.fromkeys(urljoin(address, one.uri) for one in ordered)
            for rendition, target in enumerate(targets):
                variant = next(one for one in ordered if urljoin(address, one.uri) == target)
                self._add("video", rendition, target, variant.attributes, lists.get(_bare(target)))
                known.add(_bare(target))
            sounds = [attributes for _, attributes in master.media if attributes.get("TYPE") == "AUDIO"]
            for rendition, attributes in enumerate(one for one in sounds if one.get("URI")):
                target = urljoin(address, attributes["URI"].strip('"'))
                self._add("audio", rendition, target, attributes, lists.get(_bare(target)))
                known.add(_bare(target))
        else:
            for address, one in lists.items():
                if one.segments:
                    self._add("video", len(self.rows), address, {}, one)

    def _add(
        self,
        track: str,
        rendition: int,
        address: str,
        attributes: Mapping[str, str],
        playlist: _hls.Playlist | None,
    ) -> None:
        """Add a rendition, and its chunks if its playlist was captured."""
        width, _, height = attributes.get("RESOLUTION", "0x0").partition("x")
        segments = playlist.segments if playlist else []
        average = _number(attributes.get("AVERAGE-BANDWIDTH"))
        name = f"{height}p" if height != "0" else urlsplit(address).path.rpartition("/")[2]
        self.rows.append(
            {
                "track": track,
                "rendition": rendition,
                "name": name,
                "bandwidth_bps": _number(attributes.get("BANDWIDTH")),
                "average_bps": average or None,
                "width": _number(width),
                "height": _number(height),
                "frame_rate": float(attributes.get("FRAME-RATE", 0)) or None,
                "codecs": attributes.get("CODECS", "").strip('"'),
                "duration_s": sum(one.duration_ns for one in segments) / 1e9 or None,
            }
        )
        at = 0
        for index, segment in enumerate(segments):
            span = ""
            if segment.span:
                length, _, offset = segment.span.partition("@")
                at = int(offset) if offset else at
                span = f"bytes={at}-{at + int(length) - 1}"
                at += int(length)
            self._chunks[_bare(urljoin(address, segment.uri)), span] = {
                "track": track,
                "index": index,
                "rendition": rendition,
                "duration_s": segment.duration_ns / 1e9,
            }

    def chunk(self, one: Exchange) -> dict[str, Any] | None:
        """Return the place of a chunk in the ladder; None for another resource."""
        return self._chunks.get((one.address, one.range)) or self._chunks.get((one.address, ""))


def _bare(address: str) -> str:
    """Return an address without its query."""
    return urlsplit(address)._replace(query="").geturl()


def _number(text: str | None) -> int:
    """Return a whole number; 0 for anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else 0
