"""Writes the settings of docs/calibration.md with their goodput as a table that verdicts refer to.

    python docs/calibrated.py

Run it after `anabranch calibrate --docs docs/calibration.md`. A test compares the table with the page.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "calibration.md"
TABLE = ROOT / "python" / "anabranch" / "comparison" / "calibrated.csv"
COLUMNS = ("setting", "anchor", "congestion", "paths", "kernel_mbps", "simulator_mbps", "error_percent")

_HEADING = re.compile(r"^### ((?:odd |papers-kernel )?(?:bulk|paced|handoff) .*)$")
_PATH = re.compile(r"^([\d.]+) ms, ([\d.]+) Mb/s(?:, ([\d.]+)% loss(?! of))?")
_HEAD = re.compile(r"^\| ([\w-]+) \| kernel \| n \| simulator \|")
_GOODPUT = re.compile(r"^\| goodput, Mb/s \| ([\d.]+)[^|]*\| \d+ \| ([\d.]+) \| ([+-]?[\d.]+)%? \|")


def settings(page: str) -> Iterator[tuple[str, ...]]:
    """Yield the settings of the page: the values of `COLUMNS`."""
    setting = congestion = paths = ""
    used: set[tuple[str, str]] = set()
    for line in page.splitlines():
        if line.startswith("#"):
            heading = _HEADING.match(line)
            setting, congestion, paths = heading[1] if heading else "", "", ""
        elif setting and not paths and " ms, " in line:
            parts = [_PATH.match(part.strip()) for part in line.partition(";")[0].split(" | ")]
            found = [f"{one[1]} {one[2]} {float(one[3] or 0) / 100:g}" for one in parts if one]
            paths = ";".join(found) if len(found) == len(parts) else ""
        elif head := _HEAD.match(line):
            congestion = head[1]
        elif congestion and paths and (row := _GOODPUT.match(line)) and (setting, congestion) not in used:
            used.add((setting, congestion))
            anchor = re.sub(r"[^\w -]", "", setting.lower()).replace(" ", "-")
            yield setting, anchor, congestion, paths, row[1], row[2], row[3]


def table(page: str) -> str:
    """Return the table as CSV."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows(settings(page))
    return text.getvalue()


if __name__ == "__main__":
    TABLE.write_text(table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
