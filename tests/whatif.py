"""Capture ten simulated sessions, turn them into scenarios, and run those: `python tests/whatif.py`.

It prints a table of goodput and stalls, originally and again. The bounds are 5 % and 2.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import anabranch
from anabranch import capture

#: Sessions: scenario, and its keys.
SESSIONS = (
    ("bulk-two-paths", {"application.bytes": "8 MB"}),
    (
        "bulk-two-paths",
        {"application.bytes": "8 MB", "paths.wifi.loss": "0 %", "paths.lte.rate": "12 Mbit/s"},
    ),
    ("bulk-two-paths", {"application.bytes": "6 MB", "paths.wifi.loss": "2 %"}),
    (
        "bulk-two-paths",
        {"application.bytes": "6 MB", "paths.lte.rtt": "300 ms", "paths.lte.queue": "30 packets"},
    ),
    ("bulk-two-paths", {"application.bytes": "8 MB", "paths.wifi.rate": "2 Mbit/s"}),
    ("bulk-two-paths", {"application.bytes": "8 MB", "paths.wifi.rtt": "20 ms"}),
    ("bulk-two-paths", {"application.bytes": "8 MB", "transport.scheduler": "round-robin"}),
    ("recorded-lte", {"application.kind": "bulk", "application.bytes": "10 MB"}),
    ("wifi-lte", {"application.kind": "bulk", "application.bytes": "20 MB"}),
    ("adaptive-two-paths", {"application.duration": "60 s"}),
)


def main() -> None:
    """Run the sessions and print the table."""
    out = sys.stdout
    out.write("| session | goodput Mb/s | again | difference | stalls | again | within |\n")
    out.write("|---|--:|--:|--:|--:|--:|---|\n")
    for scenario, keys in SESSIONS:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "one.pcapng"
            first = anabranch.run(scenario, set=keys, pcapng=file)
            read = capture.read(file, progress=False)
            traced = capture.traced(read)
            written = Path(folder) / "again.toml"
            capture.write_scenario(written, read, traced, traced.run())
            again = anabranch.run(written)
        one, other = first.qos["goodput_mbps"], again.qos["goodput_mbps"]
        stalls = [(run.qoe or {}).get("buffer_underflows", 0) for run in (first, again)]
        fits = abs(other / one - 1) <= 0.05 and abs(stalls[0] - stalls[1]) <= 2
        words = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in keys.items())
        cells = (
            *(f"{scenario}, {words}", f"{one:.2f}", f"{other:.2f}", f"{100 * (other / one - 1):+.1f} %"),
            *(str(stalls[0]), str(stalls[1]), "yes" if fits else "no"),
        )
        out.write(f"| {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()
