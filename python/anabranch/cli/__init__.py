"""The command line. Data goes to stdout, everything else to stderr.

Exit codes: 0 success; 1 an expectation failed; 2 bad usage or bad input; 4 skipped because something is
missing; 70 a defect; 128 plus the signal's number if a signal ended the program: 130 interrupt, 143 SIGTERM,
141 closed stdout.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    try:
        from anabranch.cli import _process
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    _process.main()
