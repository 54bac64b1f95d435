"""A server over the kernel's MPTCP that captures its packets and keeps the kernel's counters of each subflow.

    python counted_server.py BYTES CAPTURE COUNTERS

It answers one connection with so many bytes. The capture is a pcap file of raw IP packets without much payload; the
counters are JSON, a list with an entry for each subflow. Structures and numbers are those of the kernel's
`linux/tcp.h` and `linux/mptcp.h`.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from fcntl import ioctl
from pathlib import Path

from anabranch.measure import _sockets

#: Offsets in `struct tcp_info`, and the size of the part that is read, bytes.
_BYTES_ACKED, _BYTES_SENT, _BYTES_RETRANS, _SIZE = 120, 200, 208, 216
_MPTCP_TCPINFO, _MPTCP_SUBFLOW_ADDRS, _STORAGE = 2, 3, 128
_SIOCOUTQ = 0x5411
_RCVBUFFORCE, _TIMESTAMPNS = 33, 35
_TIME = struct.Struct("@qq")
_ETH_P_ALL, _RAW_IP, _SNAP = 0x0003, 101, 160
#: Longer than any segmented packet.
_LONGEST = 1 << 18


def capture(file: Path, ended: threading.Event, begun: threading.Event) -> None:
    """Write every packet of this namespace until `ended` is set and no packet is left."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL)) as heard,
        file.open("wb") as out,
    ):
        heard.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, 1 << 26)
        heard.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
        heard.settimeout(0.2)
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, _SNAP, _RAW_IP))
        begun.set()
        while True:
            try:
                packet, told, _, _ = heard.recvmsg(_LONGEST, socket.CMSG_SPACE(_TIME.size))
            except TimeoutError:
                if ended.is_set():
                    return
                continue
            # The kernel's time: this thread may run later.
            seconds, nanos = _TIME.unpack(told[0][2])
            kept = packet[:_SNAP]
            out.write(struct.pack("<IIII", seconds, nanos, len(kept), len(packet)) + kept)


def counters(raw: socket.socket) -> list[dict[str, int | str]]:
    """Return the kernel's counters of each subflow of a connection, with its addresses."""
    infos = _sockets._entries(raw, _MPTCP_TCPINFO, _SIZE)
    ends = _sockets._entries(raw, _MPTCP_SUBFLOW_ADDRS, 2 * _STORAGE)
    found = []
    for info, end in zip(infos, ends, strict=True):
        at = {"sent": _BYTES_SENT, "retransmitted": _BYTES_RETRANS, "acknowledged": _BYTES_ACKED}
        own = {name: struct.unpack_from("@Q", info, place)[0] for name, place in at.items()}
        address, port = _sockets._address(end[_STORAGE:])
        found.append({"address": address, "port": port, **own})
    return found


def unsent(raw: socket.socket) -> int:
    """Return the bytes of the connection that are not acknowledged."""
    return struct.unpack("i", ioctl(raw.fileno(), _SIOCOUTQ, bytes(4)))[0]


def main() -> None:
    """Serve one connection."""
    size, file, told = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    ended, begun = threading.Event(), threading.Event()
    thread = threading.Thread(target=capture, args=(file, ended, begun))
    thread.start()
    begun.wait()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as listener:
        listener.bind(("0.0.0.0", 8000))
        listener.listen()
        # The listener stays open: further subflows join through it.
        accepted, _ = listener.accept()
        with accepted:
            accepted.recv(4096)
            accepted.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode() + bytes(size))
            while unsent(accepted) > 0:
                time.sleep(0.02)
            # The last acknowledgement of a subflow may come later than that of the connection.
            time.sleep(0.5)
            told.write_text(json.dumps(counters(accepted)), encoding="utf-8")
            # The client ends, and with it this program, when the connection is closed.
            ended.set()
            thread.join()


if __name__ == "__main__":
    main()
