"""Datagrams through an emulated network: `probe.py receive PORT FILE` and `probe.py send ADDRESS PORT COUNT SIZE GAP REST`.

Each datagram contains its number and its sending time, by a clock that both ends share. The receiver writes a
line for each datagram: number, microseconds on the way, arrival in microseconds. The arrival is the time at
which the kernel took the datagram from the emulated path. A late wake-up of the receiver therefore has no
effect.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from pathlib import Path

_HEAD = struct.Struct("!QQ")
#: The kernel's note of when a datagram came: seconds and nanoseconds since 1970 (`struct timespec`), and the socket
#: option and kind of message that have it (`SO_TIMESTAMPNS` of asm-generic/socket.h, which Python does not name).
_CAME = struct.Struct("@qq")
_SO_TIMESTAMPNS = 35
#: Bytes of the headers of UDP and IPv4.
_HEADERS = 28


def receive(port: int, file: str) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink,
        Path(file).open("w", encoding="ascii") as out,
    ):
        sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        sink.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sink.bind(("", port))
        while True:
            datagram, ((_, _, stamp),), _, _ = sink.recvmsg(2048, socket.CMSG_SPACE(_CAME.size))
            seconds, nanoseconds = _CAME.unpack(stamp)
            now = seconds * 1_000_000_000 + nanoseconds
            number, sent = _HEAD.unpack_from(datagram)
            out.write(f"{number} {(now - sent) / 1e3} {now / 1e3}\n")
            out.flush()


def send(address: str, port: int, count: int, size: int, gap_s: float, rest_s: float) -> None:
    time.sleep(0.5)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
        source.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        source.connect((address, port))
        filling = bytes(size - _HEADERS - _HEAD.size)
        begin = time.monotonic()
        for number in range(count):
            if gap_s:
                time.sleep(max(0.0, begin + number * gap_s - time.monotonic()))
            source.send(_HEAD.pack(number, time.time_ns()) + filling)
    time.sleep(rest_s)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "receive":
        receive(int(rest[0]), rest[1])
    else:
        send(rest[0], int(rest[1]), int(rest[2]), int(rest[3]), float(rest[4]), float(rest[5]))
