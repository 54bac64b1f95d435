"""Faults in Rust: cargo-mutants lists them, and cargo's tests judge them."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import switch
from faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The beginnings of the names of the sources on which the tests depend.
SOURCES = ("Cargo.", "crates/")
_TEST = ("cargo", "test", "--offline", "--quiet")
_JSON = ("--message-format", "json")


@dataclass(frozen=True)
class Crate:
    """A crate with faults, and the tests that judge them.

    Attributes
    ----------
    name
        The name without `anabranch-`, which is also the folder in `crates`.
    rooms
        The judged groups of sources: folders and files. A single group is the whole crate.
    beside
        Other crates whose tests judge the faults that the crate's own tests miss.
    integration
        Whether the crate has integration tests.
    """

    name: str
    rooms: tuple[str, ...]
    beside: tuple[str, ...] = ()
    integration: bool = True

    @property
    def package(self) -> str:
        """Return the name of the package."""
        return f"anabranch-{self.name}"

    @property
    def source(self) -> str:
        """Return the folder of the sources."""
        return f"crates/{self.name}/src"

    @property
    def top(self) -> str:
        """Return the root module."""
        return f"{self.source}/lib.rs"

    @property
    def build(self) -> tuple[str, ...]:
        """Return the command that builds all tests that judge the crate."""
        packages = [word for name in self.beside for word in ("-p", f"anabranch-{name}")]
        return (*_TEST, "-p", self.package, *packages, "--lib", "--test", "*", "--no-run", *_JSON)

    @property
    def check(self) -> tuple[str, ...]:
        """Return the command that checks whether the crate compiles."""
        return ("cargo", "check", "--offline", "--quiet", "-p", self.package, *_JSON)

    @property
    def stages(self) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
        """Return the stages that judge a single fault, cheapest first: name, build and run command."""
        targets = [
            ("its unit tests", ("-p", self.package, "--lib")),
            ("its tests", ("-p", self.package, "--test", "*")),
            *(
                (f"the tests of {name}", ("-p", f"anabranch-{name}", "--lib", "--test", "*"))
                for name in self.beside
            ),
        ]
        if not self.integration:
            targets.pop(1)
        return tuple((name, (*_TEST, *target, "--no-run"), (*_TEST, *target)) for name, target in targets)

    def room(self, file: str) -> str | None:
        """Return the group of a source; None if it is in no group."""
        if not file.startswith(f"{self.source}/"):
            return None
        if len(self.rooms) == 1:
            return self.rooms[0]
        room = file.removeprefix(f"{self.source}/").split("/")[0].removesuffix(".rs")
        return room if room in self.rooms else None


CONGESTION = Crate("congestion", ("congestion",), beside=("mptcp", "sim"))
SCHEDULER = Crate("scheduler", ("scheduler",), beside=("mptcp", "sim"))
TCP = Crate("tcp", ("tcp",), beside=("mptcp", "sim"), integration=False)
MPTCP = Crate("mptcp", ("subflow", "connection"), beside=("sim",))
CAPTURE = Crate("capture", ("capture",))
NETWORK = Crate("network", ("network",), beside=("sim",))
# A group of Python sources has the name "metrics".
METRICS = Crate("metrics", ("rust-metrics",), beside=("sim",), integration=False)
WEB = Crate("web", ("web",))
LIVE = Crate("live", ("live",))
CRATES = (CONGESTION, SCHEDULER, TCP, MPTCP, CAPTURE, NETWORK, METRICS, WEB, LIVE)
ROOMS = tuple(room for crate in CRATES for room in crate.rooms)


def top_of(file: str) -> str:
    """Return the root module of the crate to which a source belongs."""
    return f"{file.partition('/src/')[0]}/src/lib.rs"


class MissingError(Exception):
    """cargo-mutants is not installed or fails."""


def listed(root: Path, crates: Sequence[Crate] = CRATES) -> dict[str, list[Fault]]:
    """Return every fault that cargo-mutants finds, by group."""
    rooms: dict[str, list[Fault]] = {}
    for crate in crates:
        rooms |= by_room(_mutants(root, crate), root, crate)
    return rooms


def _mutants(root: Path, crate: Crate) -> list[dict[str, Any]]:
    if shutil.which("cargo-mutants") is None:
        message = "cargo-mutants is needed\n\n  hint: cargo install --locked cargo-mutants"
        raise MissingError(message)
    command = ["cargo", "mutants", "--list", "--json", "--package", crate.package, "--colors", "never"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if answer.returncode:
        message = f"cargo-mutants does not list its mutants: {answer.stderr.strip()}"
        raise MissingError(message)
    mutants: list[dict[str, Any]] = json.loads(answer.stdout)
    return mutants


def written(root: Path, crate: Crate = LIVE) -> list[Fault]:
    """Return the hand-written faults of a crate, from `tests/mutants/CRATE.toml`."""
    text = (Path(__file__).parent / f"{crate.name}.toml").read_text(encoding="utf-8")
    return by_hand(tomllib.loads(text)["faults"], _mutants(root, crate), root, crate)


def by_hand(
    faults: Mapping[str, Mapping[str, str]], found: Sequence[dict[str, Any]], root: Path, crate: Crate
) -> list[Fault]:
    """Return hand-written faults. `found` is the list of cargo-mutants, which contains the functions."""
    result = []
    for name, fault in faults.items():
        file = f"{crate.source}/{fault['file']}"
        text = (root / file).read_text(encoding="utf-8")
        if text.count(fault["old"]) != 1:
            message = f"tests/mutants/{crate.name}.toml: {name}: `old` is not in {file} exactly once"
            raise MissingError(message)
        start = len(text[: text.index(fault["old"])].encode())
        end = start + len(fault["old"].encode())
        spans = {
            _span(text, one["function"]["span"], _lines(text))
            for one in found
            if one["file"] == file and one.get("function")
        }
        around = [span for span in spans if span[0] <= start and end <= span[1]]
        body = switch.body(text.encode(), *max(around)) if around else None
        inside = body is not None and body[0] <= start and end <= body[1]
        line = text[: text.index(fault["old"])].count("\n") + 1
        key = f"{file}: {name}"
        result.append(
            Fault(
                file=file,
                line=line,
                key=key,
                start=start,
                end=end,
                text=fault["new"],
                body=body if inside else None,
            )
        )
    return result


def by_room(found: Sequence[dict[str, Any]], root: Path, crate: Crate = MPTCP) -> dict[str, list[Fault]]:
    """Return the faults of cargo-mutants' list that belong to a group."""
    rooms: dict[str, list[Fault]] = {room: [] for room in crate.rooms}
    seen: Counter[str] = Counter()
    sources: dict[str, list[int]] = {}
    for mutant in found:
        file = mutant["file"]
        room = crate.room(file)
        if room is None:
            continue
        text = (root / file).read_text(encoding="utf-8")
        starts = sources.setdefault(file, _lines(text))
        start, end = _span(text, mutant["span"], starts)
        key = f"{file}: {mutant['name'].partition(': ')[2]}"
        seen[key] += 1
        key += f" #{seen[key]}" if seen[key] > 1 else ""
        line = mutant["span"]["start"]["line"]
        within = mutant.get("function")
        body = switch.body(text.encode(), *_span(text, within["span"], starts)) if within else None
        new = mutant["replacement"]
        rooms[room].append(Fault(file=file, line=line, key=key, start=start, end=end, text=new, body=body))
    return rooms


def _lines(text: str) -> list[int]:
    """Return the start of each line, in characters."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _span(text: str, span: dict[str, dict[str, int]], starts: Sequence[int]) -> tuple[int, int]:
    """Return the first byte of a span and the byte after its last one."""
    return _offset(text, span["start"], starts), _offset(text, span["end"], starts)


def _offset(text: str, place: dict[str, int], starts: Sequence[int]) -> int:
    """Return the byte offset of a position: line and column, both from 1 and in characters."""
    return len(text[: starts[place["line"] - 1] + place["column"] - 1].encode())


# If each fault is built, building takes most of the time.
ENVIRONMENT = {
    "CARGO_PROFILE_TEST_OPT_LEVEL": "1",
    "CARGO_PROFILE_TEST_DEBUG": "0",
    "CARGO_INCREMENTAL": "1",
    "CARGO_TERM_COLOR": "never",
}
# Every fault is tested with the same cases. A failing case is neither reduced nor stored.
RUNNING = {
    "PROPTEST_RNG_SEED": "1",
    "PROPTEST_MAX_SHRINK_ITERS": "0",
    "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true",
}
