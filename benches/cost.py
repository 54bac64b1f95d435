"""The cost gate: compares the instructions of five runs with the counts stored in `costs.toml`.

`make test-all` runs it, and `make bench-figures` writes the counts. A commit that raises a count by more
than 1 % writes it and gives the reason. Callgrind's counts are reproducible, but only for one compiler. With
another `rustc`, or without valgrind, the gate prints the reason and judges nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import bench

FIGURES = Path(__file__).with_name("costs.toml")
#: The largest relative rise of a count that needs no reason.
MOST = 0.01

#: The five runs: a short W; a window of thousands of segments with many holes; a hundred sessions at once; a
#: player of an adaptive film; four times as many paths as W.
CASES = {
    "W, 20 MB": ("--bytes", "20450000"),
    "lossy, wide window": ("--bytes", "50000000", "--mbps", "200", "--loss", "0.02", "--congestion", "bbr"),
    "100 sessions": ("--sessions", "100", "--bytes", "1000000"),
    "adaptive film, 120 s": ("--film", "120"),
    "8 paths, 40 MB": ("--paths", "8", "--bytes", "40900000"),
}

Counts = Mapping[str, int]


def judge(kept: Counts, found: Counts) -> list[str]:
    """Return the cases that cost too much, and the names that are only in one of the two lists."""
    faults = [f"{name}: no figure is kept" for name in found if name not in kept]
    faults += [f"{name}: a figure of no case" for name in kept if name not in found]
    for name in found:
        if name in kept and found[name] >= kept[name] * (1 + MOST):
            faults.append(f"{name}: {found[name]:,} instructions, {_percent(kept[name], found[name])}")
    return faults


def saved(kept: Counts, found: Counts) -> list[str]:
    """Return the cases whose stored count must be lowered, because otherwise a later rise would pass."""
    return [
        f"{name}: {found[name]:,} instructions, {_percent(kept[name], found[name])}"
        for name in found
        if name in kept and found[name] <= kept[name] * (1 - MOST)
    ]


def why_not(kept_compiler: str, compiler: str, *, valgrind: bool) -> str | None:
    """Return the reason why nothing can be judged; None if everything can."""
    if not valgrind:
        return "valgrind is not installed (apt install valgrind)"
    if compiler != kept_compiler:
        return f"the figures are of {kept_compiler}, this is {compiler}"
    return None


def written(compiler: str, counts: Counts) -> str:
    """Return the text of the file with the counts."""
    lines = [
        "# Instructions that callgrind counts, kept by `make bench-figures`; `make test-all` compares.",
        f'rustc = "{compiler}"',
        "",
        "[instructions]",
        *(f'"{name}" = {count}' for name, count in counts.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Count, and compare or write."""
    parser = argparse.ArgumentParser(description="Hold the cost of five runs against the figures kept.")
    parser.add_argument("--write", action="store_true", help="keep what is counted as the figures")
    options = parser.parse_args()
    compiler = subprocess.run(["rustc", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    compiler, valgrind = compiler.strip(), shutil.which("valgrind") is not None
    kept = tomllib.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    reason = why_not(compiler if options.write else kept.get("rustc", "nothing"), compiler, valgrind=valgrind)
    if reason is not None:
        sys.stdout.write(f"SKIPPED: the cost gate: {reason}\n")
        return 1 if options.write else 0
    found = _count()
    if options.write:
        FIGURES.write_text(written(compiler, found), encoding="utf-8")
        return 0
    figures = kept["instructions"]
    for line in saved(figures, found):
        sys.stdout.write(f"notice: {line}: `make bench-figures` keeps it\n")
    faults = judge(figures, found)
    for line in faults:
        sys.stdout.write(f"error: {line}\n")
    if faults:
        sys.stdout.write("hint: `make bench-figures` writes the figures; the commit says why they rose\n")
    return 1 if faults else 0


def _count() -> dict[str, int]:
    """Return the instructions of each case. Only the release profile determines how the program is built."""
    for name in [name for name in os.environ if name.startswith(("CARGO_PROFILE_", "CARGO_INCREMENTAL"))]:
        del os.environ[name]
    for name in ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"):
        os.environ.pop(name, None)
    program = bench.build("anabranch-sim", "workload")
    found = {}
    for name, options in CASES.items():
        count = bench.callgrind([str(program), *options])
        if count is None:
            sys.exit(f"error: callgrind counts nothing of `workload {' '.join(options)}`")
        sys.stdout.write(f"{name}: {count:,} instructions\n")
        found[name] = count
    return found


def _percent(kept: int, found: int) -> str:
    """Format the relative change of a count."""
    return f"{found / kept - 1:+.1%} on the {kept:,} kept"


if __name__ == "__main__":
    sys.exit(main())
