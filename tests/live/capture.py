"""The content of a capture, packet by packet, and tshark's complaints about it."""

from __future__ import annotations

import ipaddress
import struct
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ENHANCED_PACKET = 6
_MPTCP = 30
_CAPABLE, _JOIN, _DSS = 0, 1, 2
#: Complaints of tshark's dissector of MPTCP that are expected.
_EXPERT = (
    "mptcp.connection.echoed_key_mismatch",
    "mptcp.connection.missing_algorithm",
    "mptcp.connection.unsupported_algorithm",
    "mptcp.dss.infinite_mapping",
    # The FIN of a subflow is not part of a mapping; the last mapping is that of the DATA_FIN. tshark also
    # does not find the mappings of some segments that arrive out of order.
    "(mptcp.dss.missing_mapping && tcp.len > 0 && !tcp.options.mptcp.rawdataseqno)",
)
_SYN = 0x02


@dataclass(frozen=True, kw_only=True)
class Packet:
    """A TCP segment as it passed the client.

    Attributes
    ----------
    at
        When, in seconds since the run began.
    path
        The path, from 0.
    source
        The sender's address.
    syn
        Whether it is a SYN or a SYN/ACK.
    payload
        Bytes of payload.
    mptcp
        The MPTCP options as they stand on the wire.
    """

    at: float
    path: int
    source: str
    syn: bool
    payload: int
    mptcp: tuple[bytes, ...]


def packets(capture: Path) -> list[Packet]:
    """Return the segments of a little-endian pcapng file."""
    data, at, found = capture.read_bytes(), 0, []
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == _ENHANCED_PACKET:
            path, high, low, captured = struct.unpack_from("<IIII", data, at + 8)
            seconds = (high << 32 | low) / 1e9
            found.append(_packet(seconds, path, data[at + 28 : at + 28 + captured]))
        at += length
    return [packet for packet in found if packet is not None]


def _packet(at: float, path: int, raw: bytes) -> Packet | None:
    """Return a packet, or None if it is not TCP."""
    if raw[0] >> 4 == 4:
        header, protocol, source = (raw[0] & 0x0F) * 4, raw[9], raw[12:16]
    else:
        header, protocol, source = 40, raw[6], raw[8:24]
    if protocol != 6:
        return None
    tcp = raw[header:]
    offset = (tcp[12] >> 4) * 4
    return Packet(
        at=at,
        path=path,
        source=str(ipaddress.ip_address(source)),
        syn=bool(tcp[13] & _SYN),
        payload=len(tcp) - offset,
        mptcp=tuple(option for kind, option in _options(tcp[20:offset]) if kind == _MPTCP),
    )


def _options(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield kind and bytes of each TCP option."""
    at = 0
    while at < len(raw) and raw[at] != 0:
        length = 1 if raw[at] == 1 else raw[at + 1]
        yield raw[at], raw[at : at + length]
        at += length


def requires_checksums(option: bytes) -> bool:
    """Return whether an `MP_CAPABLE` has flag A (RFC 8684 section 3.1)."""
    return option[2] >> 4 == _CAPABLE and bool(option[3] & 0x80)


def mappings(found: list[Packet]) -> list[bool]:
    """Return for each DSS with a mapping whether it has a checksum (RFC 8684 section 3.3)."""
    result = []
    for option in (option for packet in found for option in packet.mptcp if option[2] >> 4 == _DSS):
        flags = option[3]
        ack = (8 if flags & 0x02 else 4) if flags & 0x01 else 0
        if flags & 0x04:
            without = 4 + ack + (8 if flags & 0x08 else 4) + 4 + 2
            result.append(len(option) == without + 2)
    return result


def is_join_syn(option: bytes) -> bool:
    """Return whether an option is an `MP_JOIN` of a SYN (RFC 8684 section 3.2)."""
    return option[2] >> 4 == _JOIN and len(option) == 12


def faults(capture: Path, *, mptcp: bool) -> list[str]:
    """Return tshark's complaints about a capture, one per line: the frame number and the message.

    These are malformed packets and, with `mptcp`, all remarks on MPTCP's connections and mappings, which
    tshark reports as warnings at most.
    """
    wrong = " || ".join(("_ws.malformed", *(_EXPERT if mptcp else ())))
    command = ["tshark", "-r", str(capture), "-o", "mptcp.analyze_mappings:TRUE", "-Y", wrong]
    # Some payload looks like a protocol with a long message, and tshark would reassemble its segments
    # repeatedly.
    command += ["-o", "tcp.desegment_tcp_streams:FALSE"]
    command += ["-T", "fields", "-e", "frame.number", "-e", "_ws.expert.message"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
