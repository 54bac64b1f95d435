"""Sends packets of one size to an address, round and round until the input ends, and says how many those were.

flooder.py ADDRESS SIZE COUNT: the packets, IP headers and all, come by the input first.
"""

from __future__ import annotations

import select
import socket
import sys

#: Packets between two looks at the input.
_BURST = 1000


def main(address: str, size: int, count: int) -> None:
    data = sys.stdin.buffer.read(size * count)
    packets = [data[at : at + size] for at in range(0, len(data), size)]
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    sys.stdout.write("pouring\n")
    sys.stdout.flush()
    sent = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        for number in range(sent, sent + _BURST):
            raw.sendto(packets[number % count], (address, 0))
        sent += _BURST
    sys.stdout.write(f"{sent}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
