"""Run a build, keep its output in a file, and say how far it is.

    python .ci/building.py LOG COMMAND [ARGUMENT ...]

On a terminal one line is rewritten every second; elsewhere a line is printed every minute. If the build
fails, its output is printed.
"""

import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    """Return the status of the build."""
    log, command = Path(sys.argv[1]), sys.argv[2:]
    begun, told = time.monotonic(), 0.0
    is_terminal = sys.stdout.isatty()
    step_s = 1.0 if is_terminal else 60.0
    with log.open("wb") as out:
        build = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            while build.poll() is None:
                time.sleep(0.2)
                passed = time.monotonic() - begun
                if passed - told >= step_s:
                    told = passed
                    count = log.read_bytes().count(b" Compiling ")
                    text = f"  {count} crates compiled or begun, {passed:.0f} s"
                    sys.stdout.write(f"\r{text}" if is_terminal else f"{text}\n")
                    sys.stdout.flush()
        except KeyboardInterrupt:
            build.wait()
            return 130
    if is_terminal and told:
        sys.stdout.write("\n")
    if build.returncode:
        sys.stderr.buffer.write(log.read_bytes())
    return build.returncode


if __name__ == "__main__":
    sys.exit(main())
