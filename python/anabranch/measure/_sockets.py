"""Sockets over one path or all paths, and the kernel's counters of their subflows.

The structures and numbers are those of the kernel's `linux/tcp.h` and `linux/mptcp.h`.
"""

from __future__ import annotations

import ctypes
import errno
import http.client
import os
import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.measure._paths import Host, Path

_SOL_MPTCP, _MPTCP_INFO, _MPTCP_TCPINFO, _MPTCP_SUBFLOW_ADDRS = 284, 1, 2, 3
#: `mptcp_info.mptcpi_flags`: the connection fell back to TCP.
_FALLBACK = 1
#: Offsets in `struct tcp_info`, and the size of the part that is read, bytes.
_RTT_US, _BYTES_RECEIVED, _MIN_RTT_US, _SIZE = 68, 128, 148, 160
#: `struct mptcp_subflow_data`: its size, the number of subflows, and an entry's size for the kernel and here.
_HEAD = struct.Struct("@IIII")
#: `struct sockaddr_storage`, bytes; an entry of addresses has two.
_STORAGE = 128
_MOST_SUBFLOWS = 16
#: The time between two looks at the counters, s.
_STEP_S = 0.1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, kw_only=True)
class Subflow:
    """Counters of a subflow.

    Attributes
    ----------
    local
        Address and port of this host.
    received
        Payload that arrived, bytes.
    rtt_ms, min_rtt_ms
        The kernel's smoothed and smallest round-trip time. At a client they come from its few requests.
    """

    local: tuple[str, int]
    received: int
    rtt_ms: float
    min_rtt_ms: float


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The subflows of all connections at a time of the monotonic clock."""

    at_s: float
    subflows: tuple[Subflow, ...]
    fell_back: bool


def opened(host: Host, *, multipath: bool, path: Path | None, timeout_s: float) -> socket.socket:
    """Return a connected socket.

    Parameters
    ----------
    host
        This host and the server.
    multipath
        Whether it speaks MPTCP.
    path
        The only path to use; None leaves the choice to the kernel.
    timeout_s
        The longest wait for the server, in seconds.
    """
    protocol = socket.IPPROTO_MPTCP if multipath else socket.IPPROTO_TCP
    made = socket.socket(host.family, socket.SOCK_STREAM, protocol)
    try:
        made.settimeout(timeout_s)
        if path is not None:
            # The interface, and not only its address: else the kernel may route through another one.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, path.name.encode())
            made.bind((path.address, 0))
        made.connect(host.server)
    except BaseException:
        made.close()
        raise
    return made


class Connection(http.client.HTTPConnection):
    """An HTTP connection over a socket that the caller opens."""

    def __init__(
        self,
        name: str,
        port: int,
        connect: Callable[[], socket.socket],
        *,
        secure: bool,
        before_close: Callable[[], None],
    ) -> None:
        super().__init__(name, port)
        self._connect, self._secure = connect, secure
        self.raw: socket.socket | None = None
        #: The local addresses and ports of all sockets so far.
        self.ends: list[tuple[str, int]] = []
        #: Called before the socket is closed, while its counters can be read.
        self._before_close = before_close

    def connect(self) -> None:
        """Open the socket."""
        self.raw = self._connect()
        address, port = self.raw.getsockname()[:2]
        self.ends.append((address, port))
        # TLS takes the descriptor over, so the counters are read from a copy.
        self.raw, own = self.raw.dup(), self.raw
        context = ssl.create_default_context() if self._secure else None
        self.sock = context.wrap_socket(own, server_hostname=self.host) if context else own

    def close(self) -> None:
        """Close both descriptors."""
        if self.raw is not None:
            self._before_close()
        super().close()
        if self.raw is not None:
            self.raw.close()
            self.raw = None


class Watch:
    """Reads the counters of connections ten times a second, in a thread, until the block ends."""

    def __init__(self, *, multipath: bool) -> None:
        self.samples: list[Sample] = []
        self._connections: list[Connection] = []
        self._multipath = multipath
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, with a last look."""
        self._ended.set()
        self._thread.join()
        self.look()

    @property
    def ends(self) -> list[tuple[str, int]]:
        """The local addresses and ports of the connections' sockets."""
        return [end for one in self._connections for end in one.ends]

    def add(self, connection: Connection) -> None:
        """Read the counters of a connection too."""
        self._connections.append(connection)

    def _run(self) -> None:
        while not self._ended.wait(_STEP_S):
            self.look()

    def look(self) -> None:
        """Read the counters of the open connections."""
        found = [one for one in map(self._counters, tuple(self._connections)) if one is not None]
        if found:
            subflows = tuple(subflow for own, _ in found for subflow in own)
            fell_back = any(fell for _, fell in found)
            self.samples.append(Sample(at_s=time.monotonic(), subflows=subflows, fell_back=fell_back))

    def _counters(self, connection: Connection) -> tuple[tuple[Subflow, ...], bool] | None:
        """Return a connection's subflows, and whether it fell back to TCP; None if it is not open."""
        raw = connection.raw
        if raw is None:
            return None
        try:
            return _subflows(raw) if self._multipath else (_plain(raw), False)
        except OSError:
            return None  # the connection has ended, or has never been open


def _plain(raw: socket.socket) -> tuple[Subflow, ...]:
    """Return the counters of a TCP socket."""
    info = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
    return (_of_info(info.ljust(_SIZE, b"\0"), raw.getsockname()[:2]),)


def _subflows(raw: socket.socket) -> tuple[tuple[Subflow, ...], bool]:
    """Return the counters of each subflow of an MPTCP socket, and whether it fell back to TCP."""
    try:
        info = raw.getsockopt(_SOL_MPTCP, _MPTCP_INFO, 64)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        # After a fallback, the kernel passes the options on to the only subflow, a TCP socket.
        return _plain(raw), True
    flags = struct.unpack_from("@I", info.ljust(64, b"\0"), 8)[0]
    infos = _entries(raw, _MPTCP_TCPINFO, _SIZE)
    ends = _entries(raw, _MPTCP_SUBFLOW_ADDRS, 2 * _STORAGE)
    # A subflow that opens between the two calls is at the end of the second list.
    found = (_of_info(info, _address(end)) for info, end in zip(infos, ends, strict=False))
    return tuple(found), bool(flags & _FALLBACK)


def _entries(raw: socket.socket, option: int, size: int) -> list[bytes]:
    """Return the entries of an option with an entry for each subflow."""
    buffer = ctypes.create_string_buffer(_HEAD.size + _MOST_SUBFLOWS * size)
    _HEAD.pack_into(buffer, 0, _HEAD.size, 0, 0, size)
    length = ctypes.c_uint32(len(buffer))
    if _libc.getsockopt(raw.fileno(), _SOL_MPTCP, option, buffer, ctypes.byref(length)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    _, count, _, _ = _HEAD.unpack_from(buffer, 0)
    return [buffer.raw[_HEAD.size + place * size :][:size] for place in range(min(count, _MOST_SUBFLOWS))]


def _address(entry: bytes) -> tuple[str, int]:
    """Return the address and port of a `struct sockaddr`."""
    family, port = struct.unpack_from("@H", entry)[0], struct.unpack_from("!H", entry, 2)[0]
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, entry[4:8]), port
    text = socket.inet_ntop(socket.AF_INET6, entry[8:24])
    return text.removeprefix("::ffff:"), port


def _of_info(info: bytes, local: tuple[str, int]) -> Subflow:
    rtt_us, min_rtt_us = (struct.unpack_from("@I", info, place)[0] for place in (_RTT_US, _MIN_RTT_US))
    received = struct.unpack_from("@Q", info, _BYTES_RECEIVED)[0]
    return Subflow(
        local=(local[0], local[1]), received=received, rtt_ms=rtt_us / 1000, min_rtt_ms=min_rtt_us / 1000
    )
