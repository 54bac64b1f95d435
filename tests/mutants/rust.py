"""Faults in Rust: cargo-mutants lists them, and cargo's tests judge them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

from faults import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_CRATE = "anabranch-transport"
_SOURCE = "crates/transport/src"
ROOMS = ("congestion", "scheduler", "subflow", "connection")


class MissingError(Exception):
    """cargo-mutants is not there or does not answer."""


def listed(root: Path) -> dict[str, list[Fault]]:
    """Return every fault that cargo-mutants knows, room by room."""
    if shutil.which("cargo-mutants") is None:
        message = "cargo-mutants is needed\n\n  hint: cargo install --locked cargo-mutants"
        raise MissingError(message)
    command = ["cargo", "mutants", "--list", "--json", "--package", _CRATE, "--colors", "never"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if answer.returncode:
        message = f"cargo-mutants does not list its mutants: {answer.stderr.strip()}"
        raise MissingError(message)
    return by_room(json.loads(answer.stdout), root)


def by_room(found: Sequence[dict[str, Any]], root: Path) -> dict[str, list[Fault]]:
    """Return the faults of cargo-mutants' list that belong to a room."""
    rooms: dict[str, list[Fault]] = {room: [] for room in ROOMS}
    seen: Counter[str] = Counter()
    sources: dict[str, list[int]] = {}
    for mutant in found:
        file = mutant["file"]
        room = file.removeprefix(f"{_SOURCE}/").split("/")[0].removesuffix(".rs")
        if not file.startswith(f"{_SOURCE}/") or room not in rooms:
            continue
        text = (root / file).read_text(encoding="utf-8")
        starts = sources.setdefault(file, _lines(text))
        start, end = (_offset(text, mutant["span"][edge], starts) for edge in ("start", "end"))
        key = f"{file}: {mutant['name'].partition(': ')[2]}"
        seen[key] += 1
        number = f" #{seen[key]}" if seen[key] > 1 else ""
        line = mutant["span"]["start"]["line"]
        rooms[room].append(
            Fault(file=file, line=line, key=key + number, start=start, end=end, text=mutant["replacement"])
        )
    return rooms


def _lines(text: str) -> list[int]:
    """Return where each line begins, in characters."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _offset(text: str, place: dict[str, int], starts: Sequence[int]) -> int:
    """Return a place's offset in bytes from its line and column, both from 1, in characters."""
    return len(text[: starts[place["line"] - 1] + place["column"] - 1].encode())


# The cheapest first; the simulated world judges what the endpoint's own tests let pass.
STAGES: Sequence[tuple[str, tuple[str, ...]]] = (
    ("its unit tests", ("-p", _CRATE, "--lib")),
    ("its tests", ("-p", _CRATE, "--test", "*")),
    ("the simulator's tests", ("-p", "anabranch-sim", "--lib", "--test", "*")),
)
# Building is most of the work.
ENVIRONMENT = {
    "CARGO_PROFILE_TEST_OPT_LEVEL": "1",
    "CARGO_PROFILE_TEST_DEBUG": "0",
    "CARGO_INCREMENTAL": "1",
    "CARGO_TERM_COLOR": "never",
}


def commands(stage: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return how a stage is built and how it is run."""
    command = ("cargo", "test", "--offline", "--quiet", *STAGES[stage][1])
    return (*command, "--no-run"), command
