"""Sends packets of one size to an address repeatedly until the input ends, and prints how many a second.

flooder.py ADDRESS SIZE COUNT RATE: the packets, including IP headers, are read from stdin first. RATE 0 sends
as fast as possible.
"""

from __future__ import annotations

import select
import socket
import sys
import time

#: The number of packets between two checks of the input and the clock. With more, packets would be lost in
#: the device's queue of 500.
_BURST = 100


def main(address: str, size: int, count: int, rate: int) -> None:
    data = sys.stdin.buffer.read(size * count)
    packets = [data[at : at + size] for at in range(0, len(data), size)]
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    sys.stdout.write("pouring\n")
    sys.stdout.flush()
    sent, began = 0, time.monotonic()
    ended = select.poll()
    ended.register(sys.stdin, select.POLLIN | select.POLLHUP)
    while not ended.poll(0):
        for number in range(sent, sent + _BURST):
            raw.sendto(packets[number % count], (address, 0))
        sent += _BURST
        if rate:
            time.sleep(max(0.0, began + sent / rate - time.monotonic()))
    sys.stdout.write(f"{sent} {sent / (time.monotonic() - began):.0f}\n")


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
