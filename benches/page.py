"""Times of the page in headless Chromium: `.venv/bin/python benches/page.py [--throttle 4] [--native]`.

The scenario is `two-paths`, with a film of 60 s. Throttling slows down the page's thread but not its worker.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import browser
from anabranch.cli import _play
from anabranch.play import server

#: Moves the slider of a path's rate. Returns the time until the new result is drawn, milliseconds.
_MOVE = """
(async (place) => {
  const before = document.body.dataset.digest, began = performance.now();
  const slider = document.querySelector('[data-slider="paths.0.rate"]');
  slider.value = place;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  while (document.body.dataset.digest === before) {
    await new Promise((resolve) => setTimeout(resolve, 2));
    if (performance.now() - began > 20000) return null;
  }
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
  return performance.now() - began;
})
"""
_FIRST = """
(() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  const result = performance.getEntriesByName("result")[0]?.startTime;
  return paint && result ? [paint, result] : null;
})()
"""


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


async def measured(
    page: browser.Page, address: str, throttle: float, moves: int
) -> tuple[float, float, list[float]]:
    """Return the first paint, the first result and the time of each move, in milliseconds."""
    await page.open("about:blank", width=1280)
    await page.call("Network.clearBrowserCache")
    await page.call("Emulation.setCPUThrottlingRate", rate=throttle)
    await page.open(address, width=1280)
    found = None
    while not found:
        await asyncio.sleep(0.1)
        found = await page.value(_FIRST)
    times = []
    for place in range(moves):
        await asyncio.sleep(0.3)
        answer = await page.call(
            "Runtime.evaluate",
            expression=f"({_MOVE})({400 + 7 * place})",
            awaitPromise=True,
            returnByValue=True,
        )
        times.append(answer["result"]["value"])
    return found[0], found[1], times


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--throttle", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--moves", type=int, default=10)
    parser.add_argument("--native", action="store_true", help="run plans in the local server")
    given = parser.parse_args()
    paints, results, moves = [], [], []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as space:
        folder = Path(space) / "page"
        folder.mkdir()
        _play.written(folder, native=given.native)
        with server.serving(folder) as address:
            for number in range(given.rounds):
                one = browser.in_page(
                    Path(space) / f"chromium{number}",
                    lambda page: measured(page, address, given.throttle, given.moves),
                )
                paints.append(one[0])
                results.append(one[1])
                moves += one[2]
    _print(
        f"throttle {given.throttle:g}, load average {os.getloadavg()[0]:.1f} of {os.cpu_count()} processors"
    )
    for name, times in (("first paint", paints), ("first result", results), ("move of a slider", moves)):
        _print(f"{name}: median {statistics.median(times):.0f} ms, from {min(times):.0f} to {max(times):.0f}")


if __name__ == "__main__":
    main()
