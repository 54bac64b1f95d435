"""A capture of the headers of one session's packets, as a pcapng file.

The file has no payload: each packet is cut after its TCP header. A packet socket delivers the packets. Its
filter in the kernel selects the interfaces of the measurement, this host's addresses there, TCP, and the
server's port. Of these, packets of the server's address are written, and those of further addresses that
this host joins (MP_JOIN). The socket needs the capability `CAP_NET_RAW`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from anabranch import _files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path as File

    from anabranch.measure._paths import Host

#: Constants of the kernel's headers `if_ether.h`, `if_packet.h` and `socket.h`.
_ETH_P_ALL, _SOL_PACKET, _PACKET_STATISTICS = 3, 263, 6
_PACKET_OUTGOING, _SO_TIMESTAMPNS, _SO_ATTACH_FILTER, _SO_RCVBUFFORCE = 4, 35, 26, 33
#: Instructions of classic BPF (`bpf_common.h`): load, load an offset, shift, compare, return.
_LD_W, _LD_H, _LD_B, _LDX_IHL, _LD_H_AT = 0x20, 0x28, 0x30, 0xB1, 0x48
_RSH, _JEQ, _JSET, _RET = 0x74, 0x15, 0x45, 0x06
#: The pseudo address of the interface's number (`SKF_AD_OFF + SKF_AD_IFINDEX`).
_IFINDEX = 0xFFFFF000 + 8
#: A label of the filter: the packet is not kept.
_DROP = "drop"
#: The longest IP and TCP headers that are read, bytes. Longer ones lose their end.
_LONGEST = 160
#: The receive buffer of the socket, bytes.
_BUFFER = 16 * 2**20
#: The time in which packets after the end of a session are still captured, s.
_AFTER_S = 0.2
_IPV6_HEADER, _TCP_HEADER = 40, 20
_SYN, _MPTCP, _MP_JOIN = 0x02, 30, 1
_libc = ctypes.CDLL(None, use_errno=True)


def permitted() -> bool:
    """Return whether this process may capture."""
    try:
        _socket().close()
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.EAFNOSUPPORT):
            return False
        raise
    return True


def _socket() -> socket.socket:
    """Return a packet socket that receives nothing yet. Packets begin with their IP header."""
    return socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)


def _dropped(made: socket.socket) -> int:
    """Return how many packets the kernel dropped because a packet socket's buffer was full."""
    received_and_dropped = struct.unpack("@II", made.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
    return int(received_and_dropped[1])


class Recorder:
    """Writes the headers of a session's packets in a thread, until the block ends.

    Attributes
    ----------
    frames
        The number of packets that were written.
    drops
        The number of packets that the kernel dropped because the socket's buffer was full.
    """

    def __init__(self, file: File, host: Host) -> None:
        self.frames = self.drops = 0
        self._file, self._host = file, host
        self._places = {path.name: place for place, path in enumerate(host.paths)}
        self._port = struct.pack("!H", host.server[1])
        self._servers = {socket.inet_pton(host.family, host.server[0])}
        self._failure: Exception | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Open the socket and begin."""
        self._socket = _socket()
        try:
            numbers = [socket.if_nametoindex(path.name) for path in self._host.paths]
            _attach(self._socket, program(self._host, numbers))
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
            except PermissionError:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            self._socket.settimeout(_AFTER_S / 2)
            _listen(self._socket)
        except BaseException:
            self._socket.close()
            raise
        self._thread.start()
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        """End, after the packets that close the connections."""
        try:
            if failed is None:
                time.sleep(_AFTER_S)
            self._ended.set()
            self._thread.join()
            self.drops = _dropped(self._socket)
        finally:
            self._socket.close()
        if self._failure is not None and failed is None:
            raise self._failure

    def _run(self) -> None:
        try:
            with _files.whole(self._file, "the capture") as place, place.open("wb") as out:
                out.write(_heads([path.name for path in self._host.paths]))
                for packet in self._packets():
                    self.frames += 1
                    out.write(packet)
        except Exception as error:  # noqa: BLE001 - of another thread: raised when the block ends
            self._failure = error

    def _packets(self) -> Iterator[bytes]:
        """Yield the blocks of the session's packets as they come."""
        while True:
            try:
                data, more, _, sender = self._socket.recvmsg(_LONGEST, 64)
            except TimeoutError:
                if self._ended.is_set():
                    return
                continue
            except OSError as error:
                if error.errno != errno.ENETDOWN:
                    raise
                continue  # an interface went down, which the socket reports once
            name, _, kind, *_ = sender
            # The loopback interface shows each packet twice.
            if name not in self._places or (name == "lo" and kind == _PACKET_OUTGOING):
                continue
            found = _parsed(data)
            if found is not None and self._is_of_session(found):
                yield _packet(_time_ns(more), self._places[name], found)

    def _is_of_session(self, found: Parsed) -> bool:
        """Return whether a packet's other end is the server, or an address that this host joins."""
        is_outgoing = found.tcp[2:4] == self._port
        server = found.destination if is_outgoing else found.source
        if server not in self._servers and is_outgoing and found.tcp[13] & _SYN and _joins(found.tcp):
            self._servers.add(server)
        return server in self._servers


@dataclass(frozen=True, slots=True)
class Parsed:
    """A packet: its length, its headers, the TCP header among them, and its two addresses."""

    length: int
    headers: bytes
    tcp: bytes
    source: bytes
    destination: bytes


def _parsed(data: bytes) -> Parsed | None:
    """Return a packet's headers; None if its TCP header is not there."""
    if not data:
        return None
    if data[0] >> 4 == 4:
        begin, length = 4 * (data[0] & 0xF), int.from_bytes(data[2:4], "big")
        source, destination = data[12:16], data[16:20]
    else:
        begin, length = _IPV6_HEADER, _IPV6_HEADER + int.from_bytes(data[4:6], "big")
        source, destination = data[8:24], data[24:40]
    if len(data) < begin + _TCP_HEADER:
        return None
    headers = data[: begin + 4 * (data[begin + 12] >> 4)]
    return Parsed(max(length, len(headers)), headers, headers[begin:], source, destination)


def _joins(tcp: bytes) -> bool:
    """Return whether a TCP header has the option MP_JOIN."""
    place = _TCP_HEADER
    while place + 2 < len(tcp) and tcp[place] != 0:
        if tcp[place] == 1:
            place += 1
            continue
        if tcp[place] == _MPTCP and tcp[place + 2] >> 4 == _MP_JOIN:
            return True
        place += max(tcp[place + 1], 2)
    return False


def _time_ns(more: Sequence[tuple[int, int, bytes]]) -> int:
    """Return the kernel's time of a packet, in ns since 1970."""
    for level, kind, value in more:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, rest = struct.unpack("@qq", value[:16])
            return int(seconds * 10**9 + rest)
    return time.time_ns()


#: A symbolic instruction: code, operand, and the labels of both jumps ("" is the next instruction).
Instruction = tuple[int, int, str, str]


def program(host: Host, interfaces: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return the filter as instructions of classic BPF: code, both jumps, operand.

    It accepts TCP of these interfaces between an address of this host and the server's port.
    """
    lines: list[tuple[str, Instruction]] = [("", (_LD_W, _IFINDEX, "", ""))]
    lines += [("", (_JEQ, number, "ip", "")) for number in interfaces]
    lines.append(("", (_RET, 0, "", "")))
    is_ipv4 = host.family == socket.AF_INET
    lines += [("ip", (_LD_B, 0, "", "")), ("", (_RSH, 4, "", ""))]
    lines.append(("", (_JEQ, 4 if is_ipv4 else 6, "", _DROP)))
    lines += [("", (_LD_B, 9 if is_ipv4 else 6, "", "")), ("", (_JEQ, socket.IPPROTO_TCP, "", _DROP))]
    if is_ipv4:
        # A later fragment has no TCP header.
        lines += [("", (_LD_H, 6, "", "")), ("", (_JSET, 0x1FFF, _DROP, "")), ("", (_LDX_IHL, 0, "", ""))]
    sides = (("out", 12 if is_ipv4 else 8, 2), ("in", 16 if is_ipv4 else 24, 0))
    for name, address, port in sides:
        after = "in0" if name == "out" else _DROP
        for number, path in enumerate(host.paths):
            following = f"{name}{number + 1}" if number + 1 < len(host.paths) else after
            lines += _equals(f"{name}{number}", address, path.address, host.family, f"{name}port", following)
        load = (_LD_H_AT, port, "", "") if is_ipv4 else (_LD_H, _IPV6_HEADER + port, "", "")
        lines += [(f"{name}port", load), ("", (_JEQ, host.server[1], "keep", after))]
    lines += [("keep", (_RET, 0xFFFFFFFF, "", "")), (_DROP, (_RET, 0, "", ""))]
    return _resolved(lines)


def _equals(
    label: str, offset: int, address: str, family: int, then: str, otherwise: str
) -> Iterator[tuple[str, Instruction]]:
    """Yield instructions that compare an address with a packet's."""
    packed = socket.inet_pton(family, address)
    words = struct.unpack(f"!{len(packed) // 4}I", packed)
    for place, word in enumerate(words):
        last = place == len(words) - 1
        yield label if place == 0 else "", (_LD_W, offset + 4 * place, "", "")
        yield "", (_JEQ, word, then if last else "", otherwise)


def _resolved(lines: Sequence[tuple[str, Instruction]]) -> list[tuple[int, int, int, int]]:
    """Return instructions with the distances of their jumps."""
    places = {label: place for place, (label, _) in enumerate(lines) if label}

    def distance(name: str, place: int) -> int:
        return places[name] - place - 1 if name else 0

    return [
        (code, distance(yes, place), distance(no, place), operand)
        for place, (_, (code, operand, yes, no)) in enumerate(lines)
    ]


def _attach(made: socket.socket, instructions: Sequence[tuple[int, int, int, int]]) -> None:
    """Attach a filter to a socket."""
    code = b"".join(struct.pack("@HBBI", *one) for one in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    whole = struct.pack("@HP", len(instructions), ctypes.addressof(buffer))
    made.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, whole)


def _listen(made: socket.socket) -> None:
    """Let a packet socket receive from all interfaces: the filter selects those of the measurement."""
    # `struct sockaddr_ll`. Python's own `bind` needs the name of one interface.
    address = struct.pack("@HHiHBB8s", socket.AF_PACKET, socket.htons(_ETH_P_ALL), 0, 0, 0, 0, b"")
    if _libc.bind(made.fileno(), address, len(address)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _block(kind: int, body: bytes) -> bytes:
    """Return a block of pcapng."""
    body += bytes(-len(body) % 4)
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def _option(code: int, value: bytes) -> bytes:
    """Return an option of a block."""
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _heads(interfaces: Sequence[str]) -> bytes:
    """Return the section header, and the interfaces: raw IP (link type 101), times in ns."""
    found = _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    for name in interfaces:
        options = _option(2, name.encode()) + _option(9, b"\x09") + _option(0, b"")
        found += _block(1, struct.pack("<HHI", 101, 0, _LONGEST) + options)
    return found


def _packet(at_ns: int, interface: int, found: Parsed) -> bytes:
    """Return an enhanced packet block."""
    sizes = len(found.headers), found.length
    head = struct.pack("<IIIII", interface, at_ns >> 32, at_ns & 0xFFFFFFFF, *sizes)
    return _block(6, head + found.headers)
