"""One session: a file or an HLS stream over one socket, with its times and counters."""

from __future__ import annotations

import http.client
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urljoin, urlsplit

from anabranch.errors import Fault, InputError
from anabranch.measure._playback import Playback
from anabranch.measure._sockets import Connection, Sample, Watch, opened

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from anabranch.measure._captured import Captured
    from anabranch.measure._paths import Host
    from anabranch.measure._paths import Path as Way
    from anabranch.media._hls import Playlist, Segment

#: The player stops to request chunks with this much film in its buffer, s.
_AHEAD_S = 30.0
#: The share of the last chunk's rate that the next rendition may need.
_CAUTION = 0.8
#: The name of the model of a player.
MODELLED = "a model of a player"
#: The longest wait for the server, s.
_PATIENCE_S = 15.0
PIECE = 64 * 1024
#: The largest playlist that is read, bytes.
LARGEST = 8 * 2**20
_MOST_REDIRECTS = 5


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A chunk: when it was requested and complete (s), its bytes, and its rendition's height and rate."""

    asked_s: float
    came_s: float
    bytes: int
    height: int | None
    rate_bps: int | None


@dataclass(kw_only=True)
class Session:
    """The results of one session. Times are seconds since its first request.

    Attributes
    ----------
    arm, trial
        The name of the arm, and the number of the trial from 0.
    error
        Why the session ended early; empty if it did not.
    bytes, duration_s
        Received bytes of HTTP bodies, and the time of the last one.
    marks
        Pairs of a time and the bytes that had been received.
    player
        The name and version of the player; empty for a download.
    chunks, playback
        The chunks of an HLS stream, and the playback.
    ended_s, film_s
        When the player showed the last picture, and the seconds of film until there, if they are known.
    dropped
        The pictures that the player did not show; None for the model.
    samples
        The kernel's counters over time.
    ends
        The local addresses and ports of its sockets.
    captured
        The figures of the capture of its headers; None without a capture.
    """

    arm: str
    trial: int
    error: str = ""
    bytes: int = 0
    duration_s: float = 0.0
    marks: list[tuple[float, int]] = field(default_factory=list)
    player: str = ""
    chunks: list[Chunk] = field(default_factory=list)
    dropped: int | None = None
    playback: Playback | None = None
    ended_s: float | None = None
    film_s: float | None = None
    samples: list[Sample] = field(default_factory=list)
    ends: list[tuple[str, int]] = field(default_factory=list)
    captured: Captured | None = None

    def add_bytes(self, count: int, at_s: float) -> None:
        """Count bytes of a body."""
        self.bytes += count
        self.marks.append((at_s, self.bytes))

    def add_chunk(self, chunk: Chunk) -> None:
        """Record a chunk that came whole."""
        self.chunks.append(chunk)

    def add_counters(self, watch: Watch) -> None:
        """Take over what was read from the session's sockets."""
        self.samples, self.ends = watch.samples, watch.ends

    @property
    def fell_back(self) -> bool:
        """Whether an MPTCP session became TCP."""
        return any(sample.fell_back for sample in self.samples)


@dataclass(frozen=True, kw_only=True)
class Order:
    """One session to play or download.

    Attributes
    ----------
    host, url
        This host, and the address.
    arm, trial
        The session's names.
    path
        The only path to use, by TCP; None for all paths, by MPTCP.
    limit_s
        The seconds of film to play, or of a download.
    """

    host: Host
    url: SplitResult
    arm: str
    trial: int
    path: Way | None
    limit_s: float

    @property
    def multipath(self) -> bool:
        """Whether the session speaks MPTCP."""
        return self.path is None

    def connection(self, watch: Watch) -> Connection:
        """Return a connection to the server, which is opened when it is first used. Its counters are read."""

        def connect() -> socket.socket:
            return opened(self.host, multipath=self.multipath, path=self.path, timeout_s=_PATIENCE_S)

        port = self.host.server[1]
        made = Connection(
            self.url.hostname or "",
            port,
            connect,
            secure=self.url.scheme == "https",
            before_close=watch.look,
        )
        watch.add(made)
        return made


def play(order: Order) -> Session:
    """Play or download an address by the model of a player, and return what was measured."""
    session = Session(arm=order.arm, trial=order.trial)
    with Watch(multipath=order.multipath) as watch, closing(order.connection(watch)) as connection:
        try:
            _Viewer(session, connection, order.url, order.limit_s).run()
        except (OSError, http.client.HTTPException) as error:
            session.error = reason(error)
    session.add_counters(watch)
    return session


def pieces(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the pieces of a body as they come.

    Raises
    ------
    HTTPException
        If the server closes the connection before the end of the body.
    """
    while piece := answer.read1(PIECE):
        yield piece
    # `read1` returns nothing then, and does not raise.
    if answer.length:
        message = f"the server closed the connection {answer.length:,} bytes before the end of the body"
        raise http.client.HTTPException(message)


def reason(error: Exception) -> str:
    """Return why a session ended early, in a line of words."""
    if isinstance(error, InputError):
        return "; ".join(
            f"{fault.message} ({fault.where})" if fault.where else fault.message for fault in error.faults
        )
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


class _Viewer:
    """Requests what a player would request."""

    def __init__(self, session: Session, connection: Connection, url: SplitResult, limit_s: float) -> None:
        self._session, self._connection, self._url, self._limit_s = session, connection, url, limit_s
        self._began = time.monotonic()

    def run(self) -> None:
        """Play or download until the end or the limit."""
        address = self._url.geturl()
        if PurePosixPath(self._url.path).suffix.lower() in (".m3u8", ".m3u"):
            self._stream(address)
        else:
            self._get(address, until_s=self._limit_s)
        self._session.duration_s = self._now()

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _get(self, address: str, *, until_s: float = inf, span: str = "") -> None:
        """Read the body at an address until its end, or until a time."""
        for _ in self._pieces(address, span):
            if self._now() >= until_s:
                self._connection.close()
                break

    def _pieces(self, address: str, span: str = "") -> Iterator[bytes]:
        """Yield the pieces of the body at an address as they come."""
        with self._answer(address, span) as answer:
            for piece in pieces(answer):
                self._session.add_bytes(len(piece), self._now())
                yield piece

    def _answer(self, address: str, span: str) -> http.client.HTTPResponse:
        """Return the server's answer, after redirections to the same server."""
        headers = {"User-Agent": "anabranch", "Accept-Encoding": "identity"}
        if span:
            headers["Range"] = span
        for _ in range(_MOST_REDIRECTS):
            self._connection.request("GET", self._target(address), headers=headers)
            answer = self._connection.getresponse()
            if answer.status in (200, 206):
                return answer
            answer.read(LARGEST)
            answer.close()
            place = answer.getheader("Location")
            if answer.status not in (301, 302, 303, 307, 308) or not place:
                message = f"the server answers {answer.status} {answer.reason}"
                raise InputError([Fault(message=message, where=address)])
            address = urljoin(address, place)
        raise InputError([Fault(message="the server redirects again and again", where=address)])

    def _target(self, address: str) -> str:
        """Return the path and query of an address on the same server."""
        parts = urlsplit(address)
        if (parts.scheme, parts.netloc) != (self._url.scheme, self._url.netloc):
            message = "the address leads to another server"
            hint = "measure that server's address: one session has one connection"
            raise InputError([Fault(message=message, where=address, hint=hint)])
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def _playlist(self, address: str) -> Playlist:
        """Return a playlist, or its faults."""
        from anabranch.media import _hls

        named = Path(PurePosixPath(urlsplit(address).path).name)
        content = b""
        for piece in self._pieces(address):
            content += piece
            if len(content) > LARGEST:
                raise InputError([Fault(message=f"a playlist of more than {LARGEST:,} bytes", where=address)])
        text = content.decode("utf-8", errors="replace")
        found = _hls.parse(text, named, query=urlsplit(address).query)
        if found.faults:
            raise InputError(found.faults)
        return found

    def _stream(self, address: str) -> None:
        """Play an HLS stream: each chunk of the best rendition that the last chunk's rate allows."""
        master = self._playlist(address)
        ladder = sorted(
            (one.bandwidth_bps, one.size[1], urljoin(address, one.uri)) for one in master.variants
        )
        lists: dict[str, list[Segment]] = {}
        if not ladder:
            ladder, lists[address] = [(0, 0, address)], present(master)
        viewed = self._session.playback = Playback()
        self._session.player = MODELLED
        rate, number, chosen = 0.0, 0, ladder[0]
        while viewed.media_s < self._limit_s:
            fitting = [one for one in ladder if one[0] <= _CAUTION * rate]
            chosen = fitting[-1] if fitting else ladder[0]
            place = chosen[2]
            if place not in lists:
                lists[place] = present(self._playlist(place))
            if number >= len(lists[place]):
                break
            rate = self._chunk(viewed, lists[place][number], chosen)
            number += 1
            viewed.advance(self._now())
            time.sleep(max(0.0, viewed.buffer_s - _AHEAD_S))
        self._session.ended_s, self._session.film_s = viewed.finish(self._now()), viewed.media_s

    def _chunk(self, viewed: Playback, segment: Segment, rendition: tuple[int, int, str]) -> float:
        """Load a chunk, and return the rate at which it came, in bit/s."""
        rate_bps, height, place = rendition
        asked, before = self._now(), self._session.bytes
        self._get(urljoin(place, segment.uri), span=segment.span or "")
        came, size = self._now(), self._session.bytes - before
        viewed.add(came, segment.duration_ns / 1e9)
        self._session.add_chunk(
            Chunk(asked_s=asked, came_s=came, bytes=size, height=height or None, rate_bps=rate_bps or None)
        )
        return 8 * size / max(came - asked, 1e-6)


def present(playlist: Playlist) -> list[Segment]:
    """Return the segments that the server has, with their byte ranges as the header `Range` writes them."""
    if not playlist.ended:
        message = "a live stream: its playlist has no EXT-X-ENDLIST"
        hint = "measure a recorded stream, so that every session has the same chunks"
        raise InputError([Fault(message=message, where=str(playlist.file), hint=hint)])
    found, ends = [], dict[str, int]()
    for segment in playlist.segments:
        span = None
        if segment.span:
            length, _, start = segment.span.partition("@")
            first = int(start) if start else ends.get(segment.uri, 0)
            ends[segment.uri] = first + int(length)
            span = f"bytes={first}-{ends[segment.uri] - 1}"
        if not segment.gap:
            found.append(replace(segment, span=span))
    return found
