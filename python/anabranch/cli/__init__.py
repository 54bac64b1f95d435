"""The command line. Data goes to stdout, everything else to stderr.

Exit codes: 0 done; 1 an expectation failed; 2 bad usage or bad input; 4 skipped for want of something.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from anabranch.cli._app import app

    app()
