"""One self-contained HTML page about a folder of results: verdicts, means, figures, assumptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch import _extras, _files
from anabranch.comparison import paths
from anabranch.errors import MissingError
from anabranch.experiments import drawn
from anabranch.experiments.table import table
from anabranch.results import store, summary, worlds
from anabranch.results.read import left_out, present_runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anabranch.claims.page import Paper
    from anabranch.figures.picture import Picture

#: Up to this number of runs, each run is drawn. The page of a whole study would otherwise have several
#: megabytes.
_DRAWN = 600
#: The titles of the figures, by name.
_TITLES = {
    "retransmissions-by-flow": "Retransmissions by path",
    "throughput-by-flow": "Throughput by path",
    "discards-retransmissions": "Discarded pictures against retransmissions",
    "throughput-delay": "Throughput against delay",
    "stall-quality": "Stalls against quality",
}


def write(path: Path, results: Path) -> Path:
    """Write the page of a folder of results, and return the file.

    Raises
    ------
    InputError
        If it is not a folder of results, or its study has faults.
    MissingError
        When the file cannot be written.
    """
    _files.write(path, build(results), "the report")
    return path


def build(results: Path) -> str:
    """Return the page as HTML text."""
    from markupsafe import Markup

    from anabranch import report
    from anabranch.claims import gather

    made, paper = store.made(results), gather.judged(results)
    heads, lines, words = table(results, worlds.of_cells(made.labels))
    heads, lines, zeros = _without_zeros(_in_words(heads, words), lines, words)
    short, whole = summary.unfinished(results)
    counts = _counts(paper)
    verdicts, measured = report.verdicts(results)
    said = [*([f"Claims: {counts}"] if counts else []), *verdicts]
    dots = whole <= _DRAWN
    shown, undrawn = _drawable(results, dots=dots)
    return report.page(
        "folder.html.j2",
        title=_name(results) if paper is None else paper.study.title,
        source="" if paper is None else paper.study.source,
        folder=str(results),
        seeds=sorted(set(present_runs(results)["seed"].to_list())),
        runs=whole,
        warnings=[*_warnings(results, paper, short, whole), *undrawn],
        verdicts=[f"{sentence}." for sentence in said],
        claims=_claims(paper),
        measured=measured,
        dots=dots,
        # The SVG is safe to insert, because vega escapes all texts in it.
        figures=[(_heading(name), Markup(one.inline())) for name, one in shown.items()],
        heads=heads,
        lines=lines,
        words=words,
        zeros=zeros,
        exact=len(made.exact),
        notes=made.notes,
        code=made.code,
    )


def _in_words(heads: Sequence[str], labels: int) -> list[str]:
    """Return a table's headings in words with units. Those of the labels are first."""
    from anabranch.figures import words

    named = [words.key(head) if "." in head else head for head in heads[:labels]]
    return [*named, *(words.metric(head) for head in heads[labels:])]


def _without_zeros(
    heads: Sequence[str], lines: Sequence[Sequence[str]], words: int
) -> tuple[list[str], list[list[str]], list[str]]:
    """Return a table without the measures that are zero in every cell, and the names of these measures."""
    measures = range(words, len(heads))
    zeros = [place for place in measures if lines and all(line[place] == "0" for line in lines)]
    kept = [place for place in range(len(heads)) if place not in zeros]
    rest = [[line[place] for place in kept] for line in lines]
    return [heads[place] for place in kept], rest, [heads[place] for place in zeros]


def _name(results: Path) -> str:
    """Return the name of a folder of results; for a comparison, its question."""
    if store.made(results).labels == (paths.COLUMN,):
        return f"{present_runs(results)['scenario'][0]}: which paths"
    return str(store.manifest(results)["name"])


def _heading(name: str) -> str:
    """Return a figure's title, without the unit, which is on its axis."""
    from anabranch.figures import words

    name, _, axis = name.partition(drawn.OVER)
    if axis:
        return f"{_heading(name)} over {words.key(axis.replace('--', '.'))}"
    return _TITLES.get(name, words.metric(name.replace("-", "_")).partition(",")[0].capitalize())


def _warnings(results: Path, paper: Paper | None, short: int, whole: int) -> list[str]:
    """Return warnings about the runs."""
    found = [
        f"{sentence[:1].upper()}{sentence[1:]}."
        for sentence in left_out(results, f"anabranch results {results} --earlier")
    ]
    if count := len(store.journals(results)):
        are = "journal is" if count == 1 else "journals are"
        found.append(f"Not finished: {count} {are} open in this folder.")
    if short:
        found.append(f"The simulation ended before the sessions of {short} of {whole} runs had finished.")
    unreached = summary.unreached(results)
    if unreached:
        found.append(f"{unreached[0].upper()}{unreached[1:]}.")
    found += [fault.sentence() for fault in summary.standstills(results)]
    if paper is not None and paper.changed:
        found.append(
            f"{paper.changed} cells have other settings than the study as it stands: "
            "they are no verdict on the paper."
        )
    return found


def _drawable(results: Path, *, dots: bool) -> tuple[dict[str, Picture], list[str]]:
    """Return the figures of a page. If the packages for drawing are missing, return a sentence instead."""
    try:
        _extras.figures()
    except MissingError as error:
        return {}, [f"This page has no figures: {error.fault.sentence()}"]
    return drawn.every(results, dots=dots), []


def _claims(paper: Paper | None) -> list[dict[str, Any]]:
    """Return the verdicts on claims, one dict for each row."""
    from anabranch.claims.page import evidence

    return [
        {
            "claim": one.stated.claim.id,
            "place": one.stated.claim.place,
            "says": one.stated.claim.says,
            "verdict": one.verdict,
            "where": spread.where,
            "evidence": evidence(one),
        }
        for one, spread in ([] if paper is None else zip(paper.judged, paper.spreads, strict=True))
    ]


def _counts(paper: Paper | None) -> str:
    """Return the number of claims with each verdict, in words."""
    from anabranch.claims.judge import VERDICTS, counted

    counts = {} if paper is None else counted(paper.judged)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts.get(verdict))
