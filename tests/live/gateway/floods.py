"""Floods of SYNs against a gateway: the packets, and their senders."""

from __future__ import annotations

import random
import socket
import struct
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from uplinks import PORT, V4, checksum

FLOODER = Path(__file__).with_name("flooder.py")
#: MSS, SACK permitted and timestamps, window scale, MP_CAPABLE (version 1, HMAC-SHA256).
OPTIONS = bytes.fromhex("020405b4 0402 080a 00000001 00000000 01 030307 1e04 0181".replace(" ", ""))


def syn(source, port, options=b"", address=V4, seq=None):
    """Return a SYN from an address to the gateway with its IP header; its number is drawn by default."""
    ends = socket.inet_aton(source) + socket.inet_aton(address)
    length = 20 + len(options)
    offset = length // 4 << 12
    seq = random.getrandbits(32) if seq is None else seq
    head = struct.pack("!HHIIHHHH", port, PORT, seq, 0, offset | 2, 64_000, 0, 0)
    tcp = head + options
    total = checksum(ends + struct.pack("!HH", 6, length) + tcp)
    tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 1, 0x4000, 64, 6, 0) + ends + tcp


@contextmanager
def poured(lab, address=V4, sources=250, rate=0):
    """Send SYNs to an address from `sources` other addresses, at `rate` per second or as fast as possible.

    At the end, the yielded list contains the number sent per second.
    """
    # 10.77.1.0/24 is the network of the client's link. These addresses in it do not answer.
    if sources <= 250:
        named = [f"10.77.1.{3 + number}" for number in range(sources)]
    else:
        chance = random.Random(1)
        named = [
            socket.inet_ntoa(struct.pack("!I", 0xC6120000 | chance.getrandbits(17))) for _ in range(sources)
        ]
    packets = [syn(named[at % sources], 1024 + at % 60_000, OPTIONS, address) for at in range(20_000)]
    words = [sys.executable, str(FLOODER), address, str(len(packets[0])), str(len(packets)), str(rate)]
    sent = []
    with subprocess.Popen(
        ["ip", "netns", "exec", lab.client.name, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        program.stdin.write(b"".join(packets))
        program.stdin.flush()
        assert program.stdout.readline() == b"pouring\n"
        try:
            yield sent
        finally:
            program.stdin.close()
            sent.extend(int(word) for word in reversed(program.stdout.readline().split()))
