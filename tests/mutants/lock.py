"""`make lock-judge N=200 SEED=1`: the share of deliberate faults that the lock catches.

A fault counts if it changes the digest of one of 2,000 random runs that are not in the lock. docs/testing.md
("The lock") describes the procedure.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rust
import switch
from judge import BrokenError, files, run, say
from programs import Programs
from sample import order, shares, wilson

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from faults import Fault

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target" / "lock"
STORED = ROOT / "crates/sim/tests/lock/worlds.txt"
#: The seeds of the runs that decide whether a fault counts, and of those that may extend the lock.
RANDOM = (1_000_000, 1_002_000)
POOL = (10_000, 14_000)
#: The judged groups of source files, by the start of their path within the sources of crate `tcp` or `mptcp`.
ROOMS = {
    "recovery": (
        "sending/recovery",
        "sending/intent",
    ),
    "loss": (
        "sending/losses",
        "sending/flight",
        "receiving/reports",
        "sending/acknowledge",
    ),
    "rto": ("sending/timers", "sending/rtt"),
    "window": ("connection/incoming/window", "sending/cwnd/validation", "receive_buffer"),
    "reinjection": (
        "connection/outgoing/reinjection",
        "connection/outgoing/retransmission",
        "connection/outgoing/penalty",
    ),
}
_BUILD = ("cargo", "build", "--offline", "--quiet", "--profile", "test", "--message-format", "json")
_TARGETS = ("-p", "anabranch-sim", "--example", "lock", "-p", "anabranch-drill", "--bin", "anabranch-drill")
_ENVIRONMENT = {
    "CARGO_PROFILE_TEST_DEBUG": "0",
    "CARGO_INCREMENTAL": "1",
    "CARGO_TERM_COLOR": "never",
}
# The exit code if a digest differs. Any other non-zero code is a crash.
_DIFFERS = 1
_CASES = ROOT / "crates/drill/tests/lock.txt"


@dataclass(frozen=True)
class Verdict:
    """The result for one fault.

    Attributes
    ----------
    key
        The fault.
    changed
        The first random run that it changes, "timeout" or "crash"; empty if it changes none.
    caught
        The first stored run or drill case whose digest it changes; empty if it changes none.
    pool
        The random runs that it changes, if no stored digest changes.
    """

    key: str
    changed: str
    caught: str
    pool: tuple[int, ...] = ()


class Locked(Programs):
    """Programs that compute digests, built once for all faults of a sample."""

    def build(self, faults: Sequence[Fault], names: Sequence[str]) -> list[Fault]:
        """Build the programs. Return the faults that can be switched on in them."""
        unviable, apart = self.put(faults, names)
        left = [fault for fault in faults if fault not in unviable and fault not in apart]
        messages, well = self._cargo((*_BUILD, *_TARGETS))
        if not well:
            message = "error: the programs of the lock cannot be built"
            raise BrokenError(message)
        built = {one["target"]["name"]: one["executable"] for one in messages if one.get("executable")}
        self._worlds, self._drill = built["lock"], built["anabranch-drill"]
        self._expected = WORK / "random.txt"
        self._pool = WORK / "pool.txt"
        for seeds, file in ((POOL, self._pool), (RANDOM, self._expected)):
            begun = time.monotonic()
            with file.open("w") as output:
                subprocess.run([self._worlds, _range(seeds)], stdout=output, check=True)
            say(f"{seeds[1] - seeds[0]} runs: {time.monotonic() - begun:.0f} s without a fault")
        self._limit_s = 20 + 3 * (time.monotonic() - begun)
        if found := self._differs(0, "stored", STORED) or self._case(0):
            message = f"error: the lock does not hold without a fault: {found}"
            raise BrokenError(message)
        return left

    def verdict(self, fault: Fault) -> Verdict:
        """Judge a fault by the random runs, then by the lock, then by the pool."""
        number = self._numbers[fault.key]
        changed = self._differs(number, _range(RANDOM), self._expected)
        if not changed:
            return Verdict(fault.key, "", "")
        caught = self._differs(number, "stored", STORED) or self._case(number)
        pool = () if caught else tuple(self._differing(number))
        return Verdict(fault.key, changed, caught, pool)

    def _differs(self, number: int, seeds: str, expected: Path) -> str:
        """Return the first run that differs, or how the program failed; empty if nothing differs."""
        output = WORK / f"differs.{number}"
        command = ["sh", "-c", f'exec "$@" >{output}', "sh", self._worlds, seeds, "--against", str(expected)]
        ended = run(command, ROOT, _choice(number), self._limit_s)
        told = output.read_text(encoding="utf-8").split(" ")[0]
        output.unlink()
        if ended is None:
            return "timeout"
        return told if ended == _DIFFERS else "crash" if ended else ""

    def _differing(self, number: int) -> list[int]:
        """Return the runs of the pool that a fault changes."""
        output = WORK / f"pool.{number}"
        command = ["sh", "-c", f'exec "$@" >{output}', "sh", self._worlds, _range(POOL)]
        run(command, ROOT, _choice(number), 2 * self._limit_s)
        lines = output.read_text(encoding="utf-8").splitlines()
        output.unlink()
        expected = dict(line.split(" ")[:2] for line in self._pool.read_text().splitlines())
        # The last line may be incomplete if the program was stopped.
        found = (line.split(" ")[:2] for line in lines if line.count(" ") > 1)
        return [int(seed) for seed, digest in found if expected[seed] != digest]

    def _case(self, number: int) -> str:
        """Return the first case of the drill's lock that differs."""
        expected = _CASES.read_text(encoding="utf-8").splitlines()
        command = [self._drill, "--seeds", f"0..{len(expected)}", "--digests"]
        environment = {**os.environ, **_choice(number)}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as program:
            assert program.stdout is not None
            for line in expected:
                if program.stdout.readline().rstrip("\n") != line:
                    program.kill()
                    return f"case {line.split(' ')[0]}"
        return ""


def _range(seeds: tuple[int, int]) -> str:
    return f"{seeds[0]}..{seeds[1]}"


def _choice(number: int) -> dict[str, str]:
    return {switch.CHOICE: str(number)} if number else {}


def by_room(faults: Iterable[Fault]) -> dict[str, list[Fault]]:
    """Return the faults of each judged group of files."""
    rooms: dict[str, list[Fault]] = {room: [] for room in ROOMS}
    for fault in faults:
        name = re.sub(r"^crates/\w+/src/", "", fault.file)
        for room, starts in ROOMS.items():
            if name.startswith(starts):
                rooms[room].append(fault)
    return rooms


def cover(verdicts: Iterable[Verdict]) -> list[int]:
    """Return pool runs that catch every missed fault that the pool can catch (greedy set cover)."""
    left = [set(one.pool) for one in verdicts if one.pool]
    chosen: list[int] = []
    while left:
        counts: dict[int, int] = {}
        for seeds in left:
            for seed in seeds:
                counts[seed] = counts.get(seed, 0) + 1
        best = max(sorted(counts), key=lambda seed: counts[seed])
        chosen.append(best)
        left = [seeds for seeds in left if best not in seeds]
    return chosen


def told(rooms: Mapping[str, Sequence[str]], verdicts: Mapping[str, Verdict]) -> str:
    """Return the summary of a sample: how many faults count, are caught and are missed."""
    lines = [f"{'':12} {'judged':>7} {'count':>7} {'caught':>7}"]
    everything = [key for keys in rooms.values() for key in keys]
    for room, keys in (*rooms.items(), ("all", everything)):
        judged = [verdicts[key] for key in keys]
        count = [one for one in judged if one.changed]
        caught = [one for one in count if one.caught]
        lines.append(f"{room:12} {len(judged):7} {len(count):7} {len(caught):7}")
    low, high = wilson(len(caught), len(count))
    share = f"{len(caught) / len(count):.1%}" if count else "nothing"
    lines += ["", f"caught: {share} of {len(count)}, 95 % interval {low:.1%} to {high:.1%}"]
    missed = [one for one in count if not one.caught]
    lines += [f"missed (random run {one.changed}): {one.key}" for one in missed]
    if chosen := cover(missed):
        lines.append(f"runs of the pool that change them: {' '.join(map(str, sorted(chosen)))}")
    return "\n".join(lines)


def main() -> int:
    """Judge a random sample of faults."""
    parser = argparse.ArgumentParser(prog="make lock-judge", description=__doc__)
    parser.add_argument("-n", type=int, default=200, help="how many faults are drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="faults judged at once")
    given = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    try:
        listed = rust.listed(ROOT, [rust.TCP, rust.MPTCP])
    except rust.MissingError as error:
        sys.stderr.write(f"error: {error}\n")
        return 4
    rooms = by_room(fault for found in listed.values() for fault in found)
    counts = shares({room: len(found) for room, found in rooms.items()}, given.n)
    drawn = {}
    for room, found in rooms.items():
        by_key = {fault.key: fault for fault in found if fault.body is not None}
        drawn[room] = [by_key[key] for key in order(room, list(by_key), given.seed)][: counts[room]]
        say(f"{room}: {len(drawn[room])} of {len(found)}")
    environment = {**_ENVIRONMENT, "CARGO_TARGET_DIR": str(WORK / "build")}
    programs = Locked(ROOT, WORK / "tree", environment, given.jobs)
    names = [name for name in files(ROOT) if name.startswith(rust.SOURCES)]
    faults = programs.build([fault for found in drawn.values() for fault in found], names)
    verdicts: dict[str, Verdict] = {}
    with (WORK / f"verdicts.{given.seed}.jsonl").open("w") as journal, ThreadPoolExecutor(given.jobs) as pool:
        for one in pool.map(programs.verdict, faults):
            verdicts[one.key] = one
            journal.write(json.dumps(asdict(one)) + "\n")
            journal.flush()
            outcome = (
                "no change" if not one.changed else f"caught by {one.caught}" if one.caught else "missed"
            )
            say(f"[{len(verdicts)}/{len(faults)}] {outcome}: {one.key}")
    keys = {room: [one.key for one in found if one.key in verdicts] for room, found in drawn.items()}
    sys.stdout.write(f"\n{told(keys, verdicts)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
