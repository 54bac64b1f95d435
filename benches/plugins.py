"""`make bench`: the cost of a call of a plug-in in Python, compared with an equal plug-in in Rust.

Two examples make exactly the same decisions as plug-ins in Rust: `lowest_rtt.py` as `min-rtt`, and `aimd.py`
as `reno`. The additional CPU time with them, divided by the number of their calls, is the cost of a call. It
includes the copies of its arguments, the call from Rust, the Python code, and the conversion of the result.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import anabranch
from anabranch.scenario.load import load

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "python"
SCENARIO = "bulk-two-paths"


@dataclass(frozen=True, kw_only=True)
class Case:
    """An example, the method that is called most often, and the plug-in in Rust that decides the same."""

    kind: str
    example: str
    method: str
    rust: str


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The cost of a case."""

    case: Case
    calls: int
    rust_s: float
    python_s: float
    call_ns: float
    spread_ns: float


CASES = (
    Case(kind="scheduler", example="lowest_rtt.py:LowestRtt", method="schedule", rust="min-rtt"),
    Case(kind="congestion", example="aimd.py:Aimd", method="on_ack", rust="reno"),
)

_COUNTING = """
from {module} import {name}

class Counting({name}):
    calls = 0

    def {method}(self, *given):
        Counting.calls += 1
        return super().{method}(*given)
"""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a call of a plug-in in Python costs.")
    parser.add_argument("--runs", type=int, default=7, help="runs for the median (default: 7)")
    parser.add_argument("--bytes", default="100 MB", help='how much a run transfers (default: "100 MB")')
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options = parser.parse_args()
    found = [_measure(case, size=options.bytes, runs=options.runs) for case in CASES]
    if options.json:
        _out(json.dumps({"cases": [asdict(item) for item in found]}, indent=2))
        return 0
    header = ("calls", "Rust s", "Python s", "ns a call", "+-")
    _out(f"{'plug-in in Python':<26}{'instead of':<10}" + "".join(f"{name:>11}" for name in header))
    for item in found:
        _out(
            f"{item.case.example:<26}{item.case.rust:<10}{item.calls:>11,}{item.rust_s:>11.3f}"
            f"{item.python_s:>11.3f}{item.call_ns:>11,.0f}{item.spread_ns:>11,.0f}"
        )
    return 0


def _measure(case: Case, *, size: str, runs: int) -> Measured:
    """Run a case alternately in both languages, and check that the digests are equal."""
    place = f"{EXAMPLES}/{case.example}"
    calls = _calls(case, size)
    rust, python = [], []
    for _ in range(runs):
        seconds, expected = _seconds(case.kind, case.rust, size)
        rust.append(seconds)
        seconds, digest = _seconds(case.kind, place, size)
        python.append(seconds)
        if digest != expected:
            sys.exit(f"error: {case.example} does not decide as {case.rust} does")
    more = [(slow - quick) / calls * 1e9 for slow, quick in zip(python, rust, strict=True)]
    return Measured(
        case=case,
        calls=calls,
        rust_s=statistics.median(rust),
        python_s=statistics.median(python),
        call_ns=statistics.median(more),
        spread_ns=(max(more) - min(more)) / 2,
    )


def _seconds(kind: str, plugin: str, size: str) -> tuple[float, str]:
    """Return the CPU seconds and the digest of one run."""
    settings = {"application.bytes": size, f"transport.{kind}": plugin}
    begin = time.process_time()
    digest = anabranch.run(SCENARIO, set=settings).digest
    return time.process_time() - begin, digest


def _calls(case: Case, size: str) -> int:
    """Return the number of calls of the method in a run."""
    file, name = case.example.split(":")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, file).write_text((EXAMPLES / file).read_text(encoding="utf-8"), encoding="utf-8")
        text = _COUNTING.format(module=file.removesuffix(".py"), name=name, method=case.method)
        Path(folder, "counting.py").write_text(text, encoding="utf-8")
        place = f"{folder}/counting.py:Counting"
        settings = {"application.bytes": size, f"transport.{case.kind}": place}
        anabranch.run(SCENARIO, set=settings)
        # Equal sources are loaded as one module, so this returns the class that has just run.
        plugged = load({**_RAW, "transport": {case.kind: place}}).plugins
        found = next(iter(plugged[case.kind].values()))
        return int(vars(found.plugin)["calls"])


#: The smallest scenario that names a plug-in.
_RAW = {
    "name": "none",
    "application": {"kind": "bulk", "bytes": "1 B"},
    "paths": [{"name": "a", "rtt": "1 ms", "rate": "1 Mbit/s"}],
}


def _out(text: str) -> None:
    """Write a line of data."""
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
