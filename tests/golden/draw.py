"""`make golden`: run every controller in every setting, write the curves as text and draw them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from curves import COUPLED, FOLDER, SECONDS, SETTINGS, Curve, curve, plugins

from anabranch.figures import colours, look
from anabranch.figures.calibration import svg, thinned

if TYPE_CHECKING:
    import altair as alt

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "congestion.svg"
_WIDTH, _HEIGHT = 250, 62
_HEADINGS = {
    "lossless": "no random loss",
    "loss": "0.02 % random loss",
    "app-limited": "12 Mbit/s offered, losses from 6 to 8 s",
}


def main() -> int:
    """Write and draw."""
    FOLDER.mkdir(exist_ok=True)
    found = [curve(plugin, setting) for plugin in plugins() for setting in SETTINGS]
    changed = []
    for one in found:
        text = one.text()
        if not one.file.exists() or one.file.read_text(encoding="utf-8") != text:
            one.file.write_text(text, encoding="utf-8")
            changed.append(one.file.name)
    for gone in {*FOLDER.glob("*.txt")} - {one.file for one in found}:
        gone.unlink()
        changed.append(gone.name)
    PICTURE.write_text(svg(picture(found)), encoding="utf-8")
    sys.stdout.write("".join(f"changed: tests/golden/cwnd/{name}\n" for name in sorted(changed)))
    sys.stdout.write(f"{len(found)} curves, {len(changed)} changed; drawn in docs/images/{PICTURE.name}\n")
    return 0


def picture(curves: list[Curve]) -> alt.ConcatChart:
    """Return a row of panels a controller, a column a setting."""
    import altair as alt

    last = curves[-1].plugin
    panels = [_panel(one, first=one.plugin == curves[0].plugin, last=one.plugin == last) for one in curves]
    drawn: alt.ConcatChart = (
        look.dressed(alt.concat(*panels, columns=len(SETTINGS), spacing=6))
        .configure_legend(orient="top", direction="horizontal", labelFontSize=11, title=None)
        .resolve_scale(color="shared")
    )
    return drawn


def _panel(one: Curve, *, first: bool, last: bool) -> alt.Chart:
    """Draw one controller in one setting; windows above 420 segments leave the panel."""
    import altair as alt

    top = 420
    palette = colours.of_paths(["path a", "path b"] if any(name in COUPLED for name in ALL) else ["path a"])
    rows = [
        {"t": round(time, 1), "y": min(value, top), "line": name}
        for name, subflow in zip(palette, one.windows, strict=False)
        for time, value in thinned(
            [((place + 1) / 10, float(cwnd)) for place, (cwnd, _, _) in enumerate(subflow)], _HEIGHT / top
        )
    ]
    left = one.setting == next(iter(SETTINGS))
    seconds = alt.Axis(labelExpr="datum.label + ' s'", tickCount=6, labels=last, ticks=last)
    value = alt.Axis(tickCount=3, labels=left, ticks=left)
    drawn: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeJoin="round", strokeWidth=1.2)
        .encode(
            x=alt.X("t:Q", scale=alt.Scale(domain=[0, SECONDS], nice=False), title=None, axis=seconds),
            y=alt.Y(
                "y:Q",
                title=one.plugin.replace("(", "\n(").split("\n") if left else None,
                axis=value,
                scale=alt.Scale(domain=[0, top]),
            ),
            color=alt.Color("line:N", scale=alt.Scale(domain=list(palette), range=list(palette.values()))),
        )
        .properties(width=_WIDTH, height=_HEIGHT, **({"title": _HEADINGS[one.setting]} if first else {}))
    )
    return drawn


ALL = [plugin["name"] for plugin in plugins()]

if __name__ == "__main__":
    sys.exit(main())
