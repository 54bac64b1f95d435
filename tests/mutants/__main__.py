"""`make mutants N=300 SEED=1`: draw a sample of deliberate faults, and count those that the tests catch.

The faults stand in copies of the sources, in `target/mutants`; what became of each is in a journal there, so
that an interrupted sample goes on. docs/testing.md says what is drawn and how it is judged.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NoReturn

import faults
import rust
from sample import Entry, Journal, order, shares, told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from faults import Fault

    Judged = dict[str, list[tuple[str, str]]]
    # What it is called, how it is built if at all, and how it is run.
    Stage = tuple[str, tuple[str, ...], tuple[str, ...]]

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target" / "mutants"
TREE = WORK / "tree"
PYTHON_ROOMS = {"metrics": "python/anabranch/metrics", "calibrate": "python/anabranch/calibrate"}

# The tests that judge Python, the cheapest first; what runs whole scenarios judges what is left.
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
# A test that takes so many times what it takes without a fault, and so much longer, does not end.
_PATIENCE = 5
_PATIENCE_S = 60.0
# A fault may ask for memory without end.
_MEMORY = 8 << 30

_telling = threading.Lock()
# Programs that run, to be ended with this one.
_running: set[int] = set()


def say(line: str) -> None:
    """Tell one line of progress."""
    with _telling:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def files() -> list[str]:
    """Return the repository's files."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in listed.rstrip("\0").split("\0") if os.path.lexists(ROOT / name))


def copy(names: Sequence[str]) -> None:
    """Bring the copy up to date; a file that is the same keeps its time, so that little is built again."""
    built = (ROOT / "python/anabranch").glob("_anabranch*.so")
    names = [*names, *(str(one.relative_to(ROOT)) for one in built)]
    for name in names:
        source, target = ROOT / name, TREE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.unlink(missing_ok=True)
            target.symlink_to(source.readlink())
        elif not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copy(source, target)
    for path in [one for one in TREE.rglob("*") if one.is_file() and "__pycache__" not in one.parts]:
        if str(path.relative_to(TREE)) not in set(names):
            path.unlink()


def digest(names: Sequence[str], *folders: str) -> str:
    """Return a hash of the sources and tests that a judgement depends on."""
    found = hashlib.sha256()
    for name in names:
        if name.startswith(folders) and (ROOT / name).is_file():
            found.update(f"{name}\0".encode() + (ROOT / name).read_bytes())
    return found.hexdigest()


def run(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> int | None:
    """Run a program in the copy; return how it ended, or None when it did not."""

    def bound() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))

    program = subprocess.Popen(
        command, cwd=TREE, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=bound,
    )  # fmt: skip
    _running.add(program.pid)
    try:
        return program.wait(limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        return None
    finally:
        _running.discard(program.pid)


class BrokenError(Exception):
    """The tests fail without any fault."""


class Judge:
    """Runs stages of tests over a faulty copy, each as long as it may take."""

    def __init__(self, stages: Sequence[Stage], environment: Mapping[str, str]) -> None:
        self._stages = stages
        self._environment = environment
        self._limits: dict[int, float] = {}

    def judge(self, fault: Fault) -> Entry:
        """Return what becomes of a fault."""
        for stage in range(len(self._stages)):
            self._limit(stage)
        path = TREE / fault.file
        sound = path.read_bytes()
        begun = time.monotonic()
        try:
            self._write(path, fault.apply(sound))
            outcome, by = self._outcome()
        finally:
            self._write(path, sound)
        return Entry(outcome, by, round(time.monotonic() - begun, 1))

    def _outcome(self) -> tuple[str, str]:
        for stage, (name, build, command) in enumerate(self._stages):
            if build:
                built = run(build, self._environment, 3600)
                if built != 0:
                    return "unviable", name
            ended = run(command, self._environment, self._limits[stage])
            if ended is None:
                return "timeout", name
            if ended:
                return "caught", name
        return "missed", ""

    def _limit(self, stage: int) -> None:
        """Measure a stage without a fault; its tests have to pass."""
        if stage in self._limits:
            return
        name, build, command = self._stages[stage]
        if build and run(build, self._environment, 3600):
            message = f"error: {name} cannot be built without a fault"
            raise BrokenError(message)
        begun = time.monotonic()
        if run(command, self._environment, 3600):
            message = f"error: {name} fail without a fault: {' '.join(command)}"
            raise BrokenError(message)
        took = time.monotonic() - begun
        self._limits[stage] = _PATIENCE * took + _PATIENCE_S
        say(f"{name}: {took:.0f} s without a fault")

    @staticmethod
    def _write(path: Path, source: bytes) -> None:
        path.write_bytes(source)
        for cached in path.parent.glob(f"__pycache__/{path.stem}.*"):
            cached.unlink()


def judges() -> dict[str, Judge]:
    """Return who judges each room."""
    stages = [(name, *rust.commands(number)) for number, (name, _) in enumerate(rust.STAGES)]
    target = {"CARGO_TARGET_DIR": str(WORK / "build")}
    endpoint = Judge(stages, {**rust.ENVIRONMENT, **target})
    result = dict.fromkeys(rust.ROOMS, endpoint)
    pytest = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")
    for room, tests in _PYTHON_STAGES.items():
        place = {"PYTHONPATH": str(TREE / "python")}
        result[room] = Judge(
            [
                (name, (), (*pytest, *marked, *(f"tests/python/test_{file}.py" for file in chosen)))
                for name, marked, chosen in tests
            ],
            place,
        )
    return result


def everything() -> dict[str, list[Fault]]:
    """Return every fault of every room."""
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
    """How far a sample is, and how long the rest may take: both languages are judged at once."""

    def __init__(self, left: Mapping[str, int]) -> None:
        self._left = dict(left)
        self._total = sum(left.values())
        self._took: dict[str, list[float]] = {language: [] for language in left}

    def tell(self, language: str, fault: Fault, entry: Entry) -> None:
        """Tell of one more fault."""
        self._left[language] -= entry.outcome != "unviable"
        self._took[language].append(entry.seconds)
        longest = max(self._left[each] * fmean(took) for each, took in self._took.items() if took)
        done = self._total - sum(self._left.values())
        by = f" by {entry.by}" if entry.outcome == "caught" else ""
        say(
            f"[{done}/{self._total}, {longest / 60:.0f} min left] {entry.outcome}{by}, "
            f"{entry.seconds:.0f} s: {fault.key} (line {fault.line})"
        )


def judged(
    room: str, drawn: Sequence[Fault], count: int, judge: Judge, journal: Journal, progress: Progress
) -> list[tuple[str, str]]:
    """Return key and outcome of a room's sample, judging what the journal does not know."""
    by_key = {fault.key: fault for fault in drawn}
    language = "rust" if room in rust.ROOMS else "python"
    result: list[tuple[str, str]] = []
    for key in by_key:
        if len(result) == count:
            break
        if key not in journal.known:
            journal.add(key, language, judge.judge(by_key[key]))
            progress.tell(language, by_key[key], journal.known[key])
        if journal.known[key].outcome != "unviable":
            result.append((key, journal.known[key].outcome))
    return result


def _together(work: Callable[[list[str]], Judged], parts: Sequence[list[str]]) -> list[Judged]:
    """Work on parts at once; an interrupt or an error ends all of it, and the journal has what is done."""

    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupted)
    pool = ThreadPoolExecutor(len(parts))
    futures = [pool.submit(work, part) for part in parts]
    try:
        for future in as_completed(futures):
            future.result()
    except (KeyboardInterrupt, BrokenError) as error:
        for program in list(_running):
            os.killpg(program, signal.SIGKILL)
        sys.stderr.write(f"\n{error or 'interrupted; the same command goes on from here'}\n")
        sys.stderr.flush()
        # The threads would go on to the next fault.
        os._exit(4 if isinstance(error, BrokenError) else 130)
    return [future.result() for future in futures]


def main() -> int:
    """Judge a sample."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("-n", type=int, default=300, help="how many faults are drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--room", action="append", help="only this room; repeatable")
    parser.add_argument("--keep-caught", action="store_true", help="what was caught once is not judged again")
    given = parser.parse_args()
    names = files()
    digests = {
        "rust": digest(names, "Cargo.", "crates/"),
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
        rooms = everything()
    except rust.MissingError as error:
        sys.stderr.write(f"error: {error}\n")
        return 4
    counts = shares({room: len(found) for room, found in rooms.items()}, given.n)
    if given.room:
        rooms = {room: found for room, found in rooms.items() if room in given.room}
    for room, found in rooms.items():
        by_key = {fault.key: fault for fault in found}
        rooms[room] = [by_key[key] for key in order(room, list(by_key), given.seed)]
    journal = Journal(WORK / "journal.jsonl", digests=digests, keep_caught=given.keep_caught)
    for room, found in rooms.items():
        say(f"{room}: {counts[room]} of {len(found)}")
    copy(names)
    left = dict.fromkeys(("rust", "python"), 0)
    for room, drawn in rooms.items():
        new = sum(fault.key not in journal.known for fault in drawn[: counts[room]])
        left["rust" if room in rust.ROOMS else "python"] += new
    progress = Progress(left)
    who = judges()

    def of(part: Sequence[str]) -> Judged:
        return {room: judged(room, rooms[room], counts[room], who[room], journal, progress) for room in part}

    # Two languages, two copies of what they touch: they get in each other's way nowhere.
    parts = [[room for room in rooms if room in rust.ROOMS], [room for room in rooms if room in PYTHON_ROOMS]]
    results = _together(of, parts)
    argued = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text(encoding="utf-8"))
    sys.stdout.write(f"\n{told({**results[0], **results[1]}, argued.get('equivalent', {}))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
