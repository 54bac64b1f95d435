"""Courses: how the bytes of a session grew in time, and when they did not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.capture._read import Capture

#: The kind (`connection` or `stream`), the number, the direction, and `in_order` or `acknowledged`.
Key = tuple[str, int, str, str]


@dataclass(frozen=True, kw_only=True)
class Course:
    """A sum of bytes that only grows.

    Attributes
    ----------
    bytes
        The sum at the end.
    first_s, last_s
        The first and the last growth in seconds since the first frame; None without any.
    longest_pause_s
        The longest time between two steps.
    marks
        The sum after each tenth of a second with growth, by the begin of the tenth.
    pauses
        Pauses of at least 0.1 s: the begin, and the length.
    """

    bytes: int = 0
    first_s: float | None = None
    last_s: float | None = None
    longest_pause_s: float = 0.0
    marks: Sequence[tuple[float, int]] = ()
    pauses: Sequence[tuple[float, float]] = ()

    def steps(self, begin_s: float, end_s: float) -> Iterator[tuple[float, int]]:
        """Yield the sum every tenth of a second after `begin_s`: seconds from there, and the bytes."""
        sums = {round(at_s * 10): count for at_s, count in self.marks}
        first = round(begin_s * 10 - 0.5) if begin_s else 0
        count = max((one for tick, one in sums.items() if tick < first), default=0)
        for number in range(1, int((end_s - begin_s) * 10 + 1e-9) + 2):
            count = sums.get(first + number - 1, count)
            yield number / 10, count


def courses(capture: Capture) -> dict[Key, Course]:
    """Return the courses of a capture that have bytes."""
    marks: dict[Key, list[tuple[float, int]]] = {}
    table = capture.tables["capture_courses"]
    keys = ("kind", "number", "direction", "course")
    columns = [list(table[name]) for name in (*keys, "t_s", "bytes")]
    for kind, number, direction, what, at_s, count in zip(*columns, strict=True):
        marks.setdefault((kind, number, direction, what), []).append((at_s, count))
    pauses: dict[Key, list[tuple[float, float]]] = {}
    table = capture.tables["capture_pauses"]
    columns = [list(table[name]) for name in (*keys, "t_s", "pause_s")]
    for kind, number, direction, what, at_s, length in zip(*columns, strict=True):
        pauses.setdefault((kind, number, direction, what), []).append((at_s, length))
    described: dict[tuple[str, int], Mapping[str, Mapping[str, Mapping[str, float]]]] = {
        **{("stream", one["stream"]): one for one in capture.streams},
        **{("connection", one["connection"]): one for one in capture.connections},
    }
    result = {}
    for key, own in marks.items():
        kind, number, direction, what = key
        whole = described[kind, number][direction][what]
        result[key] = Course(
            bytes=int(whole["bytes"]),
            first_s=whole["first_s"],
            last_s=whole["last_s"],
            longest_pause_s=whole["longest_pause_s"],
            marks=own,
            pauses=pauses.get(key, ()),
        )
    return result


def merged(found: Sequence[Course]) -> Course:
    """Return the sum of courses. It pauses while all of them pause."""
    if len(found) < 2:
        return found[0] if found else Course()
    events = sorted((at_s, number, count) for number, one in enumerate(found) for at_s, count in one.marks)
    sums = [0] * len(found)
    marks: dict[float, int] = {}
    for at_s, number, count in events:
        sums[number] = count
        marks[at_s] = sum(sums)
    first = min(one.first_s for one in found if one.first_s is not None)
    last = max(one.last_s for one in found if one.last_s is not None)
    quiet = [(first, last)]
    for one in found:
        begin, end = one.first_s or first, one.last_s or last
        own = [(first, begin), *((at, at + length) for at, length in one.pauses), (end, last)]
        quiet = [
            (max(a, c), min(b, d)) for a, b in quiet for c, d in own if min(b, d) - max(a, c) >= 0.1 - 1e-9
        ]
    pauses = [(begin, end - begin) for begin, end in sorted(quiet)]
    return Course(
        bytes=sum(one.bytes for one in found),
        first_s=first,
        last_s=last,
        longest_pause_s=max((length for _, length in pauses), default=0.0),
        marks=list(marks.items()),
        pauses=pauses,
    )
