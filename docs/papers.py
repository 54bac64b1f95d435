"""Write the page of each paper: each figure with the paper's statements and the simulator's numbers.

    python docs/papers.py                                    writes all pages and their pictures
    python docs/papers.py NAME RESULTS [WORLD RESULTS ...]   first measures the numbers of one page

The texts are in `docs/papers/NAME.toml`, the numbers in `docs/papers/NAME.csv`, and the verdicts in
`docs/claims.md`. WORLD is a joint assumption of the study. The pictures are in `docs/images/papers/`.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FOLDER = Path(__file__).parent / "papers"
CLAIMS = Path(__file__).parent / "claims.md"
IMAGES = Path(__file__).parent / "images" / "papers"
#: The number of trials of a cell. The papers draw the mean, the smallest and the largest of so many.
TRIALS = 5
#: The name of the study without a joint assumption.
PRINTED = "as printed"
#: The tables of a figure, each with its rows of numbers.
Parts: TypeAlias = "list[tuple[Mapping[str, Any], list[Mapping[str, str]]]]"
_COLUMNS = (
    "world",
    "row",
    "congestion",
    "scheduler",
    "settings",
    "metric",
    "runs",
    "mean",
    "least",
    "most",
    "build",
)
_ROW = re.compile(r"^\| (\w+\.\d+) \((.*?)\) \| (.*?) \| (.*?) \|")
_JOINT = re.compile(r"^\| `(\w+\.\d+)` \| .*? \| (.*) \|$")
_BUILD = re.compile(r"; build: `([^`]+)`")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim with its verdict in the study as printed, and in its joint worlds."""

    says: str
    verdict: str
    inferred: str


def verdicts(text: str, name: str) -> tuple[dict[str, Claim], str]:
    """Return a paper's claims on the page of claims, and the build that judged them."""
    (section,) = [one for one in text.split("\n\n## ") if one.startswith(f"{name}\n")]
    lines = section.splitlines()
    joint = {found[1]: found[2] for line in lines if (found := _JOINT.match(line))}
    claims = {
        found[1]: Claim(says=found[3], verdict=found[4].strip("*"), inferred=joint.get(found[1], ""))
        for line in lines
        if (found := _ROW.match(line))
    }
    built = _BUILD.search(section)
    return claims, "" if built is None else built[1]


def page(name: str) -> str:
    """Return the page of a paper."""
    texts, numbers = _read(name)
    claims, judged = verdicts(CLAIMS.read_text(encoding="utf-8"), name)
    return "\n".join(_lines(name, texts, numbers, claims, judged)) + "\n"


def _read(name: str) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Return the texts of a paper's page, and its numbers."""
    texts = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return texts, list(csv.DictReader(file))


def _lines(
    name: str,
    texts: Mapping[str, Any],
    numbers: Sequence[Mapping[str, str]],
    claims: Mapping[str, Claim],
    judged: str,
) -> Iterator[str]:
    """Yield the lines of a page."""
    measured = ", ".join(f"`{one}`" for one in dict.fromkeys(row["build"] for row in numbers))
    yield from (f"# {name}, figure by figure", "", texts["source"], "", texts["intro"].strip(), "")
    yield from ("| | |", "|---|---|")
    yield f"| numbers below | `python docs/papers.py {name} RESULTS`, build {measured} |"
    yield f"| verdicts | [the page of claims](../claims.md#{name.lower()}), build `{judged}` |"
    runs = " or ".join(dict.fromkeys(row["runs"] for row in numbers))
    yield f"| a cell of a table | mean [smallest, largest] of {runs} trials, as the papers draw them |"
    for world, what in texts.get("worlds", {}).items():
        yield f"| *{world}* | {what} |"
    yield from ("", "**Differences from the testbed.**", "")
    yield from (f"- {one}" for one in texts["differs"])
    for number, figure in enumerate(texts["figures"], 1):
        yield from ("", f"## {figure['name']}", "", f"**The paper shows:** {figure['shows']}")
        for table in figure.get("tables", ()):
            yield from ("", *_table(table, numbers))
        if "tables" in figure:
            metrics = dict.fromkeys(one for table in figure["tables"] for one in table.get("metric", ()))
            shown = "; ".join(_word(one) for one in metrics)
            yield from ("", f"![Bars of our numbers: {shown}](../images/papers/{name}-{number}.svg)")
        own = list(figure.get("claims", ()))
        if own:
            yield from ("", *_verdicts(own, claims))
        if "why" in figure:
            yield from ("", f"**Why:** {figure['why']}")


def _verdicts(names: Sequence[str], claims: Mapping[str, Claim]) -> Iterator[str]:
    """Yield the claims of a figure with their verdicts."""
    worlds = any(claims[name].inferred for name in names)
    yield f"| claim | in words | as printed |{' as inferred |' if worlds else ''}"
    yield "|---|---|---|" + ("---|" if worlds else "")
    for name in names:
        one = claims[name]
        yield f"| {name} | {one.says} | {one.verdict} |" + (f" {one.inferred} |" if worlds else "")


def _chosen(wanted: Mapping[str, Any], numbers: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Return the rows of numbers that a table shows."""
    return [row for row in numbers if all(row[key] in wanted.get(key, [row[key]]) for key in _COLUMNS)]


def drawn(name: str) -> Iterator[tuple[Path, Parts, str]]:
    """Yield the file, the tables with their rows, and the last line of each figure's picture.

    The last line has a hash of the tables and rows, which shows whether a picture is of the present numbers.
    """
    texts, numbers = _read(name)
    for number, figure in enumerate(texts["figures"], 1):
        if parts := [(table, _chosen(table, numbers)) for table in figure.get("tables", ())]:
            digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
            yield IMAGES / f"{name}-{number}.svg", parts, f"<!-- of numbers {digest[:20]} -->"


def draw(name: str) -> None:
    """Write the picture of each figure with tables."""
    import papers_figures

    for file, parts, last in drawn(name):
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{papers_figures.draw(parts).svg.rstrip()}\n{last}\n", encoding="utf-8")


def _table(wanted: Mapping[str, Any], numbers: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield a table of means: `down` and `across` are columns of the numbers, the others select rows."""
    across, down = wanted["across"], [*wanted["down"]]
    chosen = _chosen(wanted, numbers)
    if len({row["world"] for row in chosen}) > 1:
        down.append("world")
    heads = _ordered(wanted, across, chosen)
    places: dict[tuple[str, ...], dict[str, str]] = {}
    for row in chosen:
        places.setdefault(tuple(row[key] for key in down), {})[row[across]] = _cell(row)
    order = {key: _ordered(wanted, key, chosen) for key in down}
    keys = sorted(
        places, key=lambda place: [order[key].index(one) for key, one in zip(down, place, strict=True)]
    )
    yield f"| {' | '.join([*('' for _ in down), *map(_word, heads)])} |"
    yield "|---" * len(down) + "|--:" * len(heads) + "|"
    for place in keys:
        yield f"| {' | '.join([*map(_word, place), *(places[place].get(head, '') for head in heads)])} |"


def _ordered(wanted: Mapping[str, Any], key: str, rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the values of a column, in the order of the texts or of the numbers."""
    found = dict.fromkeys(row[key] for row in rows)
    return [one for one in wanted.get(key, found) if one in found]


def _word(value: str) -> str:
    """Return a value as the head of a row or column: a metric or the transport in words."""
    from anabranch.figures import words

    value = value.replace("multipath true", "MPTCP").replace("multipath false", "TCP")
    path, dot, metric = value.partition(".")
    if dot and metric in words.METRICS:
        return f"{path}: {words.METRICS[metric]}"
    return words.METRICS.get(value, value)


def _cell(row: Mapping[str, str]) -> str:
    """Return a mean with its extremes."""
    mean, least, most = (float(row[name]) for name in ("mean", "least", "most"))
    return _number(mean) if least == most else f"{_number(mean)} [{_number(least)}, {_number(most)}]"


def _number(value: float) -> str:
    """Return a number with three digits, or whole from a hundred on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def measure(name: str, folders: Mapping[str, Path]) -> None:
    """Write the numbers of a page: the means and the extremes of each cell that its tables show."""
    texts = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    tables = [table for figure in texts["figures"] for table in figure.get("tables", ())]
    with (FOLDER / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        for world, folder in folders.items():
            for row in _measured(folder, None if world == PRINTED else world):
                if any(
                    all(row[key] in table.get(key, [row[key]]) for key in ("row", *_COLUMNS[2:6]))
                    for table in tables
                ):
                    writer.writerow({"world": world, **row})


def _measured(folder: Path, varied: str | None) -> Iterator[dict[str, str]]:
    """Yield the mean of each metric of each cell of a folder of results, over the first trials.

    `varied` is the joint assumption of the runs; None is the study as it stands.
    """
    from anabranch.experiments import drawn
    from anabranch.results import store

    build = store.made(folder).code
    axes = [name for name in store.made(folder).labels if name not in ("row", "varied")]
    others = [name for name in axes if name not in ("transport.congestion", "transport.scheduler")]
    values: dict[tuple[str, ...], list[float]] = {}
    for run in drawn.runs(folder, varied=varied):
        if run["run"] >= TRIALS:
            continue
        settings = ", ".join(
            f"{name.rpartition('.')[2]} {_setting(run[name])}" for name in others if run.get(name) is not None
        )
        cell = (run["row"], run["control"], run["scheduler"], settings)
        paths = {f"{path}.{key}": value for path, own in run["paths"].items() for key, value in own.items()}
        for metric, value in (run | paths).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                values.setdefault((*cell, metric), []).append(value)
    for key, own in values.items():
        numbers = (str(len(own)), *(f"{one:.6g}" for one in (fmean(own), min(own), max(own))), build)
        yield dict(zip(_COLUMNS[1:], (*key, *numbers), strict=True))


def _setting(value: object) -> str:
    """Return the value of a setting as a scenario writes it."""
    return str(value).lower() if isinstance(value, bool) or value in ("True", "False") else str(value)


def names() -> list[str]:
    """Return the papers that have texts."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        name, first, *more = sys.argv[1:]
        others = dict(zip(more[::2], map(Path, more[1::2]), strict=True))
        measure(name, {PRINTED: Path(first), **others})
    for one in names():
        (FOLDER / f"{one}.md").write_text(page(one), encoding="utf-8")
        draw(one)
