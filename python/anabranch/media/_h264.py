"""The part of H.264 (ITU-T H.264, 7.3.1 and 7.3.3) that distinguishes I, P and B, and reference pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SLICE, _IDR = 1, 5
_KINDS = "PBIPI"  # slice_type modulo 5: P, B, I, SP, SI (table 7-6)
_LOOK_AT = 24  # bytes of a slice header that first_mb_in_slice and slice_type can need


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The kind of a coded picture, and whether others refer to it."""

    kind: str
    reference: bool


def length_size(extradata: bytes | None) -> int | None:
    """Return the size of a NAL unit's length field in bytes (avcC), or None for start codes (Annex B)."""
    if extradata and len(extradata) > 4 and extradata[0] == 1:
        return (extradata[4] & 3) + 1
    return None


def picture(data: bytes, prefix: int | None) -> Picture | None:
    """Return the kind of picture by the first slice in an access unit, or None without a slice.

    Parameters
    ----------
    data
        The access unit.
    prefix
        `length_size` of its stream.
    """
    for start, end in _with_lengths(data, prefix) if prefix else _with_start_codes(data):
        header = data[start]
        if header & 0x1F in (_SLICE, _IDR):
            bits = _Bits(data[start + 1 : min(end, start + 1 + _LOOK_AT)])
            bits.exp_golomb()  # first_mb_in_slice
            return Picture(kind=_KINDS[bits.exp_golomb() % 5], reference=bool(header >> 5 & 3))
    return None


def _with_lengths(data: bytes, prefix: int) -> Iterator[tuple[int, int]]:
    """Yield the extent of each NAL unit behind its length."""
    position = 0
    while position + prefix < len(data):
        length = int.from_bytes(data[position : position + prefix])
        position += prefix
        yield position, position + length
        position += length


def _with_start_codes(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start of each NAL unit after its start code; its end is not searched."""
    position = data.find(b"\0\0\1")
    while 0 <= position < len(data) - 3:
        yield position + 3, len(data)
        position = data.find(b"\0\0\1", position + 3)


class _Bits:
    """Reads bits of a payload, without emulation prevention bytes (7.4.1)."""

    def __init__(self, payload: bytes) -> None:
        raw = payload.replace(b"\0\0\3", b"\0\0")
        self.value = int.from_bytes(raw)
        self.left = 8 * len(raw)

    def bit(self) -> int:
        """Return the next bit; zeros follow the end."""
        self.left -= 1
        return self.value >> self.left & 1 if self.left >= 0 else 0

    def exp_golomb(self) -> int:
        """Return the next unsigned Exp-Golomb number (9.1)."""
        zeros = 0
        while self.left > 0 and not self.bit():
            zeros += 1
        number = 1
        for _ in range(zeros):
            number = number << 1 | self.bit()
        return number - 1
