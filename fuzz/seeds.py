"""Write the seeds of the fuzz target `capture`: `python fuzz/seeds.py`.

They are the first packets of simulated sessions, with headers, in several forms of files and link layers.
"""

from __future__ import annotations

import gzip
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anabranch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CORPUS = Path(__file__).resolve().parent / "corpus" / "capture"
#: Sessions: a name, the scenario, its keys, and how many packets are kept.
SESSIONS: tuple[tuple[str, str, Mapping[str, Any], int], ...] = (
    ("bulk", "bulk-two-paths", {"application.bytes": "20 kB"}, 48),
    ("loss", "bulk-two-paths", {"application.bytes": "40 kB", "paths.wifi.loss": "20 %"}, 64),
    ("tcp", "single-path", {"application.duration": "1 s"}, 24),
    ("http", "adaptive-two-paths", {"application.duration": "1 s"}, 40),
)
#: Bytes that are kept of a packet: headers, options, and the beginning of a request.
SNAP = 160
#: Link layers: their numbers in a capture file, and what precedes an IPv4 packet.
LINKS = {
    "raw": (101, b""),
    "ethernet": (1, bytes(12) + b"\x08\x00"),
    "vlan": (1, bytes(12) + b"\x81\x00\x00\x05\x08\x00"),
    "sll": (113, bytes.fromhex("00000001000600000000000000000800")),
    "sll2": (276, bytes.fromhex("0800000000000001000100060000000000000000")),
    "null": (0, b"\x02\x00\x00\x00"),
}


def main() -> None:
    """Write all seeds."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, scenario, keys, count in SESSIONS:
        for at in ("client", "server"):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "a.pcapng"
                anabranch.run(scenario, set=keys, pcapng=file, pcapng_at=at)
                content = file.read_bytes()
            found = packets(content)[:count]
            for number, link in enumerate(LINKS):
                if name == "bulk" or link == "raw":
                    order, magic = ("<>"[number % 2], (0xA1B2C3D4, 0xA1B23C4D)[number // 2 % 2])
                    (CORPUS / f"{name}-{at}-{link}").write_bytes(classic(found, link, order, magic))
            (CORPUS / f"{name}-{at}-pcapng").write_bytes(blocks(found))
    (CORPUS / "gzip").write_bytes(gzip.compress(classic(found, "raw", "<", 0xA1B2C3D4), mtime=0))


def packets(content: bytes) -> list[tuple[int, bytes, int]]:
    """Return the time, the kept bytes and the length of each packet of a capture that the simulator wrote."""
    found, at = [], 0
    while at < len(content):
        kind, size = struct.unpack_from("<II", content, at)
        if kind == 6:
            high, low, kept, length = struct.unpack_from("<IIII", content, at + 12)
            found.append((high << 32 | low, content[at + 28 : at + 28 + min(kept, SNAP)], length))
        at += size
    return found


def classic(found: Sequence[tuple[int, bytes, int]], link: str, order: str, magic: int) -> bytes:
    """Return a pcap file."""
    number, before = LINKS[link]
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, SNAP, number)]
    for place, (_, data, length) in enumerate(found):
        head = (1_000 + place // 50, place % 50 * 20_000, len(before + data), len(before) + length)
        parts += [struct.pack(f"{order}IIII", *head), before + data]
    return b"".join(parts)


def blocks(found: Sequence[tuple[int, bytes, int]]) -> bytes:
    """Return a pcapng file with raw IP and the times of the session."""
    parts = [_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    # The option if_tsresol: times in nanoseconds, as in the simulator's file.
    parts.append(_block(1, struct.pack("<HHIHHB3xHH", 101, 0, SNAP, 9, 1, 9, 0, 0)))
    for time, data, length in found:
        head = struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), length)
        parts.append(_block(6, head + data + bytes(-len(data) % 4)))
    return b"".join(parts)


def _block(kind: int, body: bytes) -> bytes:
    """Return a block of pcapng."""
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size


if __name__ == "__main__":
    main()
