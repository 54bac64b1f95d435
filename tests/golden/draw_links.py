"""`make golden`: draw what each model of a link does in a minute, for docs/concepts/link-model.md."""

from __future__ import annotations

import sys
from pathlib import Path

from anabranch.figures.calibration import svg
from anabranch.figures.links import link
from anabranch.scenario import load, plan
from anabranch.traces._record import record

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
_SECOND = 10**9

#: The drawn models: the model, the length of a step in ms, and its title.
MODELS = {
    "wifi": (
        {"name": "wifi-g", "snr": "15 dB", "fading": "5 dB"},
        200,
        "802.11g at 15 ± 5 dB: rate adaptation, and repeated frames as delay",
    ),
    "lte": ("lte", 200, "LTE, T-Mobile driving: mean 12.8 Mb/s, HARQ in the delay"),
    "starlink": (
        {"name": "starlink", "phase": "3 s"},
        200,
        "Starlink at rest: a new satellite at 12, 27, 42 and 57 s; above, steps that lost packets",
    ),
}


def main() -> int:
    """Draw."""
    for name, (model, step_ms, title) in MODELS.items():
        path = {"name": name, "rtt": "0 s", "model": model}
        scenario = {"name": name, "application": {"kind": "bulk", "duration": "60 s"}, "paths": [path]}
        built = plan.build(load.load(scenario).scenario, None)
        found = record(built, f"{name}.down", length_ns=60 * _SECOND, step_ns=step_ms * 10**6)
        (FOLDER / f"link-{name}.svg").write_text(svg(link(found, title=title)), encoding="utf-8")
    sys.stdout.write(f"{len(MODELS)} links drawn in docs/images\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
