"""IPv6 extension headers and fragments of both families, as docs/limits.md describes them."""

from __future__ import annotations

import socket
import struct

from floods import OPTIONS, syn
from uplinks import CLIENT_V4, CLIENT_V6, HUNG_S, PORT, V4, V6, Origin, checksum, echo, exchange, wait

TCP, ROUTING, FRAGMENT, DESTINATION, HOP_BY_HOP = 6, 43, 44, 60, 0
SYN_ACK = 0x12
#: Options that fill a header of 8 bytes (RFC 8200 section 4.2: PadN with 4 bytes).
PAD = bytes([1, 4, 0, 0, 0, 0])
MORE, RESERVED = 1, 0b110


def extended(port, *headers):
    """Return a SYN over IPv6 behind extension headers, each of which is a number and the bytes after the length."""
    ends = socket.inet_pton(socket.AF_INET6, CLIENT_V6[0]) + socket.inet_pton(socket.AF_INET6, V6)
    tcp = struct.pack("!HHIIHHHH", port, PORT, 1, 0, (20 + len(OPTIONS)) // 4 << 12 | 2, 64_000, 0, 0)
    tcp += OPTIONS
    total = checksum(ends + struct.pack("!II", len(tcp), TCP) + tcp)
    rest = tcp[:16] + struct.pack("!H", total) + tcp[18:]
    following = TCP
    for number, body in reversed(headers):
        rest = bytes([following, 0]) + body + rest
        following = number
    return struct.pack("!IHBB", 6 << 28, len(rest), following, 64) + ends + rest


def fragment(place):
    """Return a fragment header: the offset in bytes, or flags, and an identification."""
    return FRAGMENT, struct.pack("!HI", place, 7)


def raw6(lab, protocol):
    return lab.client.socket(socket.AF_INET6, protocol, socket.SOCK_RAW)


def answered(sniffer, port):
    """Return whether the next segment to this port is a SYN/ACK."""
    while True:
        segment = sniffer.recv(1 << 12)
        if struct.unpack("!HH", segment[:4]) == (PORT, port):
            return segment[13] == SYN_ACK


#: The extension headers before TCP, each case separately.
HEADERS = [
    [(HOP_BY_HOP, PAD)],
    [(DESTINATION, PAD), (ROUTING, bytes(6)), (DESTINATION, PAD)],
    # A fragment that contains the whole packet (RFC 6946); its reserved bits are ignored.
    [fragment(RESERVED)],
]


def test_a_segment_behind_ipv6_extension_headers_is_read(lab):
    with (
        Origin(lab.host, echo),
        lab.gateway() as gateway,
        raw6(lab, socket.IPPROTO_RAW) as sends,
        raw6(lab, socket.IPPROTO_TCP) as hears,
    ):
        hears.settimeout(HUNG_S)
        for port, headers in enumerate(HEADERS, 999):
            sends.sendto(extended(port, *headers), (V6, 0))
            assert answered(hears, port), headers
        assert gateway.metrics()['refused_total{reason="malformed"}'] == 0


def test_fragments_are_dropped_and_counted_and_others_are_served(lab):
    """The first fragment of a packet, and a later one, over both families (RFC 8200 section 4.5, RFC 791)."""
    first, later = bytearray(syn(CLIENT_V4[0], 998, OPTIONS)), bytearray(syn(CLIENT_V4[0], 998, OPTIONS))
    first[6:8], later[6:8] = b"\x20\x00", b"\x00\x01"
    with (
        Origin(lab.host, echo),
        lab.gateway() as gateway,
        raw6(lab, socket.IPPROTO_RAW) as sends6,
        lab.client.socket(protocol=socket.IPPROTO_RAW, kind=socket.SOCK_RAW) as sends4,
        lab.connect(v6=True) as bystander,
    ):
        assert exchange(bystander, b"before") == b"before"
        for number, packet in enumerate([extended(999, fragment(MORE)), extended(999, fragment(8))], 1):
            sends6.sendto(packet, (V6, 0))
            counted(gateway, number)
        for number, packet in enumerate([first, later], 3):
            sends4.sendto(packet, (V4, 0))
            counted(gateway, number)
        assert gateway.metrics()["half_open_connections"] == 0
        with lab.connect() as client:
            assert exchange(client, b"served") == b"served"


def counted(gateway, number):
    """Wait until so many packets were refused as malformed."""
    wait(
        lambda: gateway.metrics()['refused_total{reason="malformed"}'] == number,
        f"{number} fragments are counted",
    )
