"""How often the code moves between files while the sender of data handles an acknowledgement.

It builds `crates/mptcp/examples/bulk.rs` without optimisation, so that no function is inlined unless by
force, and counts calls with callgrind below `Endpoint::handle_merged`. A call counts if its caller and its
callee are in different files of crates `tcp` and `mptcp`. The output is the number for each acknowledgement,
and the pairs of files with the most calls.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The function below which calls are counted, in `bulk.rs`.
BELOW = "arrive_at_server"
_FILE = re.compile(r"crates/((?:tcp|mptcp)/src/.*\.rs)$")
_NAME = re.compile(r"\((\d+)\)(?: (.*))?$")


class _Names:
    """The names of a profile, which are written once and numbered from then on."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def read(self, written: str) -> str:
        """Return the name of a line such as `fn=(7) name` or `cfl=(7)`."""
        found = _NAME.match(written)
        if found is None:
            return written
        if found.group(2) is not None:
            self._known[found.group(1)] = found.group(2)
        return self._known[found.group(1)]


def crossings(profile: str) -> Counter[tuple[str, str]]:
    """Return the calls between files of `tcp` and `mptcp` by pair of files."""
    files = _Names()
    pairs: Counter[tuple[str, str]] = Counter()
    caller = callee = ""
    for line in profile.splitlines():
        key, _, rest = line.partition("=")
        if key == "fl":
            caller = callee = files.read(rest)
        elif key in ("fi", "fe"):
            files.read(rest)
        elif key in ("cfi", "cfl"):
            callee = files.read(rest)
        elif key == "calls":
            number = int(rest.split()[0])
            ends = _FILE.search(caller), _FILE.search(callee)
            if ends[0] and ends[1] and ends[0].group(1) != ends[1].group(1):
                pairs[ends[0].group(1), ends[1].group(1)] += number
            callee = caller
    return pairs


def main() -> int:
    """Build, count and print."""
    parser = argparse.ArgumentParser(description="Calls between files for each acknowledgement.")
    parser.add_argument("--bytes", type=int, default=2_000_000, help="bytes to send (default: 2,000,000)")
    parser.add_argument("--pairs", type=int, default=20, help="pairs of files to print (default: 20)")
    options = parser.parse_args()
    build = ["cargo", "build", "--quiet", "-p", "anabranch-mptcp", "--example", "bulk"]
    subprocess.run(build, cwd=ROOT, check=True)
    program = ROOT / "target/debug/examples/bulk"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        command = [*valgrind, f"--toggle-collect=*{BELOW}*", str(program), str(options.bytes), "1"]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
        )
        pairs = crossings(out.read_text(encoding="utf-8"))
    number = int(dict(line.split() for line in done.stdout.splitlines())["acknowledgements"])
    sys.stdout.write(f"{pairs.total() / number:.1f} calls between files for each of {number:,} arrivals\n")
    for (caller, callee), calls in pairs.most_common(options.pairs):
        sys.stdout.write(f"{calls / number:6.2f}  {caller} -> {callee}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
