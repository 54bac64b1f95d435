"""Our endpoint over real packets compared with the simulator and this host's kernel: `make bench-live`.

It runs the lossless settings of the ground truth with CUBIC in all three worlds (`anabranch parity`). It
prints the mean goodput of each with its 95 % interval. It requires root, and ten minutes per setting with
five trials. A setting passes if our mean is within 3 % of the simulator's and of the kernel's. If a
confidence interval is wider than 3 %, the limit is its width, but at most 5 %.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from anabranch.calibrate import read, settings
from anabranch.live import parity
from anabranch.live.parity import WORLDS
from anabranch.live.testbed import missing
from anabranch.scenario.load import load

if TYPE_CHECKING:
    from anabranch.live.parity import Figure

#: The allowed difference of two means as a share of the reference, and its upper limit for wide intervals.
NEAR, MOST = 0.03, 0.05
GOODPUT = "goodput, Mb/s"


def near(figure: Figure, world: str, other: str) -> bool:
    """Return whether two worlds' means are close enough."""
    widths = [figure.half_width(name) or 0.0 for name in (world, other)]
    reference = figure.mean(other)
    allowed = min(max(NEAR, max(widths) / reference), MOST)
    return abs(figure.apart(world, other)) <= allowed


def say(line: str) -> None:
    """Write a line and flush it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run the settings, and return 1 if one differs too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="a setting's name, e.g. P3; repeatable")
    asked = parser.parse_args()
    lacks = missing()
    if lacks is not None:
        sys.stderr.write(f"bench-live: skipped: {lacks}\n")
        return 4
    wrong = []
    worlds = " ".join(f"{world:>16}" for world in WORLDS)
    say(f"{'setting':8} {'protocol':8} {worlds}  to simulator  to kernel")
    for measured in read.shipped().measured:
        setting = measured.setting
        lossless = not any(leg.loss for leg in setting.legs)
        if setting.kind != "bulk" or setting.congestion != "cubic" or setting.folder or not lossless:
            continue
        if asked.only and setting.case not in asked.only:
            continue
        figures = parity(load(settings.scenario(setting)), trials=asked.trials)
        figure = next(figure for figure in figures if figure.name == GOODPUT)
        shown = [
            f"{figure.mean(world):8.3f} +- {figure.half_width(world) or 0:5.3f}" for world in figure.values
        ]
        apart = [figure.apart("gateway", world) for world in ("simulator", "kernel")]
        protocol = "MPTCP" if setting.multipath else "TCP"
        columns = " ".join(f"{text:>16}" for text in shown)
        say(f"{setting.case:8} {protocol:8} {columns}  {apart[0]:+12.2%}  {apart[1]:+9.2%}")
        if not all(near(figure, "gateway", world) for world in ("simulator", "kernel")):
            wrong.append(setting.case)
    for case in wrong:
        sys.stderr.write(f"bench-live: {case}: the means differ too much\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
