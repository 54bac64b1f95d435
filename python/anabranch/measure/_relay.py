"""A local HTTP relay, through which a player loads a stream over the measured paths.

The player requests `http://127.0.0.1:PORT`. For each of its connections, the relay opens one to the server,
over one path or over all. It records when each chunk was requested and complete, and the counters of its
sockets can be read. It reads playlists, and replaces the server's address in them by its own.
"""

from __future__ import annotations

import http.client
import re
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Self
from urllib.parse import urljoin, urlsplit

from anabranch.errors import Fault, InputError
from anabranch.measure._session import LARGEST, Chunk, pieces, present, reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.measure._session import Order, Session
    from anabranch.measure._sockets import Connection, Watch

#: The bytes that wait in the relay for the player: few, so that a player that does not read slows the server.
_WAITING = 64 * 1024
#: Headers of a request and of an answer that are passed on.
_ASKED = ("accept", "range", "user-agent", "cache-control", "if-range")
_ANSWERED = ("content-type", "content-range", "accept-ranges", "last-modified", "etag", "cache-control")
_PLAYLISTS = (".m3u8", ".m3u")
#: The addresses of a playlist: whole lines, and attributes of tags. A variable is `{$NAME}`.
_ADDRESSES = re.compile(r'(?<![^\r\n])[^#\s][^\r\n]*|(?<=URI=")[^"\r\n]*(?=")')
_VARIABLE = re.compile(r"\{\$([A-Za-z0-9_-]+)\}")


class _PlayerError(Exception):
    """The player has closed its connection, as at the end of its session."""


class Relay:
    """The relay of one session, until the block ends.

    Attributes
    ----------
    address
        The address that the player is given.
    began_s
        When the first request came, by the monotonic clock; None before.
    fault
        Why the session cannot go on: wrong input, or the failure of a connection.
    film_s
        The duration of the stream by the playlist of a rendition, in seconds; None before it came.
    refused
        Addresses that the server refused, and has not delivered since, with its answers.
    """

    def __init__(self, order: Order, session: Session, watch: Watch) -> None:
        self.began_s: float | None = None
        self.fault: Exception | None = None
        self.film_s: float | None = None
        self.refused: dict[str, str] = {}
        self._order, self._session, self._watch = order, session, watch
        self._lock = threading.Lock()
        #: Height and rate of each playlist of a rendition, and of each chunk with its byte range.
        self._renditions: dict[str, tuple[int, int]] = {}
        self._chunks: dict[tuple[str, str], tuple[int, int]] = {}

        class Handler(_Handler):
            relay = self

        class Server(ThreadingHTTPServer):
            def handle_error(server, *_: object) -> None:  # noqa: N805 - `self` is the relay
                # A player that closes its connection early is no failure.
                error = sys.exc_info()[1]
                if isinstance(error, Exception) and not isinstance(error, OSError):
                    self.failed(error)

        self._server = Server(("127.0.0.1", 0), Handler)
        self._origin = f"http://127.0.0.1:{self._server.server_port}"
        self._remote = f"{order.url.scheme}://{order.url.netloc}"
        self.address = self._origin + order.url.geturl().removeprefix(self._remote)

    def __enter__(self) -> Self:
        """Begin to serve."""
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def now(self) -> float:
        """Return the time since the first request, in seconds."""
        return 0.0 if self.began_s is None else time.monotonic() - self.began_s

    def connection(self) -> Connection:
        """Return a new connection to the server, whose counters are read."""
        return self._order.connection(self._watch)

    def asked(self, target: str) -> str:
        """Return the address that a request is about."""
        with self._lock:
            if self.began_s is None:
                self.began_s = time.monotonic()
        return self._remote + target

    def failed(self, error: Exception) -> None:
        """Record why the session cannot go on. The first reason counts."""
        self.fault = self.fault or error

    def came(self, size: int) -> None:
        """Count bytes of a body."""
        with self._lock:
            self._session.add_bytes(size, self.now())

    def was_refused(self, address: str, answer: http.client.HTTPResponse) -> None:
        """Record that the server refused a request. The player may repeat it.

        Raises
        ------
        InputError
            If it knows nothing at the address of the whole stream.
        """
        message = f"the server answers {answer.status} {answer.reason}"
        if answer.status < 500 and address == self._order.url.geturl():
            raise InputError([Fault(message=message, where=address)])
        self.refused[address] = f"{message}: {address}"

    def was_redirected(self, address: str, other: str) -> None:
        """Record that the content of an address is at another one."""
        self.refused.pop(address, None)
        with self._lock:
            for (place, span), rendition in tuple(self._chunks.items()):
                if place == address:
                    self._chunks[other, span] = rendition
            if self.is_playlist(address):
                self._renditions[other] = self._renditions.get(address, (0, 0))

    def is_playlist(self, address: str) -> bool:
        """Return whether an address is that of a playlist."""
        return address in self._renditions or urlsplit(address).path.lower().endswith(_PLAYLISTS)

    def complete(self, address: str, span: str, asked_s: float, size: int) -> None:
        """Record a body that came whole, if it is a chunk of a playlist."""
        self.refused.pop(address, None)
        # A range from the first byte on is the whole file, as VLC requests it.
        found = self._chunks.get((address, "" if span == "bytes=0-" else span))
        if found is None:
            return
        height, rate_bps = found
        chunk = Chunk(
            asked_s=asked_s, came_s=self.now(), bytes=size, height=height or None, rate_bps=rate_bps or None
        )
        with self._lock:
            self._session.add_chunk(chunk)

    def playlist(self, address: str, content: bytes) -> bytes:
        """Record a playlist, and return it with the relay's address instead of the server's in every address.

        Raises
        ------
        InputError
            If it cannot be read, is of a live stream, or leads to another server.
        """
        from anabranch.media import _hls

        text = content.decode("utf-8", errors="replace")
        parts = urlsplit(address)
        found = _hls.parse(text, Path(PurePosixPath(parts.path).name), query=parts.query)
        if found.faults:
            raise InputError(found.faults)
        with self._lock:
            for one in found.variants:
                self._renditions[urljoin(address, one.uri)] = (one.size[1], one.bandwidth_bps)
            if not found.variants:
                rendition = self._renditions.get(address, (0, 0))
                segments = present(found)
                film_s = sum(segment.duration_ns for segment in segments) / 1e9
                self.film_s = max(film_s, self.film_s or 0.0)
                for segment in segments:
                    self._chunks[urljoin(address, segment.uri), segment.span or ""] = rendition

        def placed(match: re.Match[str]) -> str:
            place = _VARIABLE.sub(lambda name: found.variables.get(name[1], name[0]), match[0])
            own = self.local(urljoin(address, place.strip()))
            return own if urlsplit(place).netloc else match[0]

        return _ADDRESSES.sub(placed, text).encode()

    def local(self, address: str) -> str:
        """Return an address of the server as the relay's.

        Raises
        ------
        InputError
            If it is of another server.
        """
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https"):
            return address  # content within the address (`data:`), or the name of a key
        if (parts.scheme, parts.netloc) != (self._order.url.scheme, self._order.url.netloc):
            message = "the address leads to another server"
            hint = "the player loads everything from one server: measure that server's address"
            raise InputError([Fault(message=message, where=address, hint=hint)])
        return self._origin + address[len(self._remote) :]


class _Handler(BaseHTTPRequestHandler):
    """A connection of the player, with its own connection to the server."""

    protocol_version = "HTTP/1.1"
    relay: Relay

    def setup(self) -> None:
        """Limit the data that waits for the player."""
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _WAITING)
        super().setup()
        self._server = self.relay.connection()

    def finish(self) -> None:
        """Close the connection to the server with the player's."""
        self._server.close()
        super().finish()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        """Print nothing."""

    def do_GET(self) -> None:
        """Pass a request on, and its answer back."""
        address = self.relay.asked(self.path)
        asked_s = self.relay.now()
        try:
            answer = self._answer(address)
        except (OSError, http.client.HTTPException) as error:
            self._refuse(error)
            return
        try:
            # Closed, it lets the connection take the next request.
            with answer:
                self._pass(address, asked_s, answer)
        except InputError as error:
            self._refuse(error)
        except (OSError, http.client.HTTPException) as error:
            self.relay.failed(error)
            self._server.close()
            self.close_connection = True
        except _PlayerError:
            self._server.close()
            self.close_connection = True

    do_HEAD = do_GET  # noqa: N815 - the base class's name

    def _answer(self, address: str) -> http.client.HTTPResponse:
        """Return the server's answer. A connection that the server has closed meanwhile is opened again."""
        # Playlists are read whole, though VLC requests a range of the first one.
        is_playlist = self.relay.is_playlist(address)
        names = [name for name in _ASKED if "range" not in name or not is_playlist]
        headers = {name: self.headers[name] for name in names if name in self.headers}
        headers["Accept-Encoding"] = "identity"
        is_new = self._server.raw is None
        try:
            self._server.request(self.command, self.path, headers=headers)
            return self._server.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError):
            if is_new:
                raise
            self._server.close()
            self._server.request(self.command, self.path, headers=headers)
            return self._server.getresponse()

    def _refuse(self, error: Exception) -> None:
        """Answer that the server failed, and end the session."""
        self.relay.failed(error)
        self._server.close()
        self.close_connection = True
        self.send_error(502, reason(error))

    def _pass(self, address: str, asked_s: float, answer: http.client.HTTPResponse) -> None:
        """Pass an answer on."""
        place = answer.getheader("Location")
        headers = {name: value for name in _ANSWERED if (value := answer.getheader(name)) is not None}
        if place is not None:
            other = urljoin(address, place)
            headers["Location"] = self.relay.local(other)
            self.relay.was_redirected(address, other)
        elif answer.status >= 400:
            self.relay.was_refused(address, answer)
        if answer.status == 200 and self.command == "GET" and self.relay.is_playlist(address):
            content = self.relay.playlist(address, self._whole(address, answer))
            self._head(answer.status, {**headers, "Content-Length": str(len(content))})
            self._write(content)
            self.relay.refused.pop(address, None)
            return
        length = answer.getheader("Content-Length")
        is_chunked = length is None and self.command == "GET" and answer.status not in (204, 304)
        if length is not None:
            headers["Content-Length"] = length
        elif is_chunked:
            headers["Transfer-Encoding"] = "chunked"
        self._head(answer.status, headers)
        size = 0
        for piece in self._pieces(answer):
            size += len(piece)
            self._write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
        if is_chunked:
            self._write(b"0\r\n\r\n")
        if answer.status in (200, 206) and self.command == "GET":
            self.relay.complete(address, self.headers.get("Range", ""), asked_s, size)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        """Write the head of an answer. A page of any origin may read it."""
        self.send_response_only(status)
        for name, value in {**headers, "Access-Control-Allow-Origin": "*"}.items():
            self.send_header(name, value)
        try:
            self.end_headers()
        except OSError as error:
            raise _PlayerError from error

    def _write(self, content: bytes) -> None:
        """Write a part of a body.

        Raises
        ------
        _PlayerError
            If the player has closed its connection.
        """
        try:
            self.wfile.write(content)
        except OSError as error:
            raise _PlayerError from error

    def _pieces(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        """Yield the pieces of a body as they come, and count their bytes."""
        for piece in pieces(answer):
            self.relay.came(len(piece))
            yield piece

    def _whole(self, address: str, answer: http.client.HTTPResponse) -> bytes:
        """Return a playlist.

        Raises
        ------
        InputError
            If it is too large.
        """
        content = b""
        for piece in self._pieces(answer):
            content += piece
            if len(content) > LARGEST:
                raise InputError([Fault(message=f"a playlist of more than {LARGEST:,} bytes", where=address)])
        return content
