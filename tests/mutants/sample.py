"""Draws a sample of faults, stores their results, and estimates the fraction of all faults."""

from __future__ import annotations

import json
import math
import random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: The possible results of a fault. A fault that does not compile is not counted, and another one is drawn
#: instead.
OUTCOMES = ("caught", "missed", "timeout", "unviable")
# The 97.5 % quantile of the normal distribution.
_Z = 1.959964


def shares(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Divide `count` among groups in proportion to their sizes; round the largest remainders up."""
    total = sum(sizes.values())
    count = min(count, total)
    exact = {room: count * size / max(total, 1) for room, size in sizes.items()}
    given = {room: int(value) for room, value in exact.items()}
    by_rest = sorted(sizes, key=lambda room: (given[room] - exact[room], room))
    for room in by_rest[: count - sum(given.values())]:
        given[room] += 1
    return given


def order(room: str, keys: Sequence[str], seed: int) -> list[str]:
    """Return a group's faults in the order in which they are drawn."""
    drawn = sorted(keys)
    random.Random(f"{seed} {room}").shuffle(drawn)
    return drawn


def wilson(caught: int, total: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a fraction (Wilson 1927)."""
    if not total:
        return 0.0, 1.0
    share, spread = caught / total, _Z**2 / total
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    return max(middle - half, 0.0), min(middle + half, 1.0)


class Entry(NamedTuple):
    """The result of one fault, the program that decided it, and its time."""

    outcome: str
    by: str
    seconds: float


class Journal:
    """The judged faults, one per line. The file is kept over interrupts.

    A line is valid while the judged code and its tests have not changed. With `keep_caught`, a fault that
    was caught once counts as caught after any change, because additional tests do not lose a catch.
    """

    def __init__(self, path: Path, *, digests: Mapping[str, str], keep_caught: bool = False) -> None:
        self._path = path
        self._digests = digests
        self.known: dict[str, Entry] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # It was being written when the program ended.
            entry = Entry(row["outcome"], row["by"], row["seconds"])
            same = row["digest"] == digests.get(row["language"])
            if same or (keep_caught and entry.outcome in ("caught", "unviable")):
                self.known[row["key"]] = entry

    def add(self, key: str, language: str, entry: Entry) -> None:
        """Record the result of a fault."""
        self.known[key] = entry
        row = {"key": key, "language": language, "digest": self._digests[language], **entry._asdict()}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def told(rooms: Mapping[str, Sequence[tuple[str, str]]], argued: Mapping[str, str]) -> str:
    """Return the summary of a sample.

    Parameters
    ----------
    rooms
        The key and the result of every judged fault, by group.
    argued
        For some faults, the reason why they have no visible effect, by key. They stay in the denominator.
    """
    lines = [f"{'':12} {'judged':>7} {'caught':>7} {'missed':>7} {'timeout':>8}"]
    everything = [one for judged in rooms.values() for one in judged]
    for room, judged in (*rooms.items(), ("all", everything)):
        number = {outcome: sum(found == outcome for _, found in judged) for outcome in OUTCOMES}
        total = number["caught"] + number["missed"]
        lines.append(f"{room:12} {total:7} {number['caught']:7} {number['missed']:7} {number['timeout']:8}")
    low, high = wilson(number["caught"], total)
    share = f"{number['caught'] / total:.1%}" if total else "nothing"
    lines += ["", f"caught: {share} of {total}, 95 % interval {low:.1%} to {high:.1%}"]
    if number["timeout"]:
        low, _ = wilson(number["caught"], total + number["timeout"])
        apart = f"timeouts stand apart: {number['timeout']}"
        lines.append(f"{apart}; counted as missed, the lower bound is {low:.1%}")
    missed = [key for key, found in everything if found == "missed"]
    lines += [f"missed: {key}" for key in missed if key not in argued]
    lines += [f"missed, argued to be equivalent: {key}: {argued[key]}" for key in missed if key in argued]
    return "\n".join(lines)
