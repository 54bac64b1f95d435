"""Count the calls between files that one acknowledgement causes at a sender of data.

It builds `crates/mptcp/examples/acks.rs` without optimisation and without any inlining (functions with
`#[inline(always)]` are called, too), and runs it under callgrind. The only measured work is
`Endpoint::handle_segment` of a sender that has no receiver: recorded acknowledgements of a transfer
over MPTCP without loss are replayed to it.

A call counts if caller and callee are in different files of `crates/tcp/src` and `crates/mptcp/src`. A
closure belongs to the file in which it is written. Calls to and from other crates and the standard library do
not count. The program prints two figures: all such calls, and the *steps*, which are calls of functions with
a body of more than one line. The others are accessors: their name describes them completely, and a reader
of the caller does not open their file. Derived functions, such as a comparison, count as accessors.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[1]
COUNTED = re.compile(r"(crates/(?:tcp|mptcp)/src/.*)")


class Call(NamedTuple):
    """A caller and a callee in different files. The line is that of the callee's definition."""

    file: str
    function: str
    called_file: str
    called: str
    line: int


def calls(lines: Iterable[str]) -> Counter[Call]:
    """Read the calls between files of the two crates from callgrind's output without compression."""
    found: Counter[Call] = Counter()
    file = function = called_file = called = ""
    for line in lines:
        key, _, value = line.rstrip("\n").partition("=")
        match key:
            case "fl" | "fi" | "fe":
                file = value
            case "fn":
                function = value
            case "cfi" | "cfl":
                called_file = value
            case "cfn":
                called = value
            case "calls":
                ends = COUNTED.search(file), COUNTED.search(called_file or file)
                count, start = value.split()
                if ends[0] and ends[1] and ends[0][1] != ends[1][1]:
                    found[Call(ends[0][1], function, ends[1][1], called, int(start))] += int(count)
                called_file = ""
    return found


def is_accessor(text: str, line: int) -> bool:
    """Return whether the function that is defined at a line has a body of one line, or is derived."""
    lines = text.splitlines()[line - 1 :]
    if not re.search(r"\bfn \w", lines[0]):
        return True
    if lines[0].rstrip().endswith("{}"):
        return True
    indent = len(lines[0]) - len(lines[0].lstrip())
    opening = next(number for number, it in enumerate(lines) if it.endswith("{"))
    closing = next(number for number, it in enumerate(lines) if it == " " * indent + "}")
    body = [it for it in lines[opening + 1 : closing] if not it.lstrip().startswith("//")]
    return len(body) <= 1


@cache
def _is_accessor_of(file: str, line: int) -> bool:
    return is_accessor((ROOT / file).read_text(encoding="utf-8"), line)


def measure(skip: int, count: int) -> Counter[Call]:
    """Build and run the example. Return the calls between files of `count` acknowledgements after `skip`."""
    target = ROOT / "target" / "calls"
    build = ["cargo", "build", "--quiet", "--target-dir", str(target), "-p", "anabranch-mptcp"]
    # Without LLVM's passes, `#[inline(always)]` has no effect either.
    environment = os.environ | {"RUSTFLAGS": "-C no-prepopulate-passes"}
    subprocess.run([*build, "--example", "acks"], cwd=ROOT, env=environment, check=True)
    program = [str(target / "debug" / "examples" / "acks"), str(skip), str(count)]
    found: Counter[Call] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        # Callgrind counts calls even where `--toggle-collect` switches costs off. Each dump begins with zero.
        dumps = [f"--dump-{when}=acks::acknowledge" for when in ("before", "after")]
        plain = ["--compress-strings=no", "--compress-pos=no", f"--callgrind-out-file={folder}/out"]
        command = ["valgrind", "--tool=callgrind", *plain, *dumps, *program]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        for path in Path(folder).iterdir():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            if any("Trigger: --dump-after" in line for line in lines[:20]):
                found += calls(lines)
    return found


def main() -> None:
    """Print the calls per acknowledgement, and the most frequent ones."""
    parser = argparse.ArgumentParser(description="Count calls between files per acknowledgement.")
    parser.add_argument(
        "--skip", type=int, default=1000, help="the acknowledgements before the measured ones"
    )
    parser.add_argument("--count", type=int, default=100, help="the number of measured acknowledgements")
    parser.add_argument("--top", type=int, default=25, help="the number of lines of each table")
    parser.add_argument("--all", action="store_true", help="list accessors, too")
    options = parser.parse_args()
    found = measure(options.skip, options.count)
    steps = Counter({it: n for it, n in found.items() if not _is_accessor_of(it.called_file, it.line)})
    for name, counted in (("calls between files per acknowledgement", found), ("of them steps", steps)):
        sys.stdout.write(f"{counted.total() / options.count:7.2f}  {name}\n")
    listed = found if options.all else steps
    files: Counter[str] = Counter()
    named: Counter[str] = Counter()
    for it, count in listed.items():
        files[f"{_file(it.file)} -> {_file(it.called_file)}"] += count
        ends = (_end(it.file, it.function), _end(it.called_file, it.called))
        named[" -> ".join(ends)] += count
    for table in (files, named):
        sys.stdout.write("\n")
        for name, count in table.most_common(options.top):
            sys.stdout.write(f"{count / options.count:7.2f}  {name}\n")


def _file(path: str) -> str:
    return path.removeprefix("crates/").replace("/src/", "/")


def _end(file: str, function: str) -> str:
    """Return the file, and the last two parts of a function's name."""
    return f"{_file(file)} {'::'.join(function.split('::')[-2:])}"


if __name__ == "__main__":
    main()
