"""Run a build, keep its output in a file, and print its progress.

    python .ci/building.py LOG COMMAND [ARGUMENT ...]

On a terminal one line is rewritten every second; elsewhere a line is printed every minute. If the build
fails, its output is printed.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

#: cargo's progress bar, which it redraws with a carriage return: `    Building [==>   ] 45/105: regex`.
_BAR = re.compile(rb"^ *Building \[[=> ]*\] (\d+)/(\d+).*\n?", re.MULTILINE)
#: cargo draws the bar without a terminal too, and wide enough for both numbers.
_DRAWN = {"CARGO_TERM_PROGRESS_WHEN": "always", "CARGO_TERM_PROGRESS_WIDTH": "80"}


def main() -> int:
    """Return the status of the build."""
    log, command = Path(sys.argv[1]), sys.argv[2:]
    begun, told = time.monotonic(), 0.0
    is_terminal = sys.stdout.isatty()
    step_s = 1.0 if is_terminal else 60.0
    with log.open("wb") as out:
        build = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | _DRAWN)
        try:
            while build.poll() is None:
                time.sleep(0.2)
                passed = time.monotonic() - begun
                if passed - told >= step_s:
                    told = passed
                    text = f"  {_progress(_lines(log))}, {passed:.0f} s"
                    sys.stdout.write(f"\r{text}" if is_terminal else f"{text}\n")
                    sys.stdout.flush()
        except KeyboardInterrupt:
            build.wait()
            return 130
    if is_terminal and told:
        sys.stdout.write("\n")
    if build.returncode:
        sys.stderr.buffer.write(_BAR.sub(b"", _lines(log)))
    return build.returncode


def _lines(log: Path) -> bytes:
    """Return the output, with each state of the progress bar as a line."""
    return log.read_bytes().replace(b"\r", b"\n")


def _progress(output: bytes) -> str:
    """Return how many units (crates and their build scripts) are compiled, and of how many if cargo says."""
    if bars := _BAR.findall(output):
        done, of = (int(number) for number in bars[-1])
        return f"{done} of {of} compiled"
    return f"{output.count(b' Compiling ')} crates compiled or begun"


if __name__ == "__main__":
    sys.exit(main())
