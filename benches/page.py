"""Times of the page in headless Chromium: `.venv/bin/python benches/page.py [--throttle 4] [--native]`.

The scenario is `two-paths`, with a film of 60 s. The throttling slows the page's thread and not its worker.
Elapsed times depend on other work of the host. Ratios to a fixed loop in the same page do less.
The processor time of Chromium's threads is printed too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import browser
from anabranch.cli import _play
from anabranch.play import server

#: Moves the slider of a path's rate and returns the time until the new result is drawn, in milliseconds.
_MOVE = """
(async (place) => {
  const began = performance.now();
  const slider = document.querySelector('[data-slider="paths.0.rate"]');
  const changed = new Promise((resolve, reject) => {
    new MutationObserver((_, observer) => { observer.disconnect(); resolve(); })
      .observe(document.body, { attributes: true, attributeFilter: ["data-digest"] });
    setTimeout(() => reject(new Error("no new result after 20 s")), 20000);
  });
  slider.value = place;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  await changed;
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
#: The milliseconds of a fixed loop: the median of five.
_LOOP = """
(() => {
  const times = [];
  for (let round = 0; round < 5; round++) {
    const began = performance.now();
    let state = 1;
    for (let n = 0; n < 5e6; n++) state = (Math.imul(state, 1103515245) + 12345) | 0;
    times.push(performance.now() - began + (state === 0.5));
  }
  return times.sort((one, other) => one - other)[2];
})()
"""
#: The work of Chromium's threads by the start of their names. The main thread has the name of the program.
_THREADS = {
    "chrom": "page's thread",
    "DedicatedWorker": "worker",
    "ThreadPoolForeg": "background: compiling and loading",
}
_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def processor_ms(folder: Path) -> dict[str, float]:
    """Return the processor time of the threads of a browser's pages, by thread, in milliseconds."""
    found: dict[str, float] = defaultdict(float)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"--user-data-dir={folder}".encode() not in (process / "cmdline").read_bytes():
                continue
            if b"--type=renderer" not in (process / "cmdline").read_bytes():
                continue
            for thread in (process / "task").iterdir():
                name, _, rest = (thread / "stat").read_text().partition("(")[2].rpartition(")")
                user, system = map(int, rest.split()[11:13])
                if known := next((text for start, text in _THREADS.items() if name.startswith(start)), None):
                    found[known] += (user + system) * _TICK_MS
        except OSError:
            continue  # it has ended
    return found


@dataclass
class Measured:
    """Times in milliseconds.

    Attributes
    ----------
    loops
        A fixed loop in the page's thread.
    paints, results
        The first paint and the first result.
    moves
        From a slider's move to the new result.
    opened, moved
        Processor time until the first result, and for each move, by thread.
    """

    loops: list[float] = field(default_factory=list)
    paints: list[float] = field(default_factory=list)
    results: list[float] = field(default_factory=list)
    moves: list[float] = field(default_factory=list)
    opened: list[dict[str, float]] = field(default_factory=list)
    moved: list[dict[str, float]] = field(default_factory=list)


async def measure(
    page: browser.Page, address: str, given: argparse.Namespace, folder: Path, into: Measured
) -> None:
    """Open the page, move a slider, and add the times."""
    await page.open("about:blank", width=1280)
    await page.call("Network.clearBrowserCache")
    await page.call("Emulation.setCPUThrottlingRate", rate=given.throttle)
    into.loops.append(await page.value(_LOOP))
    before = processor_ms(folder)
    await page.open(address, width=1280)
    found = None
    while not found:
        await asyncio.sleep(0.05)
        found = await page.value(_FIRST)
    into.opened.append(_difference(processor_ms(folder), before))
    into.paints.append(found[0])
    into.results.append(found[1])
    await asyncio.sleep(1)
    before = processor_ms(folder)
    for place in range(given.moves):
        await asyncio.sleep(0.3)
        answer = await page.call(
            "Runtime.evaluate",
            expression=f"({_MOVE})({400 + 7 * place})",
            awaitPromise=True,
            returnByValue=True,
        )
        into.moves.append(answer["result"]["value"])
    spent = _difference(processor_ms(folder), before)
    into.moved.append({name: time / given.moves for name, time in spent.items()})
    into.loops.append(await page.value(_LOOP))


def _difference(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {name: time - before.get(name, 0.0) for name, time in after.items()}


def _show(found: Measured) -> None:
    loop = statistics.median(found.loops)
    _print(f"fixed loop: median {loop:.1f} ms")
    for name, times in (
        ("first paint", found.paints), ("first result", found.results), ("move of a slider", found.moves),
    ):  # fmt: skip
        median = statistics.median(times)
        spread = f"from {min(times):.0f} to {max(times):.0f}"
        _print(f"{name}: median {median:.0f} ms ({median / loop:.1f} loops), {spread}")
    for name, each in (("until the first result", found.opened), ("per move of a slider", found.moved)):
        spent = ", ".join(
            f"{thread} {statistics.median(one.get(thread, 0.0) for one in each):.0f} ms"
            for thread in _THREADS.values()
        )
        _print(f"processor time {name}: {spent}")


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--throttle", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--moves", type=int, default=10)
    parser.add_argument("--native", action="store_true", help="run plans in the local server")
    given = parser.parse_args()
    found = Measured()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as space:
        folder = Path(space) / "page"
        folder.mkdir()
        _play.written(folder, native=given.native)
        with server.serving(folder) as address:
            for number in range(given.rounds):
                own = Path(space) / f"chromium{number}"
                browser.in_page(own, lambda page, own=own: measure(page, address, given, own, found))
    _print(
        f"throttle {given.throttle:g}, load average {os.getloadavg()[0]:.1f} of {os.cpu_count()} processors"
    )
    _show(found)


if __name__ == "__main__":
    main()
