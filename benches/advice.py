"""The quality of `anabranch advise`: its choices in twenty random worlds, compared with exhaustive runs.

    python benches/advice.py [--kind transfer|film] [--worlds 20] [--journal FILE]

The seed was fixed before the first run. In each world every candidate is run with every trial. The advice
then uses a fifth of these runs, so that only its choice can differ. Each world gives one line: the chosen
candidate, the best one, and the difference. Worlds in the journal are not run again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anabranch.advice import evidence, make, spending
from anabranch.results import identity, paired
from anabranch.scenario.load import load
from anabranch.study import execute, sweep

SEED = 20
WORLDS = 20
TRIALS = 20
CONTROLLERS, SCHEDULERS = ("cubic", "bbr"), ("linux", "blest")
_RECORDING = Path(__file__).parent.parent / "scenarios" / "traces" / "lte-driving.csv"


def world(number: int, kind: str) -> dict[str, Any]:
    """Return one world: WiFi and LTE, with a third path in every fifth and a harmful path in every fourth.

    A film is one minute of UQ18's ladders. In every third world the WiFi rate falls to a tenth.
    """
    draw = random.Random(f"{SEED} {number}")
    wifi = {
        "name": "wifi",
        "rate": f"{draw.uniform(3, 20):.1f} Mbit/s",
        "rtt": f"{draw.uniform(10, 60):.0f} ms",
        "loss": f"{draw.choice((0, 0.1, 0.5, 1)):g} %",
        "jitter": f"{draw.uniform(0, 3):.1f} ms",
    }
    lte: dict[str, Any] = {
        "name": "lte",
        "rate": f"{draw.uniform(3, 15):.1f} Mbit/s",
        "rtt": f"{draw.uniform(40, 120):.0f} ms",
        "queue": f"{draw.choice((100, 300))} packets",
    }
    if number % 4 == 3:
        # The harmful path: a tenth of the rate, ten times the delay, and loss.
        lte |= {"rate": "600 kbit/s", "rtt": f"{draw.uniform(400, 900):.0f} ms", "loss": "2 %"}
    if number == 10:
        lte = {"name": "lte", "trace": str(_RECORDING)}
    paths = [wifi, lte]
    if number % 5 == 4:
        rate, rtt = draw.uniform(2, 10), draw.uniform(30, 300)
        paths.append({"name": "third", "rate": f"{rate:.1f} Mbit/s", "rtt": f"{rtt:.0f} ms", "loss": "0.5 %"})
    buffer = draw.choice(("256 KiB", "1 MiB", "6 MiB"))
    tables: dict[str, Any] = {
        "name": f"world-{number}",
        "seed": SEED,
        "application": {"kind": "bulk", "bytes": "500 kB"},
        "transport": {"receive_buffer": buffer},
        "paths": paths,
    }
    return tables if kind == "transfer" else tables | _film(number, draw, wifi)


def _film(number: int, draw: random.Random, wifi: dict[str, Any]) -> dict[str, Any]:
    """Return the tables that turn a transfer's world into a film's."""
    ladder = draw.choice(("uq18-jp", "uq18-va"))
    found: dict[str, Any] = {
        "application": {"kind": "adaptive", "ladder": ladder, "abr": "hlsjs", "duration": "60 s"},
    }
    if number % 3 == 2:
        at, lasts = draw.uniform(5, 30), draw.uniform(5, 20)
        full = wifi["rate"]
        faded = f"{float(full.split()[0]) / 10:.2f} Mbit/s"
        found["events"] = [
            {"at": f"{at:.1f} s", "path": "wifi", "rate": faded},
            {"at": f"{at + lasts:.1f} s", "path": "wifi", "rate": full},
        ]
    return found


def judge(number: int, kind: str = "transfer") -> dict[str, Any]:
    """Return the comparison of the advice for one world with the exhaustive best."""
    tables = world(number, kind)
    what = make.asked(
        load(tables),
        tables,
        (),
        controllers=CONTROLLERS,
        schedulers=SCHEDULERS,
        paths=(),
        trials=TRIALS,
        budget=None,
    )
    planned = sweep.planned(what.sweep)
    exact = tuple(one.exact for one in planned)
    whole = make.evidence_of(what, exact)
    code = identity.code()
    for place, cell in enumerate(what.sweep.cells):
        for run in range(TRIALS if not exact[place] else 1):
            job = sweep.Job(cell=cell, name=cell.name, run=run, keep=(), identity="", alike="", hash="")
            whole.add(place, run, execute.work(job, code)[0]["runs"][0])
    seen = make.evidence_of(what, exact)
    for step in make.steps(what, seen):
        for place, run in step:
            if not seen.has(place, run):
                seen.add(place, run, whole.rows[place][run])
    chosen = seen.choose(what.candidates, seen.questions(what.candidates))
    best = max(range(len(exact)), key=lambda place: spending.mean(whole.scores[place]))
    found = paired.difference(*_values(whole, best, chosen))
    alone, _ = _values(whole, best, best)
    interval = paired.interval(alone)
    mean = spending.mean(whole.scores[chosen])
    least = interval[0] if interval[0] is not None else float(alone.mean())
    return {
        "kind": kind,
        "world": number,
        "chosen": what.candidates[chosen].name,
        "best": what.candidates[best].name,
        "chosen_mbps": round(mean, 3),
        "best_mbps": round(float(alone.mean()), 3),
        "best_low": round(float(least), 3),
        "inside": chosen == best or mean >= least,
        "matters": (found.value or 0.0) > what.score.matters(float(alone.mean())),
        "missed_mbps": round(found.value or 0.0, 4),
        "missed_low": found.low,
        "inside_paired": chosen == best or (found.low is not None and found.low <= 0),
        "runs": seen.runs,
        "exhaustive": whole.runs,
    }


def _values(whole: evidence.Evidence, place: int, other: int) -> tuple[Any, Any]:
    """Return the scores of two candidates over all trials as pairs."""
    exact = (whole.exact[place], whole.exact[other])
    return paired.matched(whole.scores[place], whole.scores[other], exact=exact)


def main() -> None:
    """Judge the worlds, and print a line for each and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("transfer", "film"), default="transfer")
    parser.add_argument("--worlds", type=int, default=WORLDS)
    parser.add_argument("--only", type=int, nargs="*", help="judge only these worlds")
    parser.add_argument("--journal", type=Path)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        journal = given.journal or Path(folder) / "journal.jsonl"
        lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
        known = (one for one in map(json.loads, lines) if one.get("kind", "transfer") == given.kind)
        found = {one["world"]: one for one in known}
        for number in given.only or range(given.worlds):
            if number not in found:
                found[number] = judge(number, given.kind)
                with journal.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found[number]) + "\n")
            sys.stdout.write(json.dumps(found[number]) + "\n")
            sys.stdout.flush()
    inside, pairs = (sum(one[key] for one in found.values()) for key in ("inside", "inside_paired"))
    matters = sum(one["matters"] for one in found.values())
    runs, exhaustive = (sum(one[key] for one in found.values()) for key in ("runs", "exhaustive"))
    sys.stdout.write(
        f"{inside} of {len(found)} within the interval of the best, {pairs} of the paired difference, "
        f"{matters} missed it by more than the advice ignores\n"
        f"{runs} of {exhaustive} runs\n"
    )


if __name__ == "__main__":
    main()
