"""Faults in Rust: cargo-mutants lists them, and cargo's tests judge them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

import switch
from faults import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_CRATE = "anabranch-transport"
_SOURCE = "crates/transport/src"
#: The crate's root.
TOP = f"{_SOURCE}/lib.rs"
#: What the tests are built from, by how the names begin.
SOURCES = ("Cargo.", "crates/")
ROOMS = ("congestion", "scheduler", "subflow", "connection")


class MissingError(Exception):
    """cargo-mutants is not there or does not answer."""


def listed(root: Path, rooms: Sequence[str] = ROOMS) -> dict[str, list[Fault]]:
    """Return every fault that cargo-mutants knows, room by room."""
    if shutil.which("cargo-mutants") is None:
        message = "cargo-mutants is needed\n\n  hint: cargo install --locked cargo-mutants"
        raise MissingError(message)
    command = ["cargo", "mutants", "--list", "--json", "--package", _CRATE, "--colors", "never"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if answer.returncode:
        message = f"cargo-mutants does not list its mutants: {answer.stderr.strip()}"
        raise MissingError(message)
    return by_room(json.loads(answer.stdout), root, rooms)


def by_room(
    found: Sequence[dict[str, Any]], root: Path, names: Sequence[str] = ROOMS
) -> dict[str, list[Fault]]:
    """Return the faults of cargo-mutants' list that belong to a room."""
    rooms: dict[str, list[Fault]] = {room: [] for room in names}
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
        key += f" #{seen[key]}" if seen[key] > 1 else ""
        line = mutant["span"]["start"]["line"]
        within = mutant.get("function")
        edges = [_offset(text, within["span"][edge], starts) for edge in ("start", "end")] if within else None
        body = switch.body(text.encode(), *edges) if edges else None
        new = mutant["replacement"]
        rooms[room].append(Fault(file=file, line=line, key=key, start=start, end=end, text=new, body=body))
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
_TARGETS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("its unit tests", ("-p", _CRATE, "--lib")),
    ("its tests", ("-p", _CRATE, "--test", "*")),
    ("the simulator's tests", ("-p", "anabranch-sim", "--lib", "--test", "*")),
)
_TEST = ("cargo", "test", "--offline", "--quiet")
_JSON = ("--message-format", "json")
#: Name, building and running of what judges a fault alone.
STAGES = tuple((name, (*_TEST, *targets, "--no-run"), (*_TEST, *targets)) for name, targets in _TARGETS)
#: Building all of that at once, and looking only at whether the crate compiles.
BUILD = (*_TEST, "-p", _CRATE, "-p", "anabranch-sim", "--lib", "--test", "*", "--no-run", *_JSON)
CHECK = ("cargo", "check", "--offline", "--quiet", "-p", _CRATE, *_JSON)
# Building is most of the work when each fault is built.
ENVIRONMENT = {
    "CARGO_PROFILE_TEST_OPT_LEVEL": "1",
    "CARGO_PROFILE_TEST_DEBUG": "0",
    "CARGO_INCREMENTAL": "1",
    "CARGO_TERM_COLOR": "never",
}
# Cases are the same for every fault, and what fails is neither made small nor kept.
RUNNING = {
    "PROPTEST_RNG_SEED": "1",
    "PROPTEST_MAX_SHRINK_ITERS": "0",
    "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true",
}
