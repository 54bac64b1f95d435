"""`make bench`: the cost of a simulated packet in instructions, CPU seconds and memory.

It builds `crates/sim/examples/workload.rs` in release mode and runs it in four ways:

- the reference work W (409 MB over two paths, see docs/performance.md) in one session;
- the same with a coupled congestion control and a scheduler that computes more (LIA, BLEST);
- a smaller amount in one session, and the same amount in each of 100 sessions of one simulation. The ratio
  of their costs per session is the cost of simulating several sessions together.

It then builds three examples of `crates/scheduler` and `crates/mptcp`:

- `decisions.rs` measures the cost of a decision of each scheduler about two subflows;
- `table.rs` measures the cost of a SYN, of a stray segment and of a timer at an endpoint with few or many
  connections;
- `bulk.rs` measures the cost per byte between two endpoints, segment by segment and in bursts.

Instructions are counted by `perf stat` if the kernel permits it, and otherwise by valgrind's callgrind,
whose counts are reproducible. CPU seconds are the user and system time of the process, as the median of
several runs. Peak memory is the kernel's high-water mark for the process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WHOLE = 409_000_000
SHARE = 20_450_000
SESSIONS = 100
#: The numbers of decisions that are timed and counted. Callgrind is fifty times slower, so fewer are
#: counted.
TIMED = 20_000_000
COUNTED = 400_000
#: The numbers of connections at the endpoint, and the measured functions.
FEW, MANY = 10, 100_000
#: The number of bytes between two endpoints, and the largest numbers of segments per burst.
MOVED = 100_000_000
AS_ONE = (1, 40)
EVENTS = ("stray", "syn", "timer")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way to run the workload."""

    label: str
    sessions: int
    session_bytes: int
    scheduler: str = "min-rtt"
    congestion: str = "cubic"

    def command(self, program: Path) -> list[str]:
        """Return the command line."""
        work = ["--sessions", str(self.sessions), "--bytes", str(self.session_bytes)]
        return [str(program), *work, "--scheduler", self.scheduler, "--congestion", self.congestion]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The cost of a case. None is a cost that this host cannot measure."""

    case: Case
    segments: int
    virtual_s: float
    cpu_s: float
    cpu_spread_s: float
    instructions: int | None
    peak_bytes: int


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The cost of one decision of a scheduler. None is a cost that this host cannot measure."""

    scheduler: str
    nanoseconds: float
    instructions: float | None


def main() -> int:
    """Build, run and print."""
    options = _options()
    program = build("anabranch-sim", "workload")
    counter = _counter()
    if counter is None:
        _note("notice: neither `perf stat` nor valgrind counts instructions here: that column is empty")
        _note("hint: apt install valgrind")
    cases = (
        Case(label="1 session, W", sessions=1, session_bytes=WHOLE),
        Case(label="1 session", sessions=1, session_bytes=options.bytes),
        Case(label=f"{SESSIONS} sessions", sessions=SESSIONS, session_bytes=options.bytes),
        Case(
            label="1 session, W, LIA + BLEST",
            sessions=1,
            session_bytes=WHOLE,
            scheduler="blest",
            congestion="lia",
        ),
    )
    found = []
    for case in cases:
        _note(f"running {case.sessions} x {case.session_bytes / 1e6:g} MB ...")
        found.append(_measure(case, program, counter, runs=options.runs))
    decisions = _decisions(build("anabranch-scheduler", "decisions"), counter, runs=options.runs)
    endpoint = _endpoint(build("anabranch-mptcp", "table")) if shutil.which("valgrind") else {}
    moved = _moved(build("anabranch-mptcp", "bulk")) if shutil.which("valgrind") else {}
    if options.json:
        rows = [{**vars(item), "case": vars(item.case)} for item in found]
        costs = [vars(item) for item in decisions]
        whole = {"counter": counter, "cases": rows, "decisions": costs, "endpoint": endpoint, "bulk": moved}
        _out(json.dumps(whole, indent=2))
    else:
        _table(found, counter)
        _decision_table(decisions)
        _endpoint_table(endpoint)
        _moved_table(moved)
    return 0


def _options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="What a simulated packet costs.")
    parser.add_argument("--runs", type=int, default=5, help="runs for the median of CPU seconds (default: 5)")
    parser.add_argument("--bytes", type=int, default=SHARE, help="bytes of a session beside others")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return parser.parse_args()


def build(package: str, example: str) -> Path:
    """Build an example in release mode and return its program."""
    command = ["cargo", "build", "--release", "-p", package, "--example", example]
    done = subprocess.run(
        [*command, "--message-format", "json-render-diagnostics"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"error: {example} does not build")
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    programs = [
        message["executable"]
        for message in messages
        if message.get("executable") and message["target"]["name"] == example
    ]
    return Path(programs[-1])


def _decisions(program: Path, counter: str | None, *, runs: int) -> list[Decision]:
    """Measure a decision of each scheduler, minus the cost of the loop without it."""
    said = subprocess.run([str(program), "--names"], stdout=subprocess.PIPE, text=True, check=True).stdout
    count = {"perf": _perf, "callgrind": callgrind}.get(counter or "")
    found = []
    for name in said.split():
        _note(f"running {TIMED:,} decisions of {name} ...")

        def command(decisions: int, name: str = name) -> list[str]:
            return [str(program), name, str(decisions)]

        # Slow schedulers, which plan or copy, are timed over fewer decisions.
        timed = TIMED if _cpu_seconds(command(COUNTED)) < COUNTED * 1e-7 else COUNTED
        seconds = statistics.median(_cpu_seconds(command(timed)) for _ in range(runs))
        nothing = statistics.median(_cpu_seconds(command(timed, "nothing")) for _ in range(runs))
        instructions = None
        if count:
            whole, empty = count(command(COUNTED)), count(command(COUNTED, "nothing"))
            instructions = None if whole is None or empty is None else (whole - empty) / COUNTED
        nanoseconds = (seconds - nothing) / timed * 1e9
        found.append(Decision(scheduler=name, nanoseconds=nanoseconds, instructions=instructions))
    return found


def _endpoint(program: Path) -> dict[str, dict[str, float]]:
    """Count the instructions of each event with few and with many connections, by callgrind."""
    found = {}
    for label, arguments in (
        (f"{FEW}", [f"{FEW}"]),
        (f"{MANY}", [f"{MANY}"]),
        (f"{MANY}, chosen to collide", [f"{MANY}", "chosen"]),
    ):
        _note(f"running the table of {label} connections ...")
        found[label] = _events([str(program), *arguments])
    return found


def _events(command: list[str]) -> dict[str, float]:
    """Count the instructions per call of each measured function."""
    toggles = [f"--toggle-collect=table::{event}" for event in EVENTS]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *toggles, *command]
        done = subprocess.run(
            valgrind, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
        )
        annotate = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(out)]
        said = subprocess.run(
            annotate, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
        ).stdout
    words = done.stdout.split()
    calls = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    costs = {}
    for event in EVENTS:
        counts = re.findall(rf"^\s*([\d,]+) \(.*examples/table\.rs:table::{event}\b", said, re.MULTILINE)
        costs[event] = int(counts[0].replace(",", "")) / calls[event]
    return costs


def _moved(program: Path) -> dict[str, float]:
    """Count the instructions per byte between two endpoints for each burst size, by callgrind."""
    found = {}
    for most in AS_ONE:
        _note(f"running {MOVED / 1e6:g} MB, up to {most} segments as one ...")
        count = callgrind([str(program), str(MOVED), str(most)])
        if count is not None:
            found[f"{most}"] = count / MOVED
    return found


def _moved_table(found: dict[str, float]) -> None:
    """Print the cost per byte."""
    if not found:
        return
    rows: list[tuple[str, ...]] = [("from endpoint to endpoint", "instructions a byte")]
    rows += [(f"up to {most} segments as one", f"{cost:.2f}") for most, cost in found.items()]
    _out("")
    _columns(rows)


def _endpoint_table(found: dict[str, dict[str, float]]) -> None:
    """Print the costs of events at an endpoint."""
    if not found:
        return
    _out("")
    _columns(
        [
            ("instructions beside connections", *EVENTS),
            *((label, *(f"{costs[event]:,.0f}" for event in EVENTS)) for label, costs in found.items()),
        ]
    )


def _counter() -> str | None:
    """Return the best available way to count instructions."""
    if shutil.which("perf"):
        probe = _perf(["true"])
        if probe is not None:
            return "perf"
    return "callgrind" if shutil.which("valgrind") else None


def _perf(command: list[str]) -> int | None:
    """Count the instructions of a command in user space with the processor's counter."""
    perf = ["perf", "stat", "-x", ",", "-e", "instructions:u", "--", *command]
    done = subprocess.run(perf, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    found = re.search(r"^(\d+),[^,]*,instructions", done.stderr, re.MULTILINE)
    return int(found.group(1)) if done.returncode == 0 and found else None


def callgrind(command: list[str]) -> int | None:
    """Count the instructions of a command by simulation."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"--callgrind-out-file={folder}/out"
        valgrind = ["valgrind", "--tool=callgrind", out, *command]
        done = subprocess.run(
            valgrind, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
        )
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    return int(found.group(1)) if done.returncode == 0 and found else None


def _measure(case: Case, program: Path, counter: str | None, *, runs: int) -> Measured:
    """Run a case the required number of times."""
    command = case.command(program)
    count = {"perf": _perf, "callgrind": callgrind}.get(counter or "")
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    seconds = [_cpu_seconds(command) for _ in range(runs)]
    return Measured(
        case=case,
        segments=round(_said(output, "data_segments")),
        virtual_s=_said(output, "virtual_s"),
        cpu_s=statistics.median(seconds),
        cpu_spread_s=max(seconds) - min(seconds),
        instructions=count(command) if count else None,
        peak_bytes=_peak_bytes(command),
    )


def _said(output: str, name: str) -> float:
    """Return the number that the workload prints after a name."""
    said = dict(line.split(maxsplit=1) for line in output.splitlines() if " " in line)
    if name not in said:
        sys.exit(f"error: the workload does not say `{name}`:\n{output}")
    return float(said[name])


def _cpu_seconds(command: list[str]) -> float:
    """Return the user and system time of one run."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"error: the workload ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def _peak_bytes(command: list[str]) -> int:
    """Return the high-water mark of a run's memory.

    `ru_maxrss` would include this interpreter, because the process starts as a copy of it. The mark in /proc
    starts with the workload.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    status = Path(f"/proc/{process.pid}/status")
    peak = 0
    while process.poll() is None:
        found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text(encoding="ascii"))
        peak = max(peak, int(found.group(1)) * 1024) if found else peak
        time.sleep(0.001)
    return peak


def _table(found: list[Measured], counter: str | None) -> None:
    """Print the results, and the two ratios."""
    header = ("work", "MB", "segments", "virtual s", "CPU s", "+-", "G instr", "per segment", "peak MB")
    rows = [header]
    for item in found:
        count = item.instructions
        megabytes = item.case.sessions * item.case.session_bytes / 1e6
        rows.append(
            (
                item.case.label,
                f"{megabytes:,.0f}",
                f"{item.segments:,}",
                f"{item.virtual_s:,.0f}",
                f"{item.cpu_s:.3f}",
                f"{item.cpu_spread_s / 2:.3f}",
                "-" if count is None else f"{count / 1e9:.3f}",
                "-" if count is None else f"{count / max(item.segments, 1):,.0f}",
                f"{item.peak_bytes / 1e6:.1f}",
            )
        )
    _columns(rows)
    _out("")
    _out(f"instructions counted by: {counter or 'nothing on this host'}")
    alone, together = found[1], found[2]
    ratio = _ratio(alone.cpu_s, together.cpu_s)
    _out(f"cost of a session among {SESSIONS}, CPU seconds:  {ratio:.2f} of one alone")
    if alone.instructions and together.instructions:
        ratio = _ratio(alone.instructions, together.instructions)
        _out(f"cost of a session among {SESSIONS}, instructions: {ratio:.2f} of one alone")


def _decision_table(found: list[Decision]) -> None:
    """Print the cost of a decision."""
    rows = [("a decision over two subflows", "ns", "instructions")]
    for item in found:
        count = "-" if item.instructions is None else f"{item.instructions:.0f}"
        rows.append((item.scheduler, f"{item.nanoseconds:.1f}", count))
    _out("")
    _columns(rows)


def _columns(rows: list[tuple[str, ...]]) -> None:
    """Print rows as columns. The first column is aligned to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
        _out("  ".join(cells))


def _ratio(alone: float, together: float) -> float:
    """Return the cost of a session together with others, divided by that of one session alone."""
    return together / SESSIONS / max(alone, 1e-9)


def _out(text: str) -> None:
    """Write a line of data."""
    sys.stdout.write(text + "\n")


def _note(text: str) -> None:
    """Write a line that is not data."""
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
