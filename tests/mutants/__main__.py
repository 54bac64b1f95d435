"""`make mutants N=300 SEED=1`: draw a sample of deliberate faults, and count those that the tests catch.

The faults are put into copies of the sources, in `target/mutants`. A journal there has the result of each
fault, so an interrupted sample can be continued. docs/testing.md explains how faults are drawn and judged.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import signal
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NoReturn

import faults
import rust
from judge import BrokenError, Judge, bring, end_all, files, say
from programs import Programs
from sample import Entry, Journal, order, shares, told

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from faults import Fault

    Judged = dict[str, list[tuple[str, str]]]

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target" / "mutants"
TREE = WORK / "tree"
# The copy of the Rust sources that contains all faults of a sample.
SWITCHED = WORK / "switched"
PYTHON_ROOMS = {"metrics": "python/anabranch/metrics", "calibrate": "python/anabranch/calibrate"}

# The tests that judge Python, the cheapest first. Tests that run whole scenarios judge the faults that
# remain.
_QUICK = ("-m", "not module and not slow")
_WHOLE = ("-m", "module and not slow")
_PYTHON_STAGES = {
    "metrics": (
        ("the metrics' tests", _QUICK, ("metrics", "p1203", "adaptive")),
        ("whole runs", ("-m", "not slow"), ("adaptive", "run", "report")),
    ),
    "calibrate": (
        ("the calibration's tests", _QUICK, ("judging", "laboratory", "measurements", "calibrate", "vlc")),
        ("whole calibrations", _WHOLE, ("calibrate", "vlc")),
    ),
}


def digest(names: Sequence[str], *folders: str) -> str:
    """Return a hash of the sources and tests that a judgement depends on."""
    found = hashlib.sha256()
    for name in names:
        if name.startswith(folders) and (ROOT / name).is_file():
            found.update(f"{name}\0".encode() + (ROOT / name).read_bytes())
    return found.hexdigest()


def of_python() -> dict[str, Judge]:
    """Return the judge of each group of Python sources."""
    pytest = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")
    return {
        room: Judge(
            TREE,
            [
                (name, (), (*pytest, *marked, *(f"tests/python/test_{file}.py" for file in chosen)))
                for name, marked, chosen in tests
            ],
            {"PYTHONPATH": str(TREE / "python")},
        )
        for room, tests in _PYTHON_STAGES.items()
    }


def everything() -> dict[str, list[Fault]]:
    """Return every fault of every group of sources."""
    rooms = rust.listed(ROOT)
    for room, folder in PYTHON_ROOMS.items():
        sources = sorted((ROOT / folder).glob("*.py"))
        rooms[room] = [
            fault
            for path in sources
            for fault in faults.of_file(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
        ]
    return rooms


class Progress:
    """The progress of a sample, and an estimate of the rest. Both languages are judged at the same time."""

    def __init__(self, left: Mapping[str, int], jobs: Mapping[str, int]) -> None:
        self._left = dict(left)
        self._jobs = jobs
        self._total = sum(left.values())
        self._took: dict[str, list[float]] = {language: [] for language in left}

    def tell(self, language: str, fault: Fault, entry: Entry) -> None:
        """Report the result of one more fault."""
        self._left[language] -= entry.outcome != "unviable"
        self._took[language].append(entry.seconds)
        rates = {each: fmean(took) / self._jobs[each] for each, took in self._took.items() if took}
        longest = max(self._left[each] * rate for each, rate in rates.items())
        done = self._total - sum(self._left.values())
        by = f" by {entry.by}" if entry.outcome == "caught" else ""
        say(
            f"[{done}/{self._total}, {longest / 60:.0f} min left] {entry.outcome}{by}, "
            f"{entry.seconds:.0f} s: {fault.key} (line {fault.line})"
        )


class Sample:
    """The drawn faults of one language, and their results."""

    def __init__(
        self, language: str, drawn: Mapping[str, Sequence[Fault]], counts: Mapping[str, int], journal: Journal
    ) -> None:
        self._language = language
        self._drawn = drawn
        self._counts = counts
        self._journal = journal
        self.progress: Progress | None = None

    def _chosen(self, room: str) -> list[Fault]:
        """Return a group's sample: the first faults, without those that are known not to compile."""
        unviable = {key for key, entry in self._journal.known.items() if entry.outcome == "unviable"}
        return [one for one in self._drawn[room] if one.key not in unviable][: self._counts[room]]

    def unknown(self, rooms: Collection[str] | None = None) -> Iterator[tuple[str, Fault]]:
        """Return the faults that were not judged yet, with their groups; of all groups, or of `rooms`."""
        for room in self._drawn:
            if rooms is not None and room not in rooms:
                continue
            yield from ((room, one) for one in self._chosen(room) if one.key not in self._journal.known)

    def add(self, fault: Fault, entry: Entry) -> None:
        """Record the result of a fault."""
        self._journal.add(fault.key, self._language, entry)
        if self.progress is not None:
            self.progress.tell(self._language, fault, entry)

    def outcomes(self) -> Judged:
        """Return the key and the result of every fault, by group."""
        found = {key: entry.outcome for key, entry in self._journal.known.items()}
        return {room: [(one.key, found[one.key]) for one in self._chosen(room)] for room in self._drawn}


def judge_python(sample: Sample) -> None:
    """Judge a sample of Python, one fault at a time."""
    who = of_python()
    while unknown := next(sample.unknown(), None):
        room, fault = unknown
        sample.add(fault, who[room].judge(fault))


def judge_rust(sample: Sample, names: Sequence[str], jobs: int) -> None:
    """Judge a sample of Rust: faults that can be switched on together, and the other ones one at a time."""
    environment = {**rust.ENVIRONMENT, "CARGO_TARGET_DIR": str(WORK / "build")}
    names = [name for name in names if name.startswith(rust.SOURCES)]
    for crate in rust.CRATES:
        alone = Judge(TREE, crate.stages, environment)
        programs = Programs(ROOT, SWITCHED, environment, jobs, crate)
        _judge_switched(sample, crate, programs, alone, names, jobs)
        while unknown := next(sample.unknown(crate.rooms), None):
            sample.add(unknown[1], alone.judge(unknown[1]))


def _judge_switched(
    sample: Sample, crate: rust.Crate, programs: Programs, alone: Judge, names: Sequence[str], jobs: int
) -> None:
    """Judge the faults of a crate that can be switched on in programs. The programs are built only once."""
    apart: set[str] = set()
    build = False
    while chosen := [fault for _, fault in sample.unknown(crate.rooms) if fault.key not in apart]:
        unviable, unfit = programs.put(chosen, names, build=build)
        for fault in unviable:
            sample.add(fault, Entry("unviable", "the compiler", 0.0))
        for fault in unfit:
            if alone.answers(fault, crate.check):
                apart.add(fault.key)
            else:
                sample.add(fault, Entry("unviable", "the compiler", 0.0))
        # Faults that do not compile were replaced by others. The tests are built after the last of them.
        if build and not unviable and not unfit:
            break
        build = not unviable and not unfit
    with ThreadPoolExecutor(jobs) as pool:
        done = {pool.submit(programs.judge, fault): fault for fault in chosen}
        for judged in as_completed(done):
            sample.add(done[judged], judged.result())


def _together(parts: Sequence[Callable[[], None]]) -> None:
    """Run parts in parallel. An interrupt or an error ends all of them; the journal keeps results."""

    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupted)
    pool = ThreadPoolExecutor(len(parts))
    try:
        for future in as_completed([pool.submit(part) for part in parts]):
            future.result()
    except (KeyboardInterrupt, BrokenError) as error:
        end_all()
        sys.stderr.write(f"\n{error or 'interrupted; the same command goes on from here'}\n")
        sys.stderr.flush()
        # The threads would otherwise start to judge the next fault.
        os._exit(4 if isinstance(error, BrokenError) else 130)


def main() -> int:
    """Judge a sample."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("-n", type=int, default=300, help="how many faults are drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--room", action="append", help="only this room; repeatable")
    parser.add_argument(
        "--written", action="store_true", help="the faults of crate live that were written by hand, no others"
    )
    parser.add_argument("--keep-caught", action="store_true", help="what was caught once is not judged again")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="tests of Rust that run at once"
    )
    given = parser.parse_args()
    names = files(ROOT)
    digests = {
        "rust": digest(names, *rust.SOURCES),
        "python": digest(names, "python/", "tests/python/", "groundtruth/", "scenarios/"),
    }
    WORK.mkdir(parents=True, exist_ok=True)
    lock = (WORK / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.stderr.write("error: faults are being judged in this checkout already\n")
        return 4
    try:
        rooms = {"live": rust.written(ROOT)} if given.written else everything()
    except rust.MissingError as error:
        sys.stderr.write(f"error: {error}\n")
        return 4
    sizes = {room: len(found) for room, found in rooms.items()}
    counts = sizes if given.written else shares(sizes, given.n)
    if given.room:
        rooms = {room: found for room, found in rooms.items() if room in given.room}
    for room, found in rooms.items():
        by_key = {fault.key: fault for fault in found}
        rooms[room] = [by_key[key] for key in order(room, list(by_key), given.seed)]
    journal = Journal(WORK / "journal.jsonl", digests=digests, keep_caught=given.keep_caught)
    for room, found in rooms.items():
        say(f"{room}: {counts[room]} of {len(found)}")
    built = [str(one.relative_to(ROOT)) for one in (ROOT / "python/anabranch").glob("_anabranch*.so")]
    bring(ROOT, TREE, [*names, *built])
    languages = {"rust": rust.ROOMS, "python": tuple(PYTHON_ROOMS)}
    samples = {
        language: Sample(language, {room: rooms[room] for room in rooms if room in of}, counts, journal)
        for language, of in languages.items()
    }
    left = {language: len(list(sample.unknown())) for language, sample in samples.items()}
    progress = Progress(left, {"rust": given.jobs, "python": 1})
    for sample in samples.values():
        sample.progress = progress
    # The two languages have separate copies of their files, so they do not interfere.
    parts = (
        lambda: judge_rust(samples["rust"], names, given.jobs),
        lambda: judge_python(samples["python"]),
    )
    _together(parts)
    outcomes = {**samples["rust"].outcomes(), **samples["python"].outcomes()}
    argued = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text(encoding="utf-8"))
    sys.stdout.write(f"\n{told(outcomes, argued.get('equivalent', {}))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
