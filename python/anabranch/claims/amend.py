"""A page of verdicts on which some papers, or some of their claims, are judged again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.claims import page
from anabranch.claims.judge import VERDICTS
from anabranch.claims.page import Part
from anabranch.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.claims.page import Paper

_LATER = "Judged later, by themselves: "
_EARLIER = ", on the build and the trials of an earlier page"


def renewed(text: str, papers: Sequence[Paper]) -> str:
    """Return a page with new sections for some papers, and the others unchanged.

    If a paper's results have no causes, the page's causes of that paper stay, marked as those of an earlier
    page.

    Parameters
    ----------
    text
        The page; any other text is not kept.
    papers
        The papers that were judged.
    """
    kept = {one.name: one for one in _parts(text)}
    made = {paper.name: page.part(paper) for paper in papers}
    for paper in papers:
        if paper.name in kept and not paper.causes:
            own = made[paper.name]
            section = [*own.section, *_causes(kept[paper.name].section)]
            made[paper.name] = replace(own, section=section)
    return page.write([*(kept | made).values()])


def _parts(text: str) -> list[Part]:
    """Return the section of each paper of a page."""
    begin, *sections = text.split("\n\n## ")
    rows: dict[str, list[str]] = {}
    for line in begin.splitlines():
        if line.startswith("| "):
            rows.setdefault(_cells(line)[0], []).append(line)
    parts = []
    for section in sections:
        name, *lines = section.rstrip("\n").split("\n")
        if len(rows.get(name, ())) == 2:
            verdicts, means = rows[name]
            parts.append(Part(name=name, verdicts=verdicts, means=means, section=["", f"## {name}", *lines]))
    return parts


def _causes(section: Sequence[str]) -> list[str]:
    """Return the lines of a section about causes, with the empty one before them."""
    at = next((at for at, line in enumerate(section) if line.startswith(page.CAUSES)), None)
    if at is None:
        return []
    told = section[at].replace(f"{page.CAUSES})", f"{page.CAUSES}{_EARLIER})")
    return ["", told, *section[at + 1 :]]


def amend(text: str, papers: Sequence[Paper]) -> str:
    """Return a page with new verdicts on some claims of papers, and the others unchanged.

    Parameters
    ----------
    text
        The page.
    papers
        The judged claims, and the results that they were judged on.

    Raises
    ------
    InputError
        If the page has no row for a claim.
    """
    _, table, rest = text.partition("\n| paper |")
    lines = [*page.BEGIN.splitlines(), *(table + rest).splitlines()]
    for paper in papers:
        begin = lines.index(f"## {paper.name}") if f"## {paper.name}" in lines else len(lines)
        end = next((at for at in range(begin + 1, len(lines)) if lines[at].startswith("## ")), len(lines))
        lines[begin:end] = _section(lines[begin:end], paper)
    return "\n".join(lines) + "\n"


def _section(lines: list[str], paper: Paper) -> list[str]:
    """Return the lines about a paper with some of its rows replaced."""
    faults = []
    for one, spread in zip(paper.judged, paper.spreads, strict=True):
        name = one.stated.claim.id
        places = [at for at, line in enumerate(lines) if line.startswith(f"| {name} (")]
        if len(places) == 1:
            lines[places[0]] = page.row(one, spread if paper.worlds else None)
        else:
            faults.append(Fault(message=f"the page has no row of {name}", where="--docs"))
    if faults:
        raise InputError(faults)
    names = [one.stated.claim.id for one in paper.judged]
    kept: list[str] = []
    for line in lines:
        if line.startswith(_LATER) and _names(line) <= set(names):
            kept.pop()  # the empty line before it
        else:
            kept.append(line)
    # The line goes after the sentence about the other claims' runs and those about claims that were judged
    # later.
    at = max(place for place, line in enumerate(kept[:8]) if line.startswith(_LATER) or "; build: " in line)
    seeds = ", ".join(map(str, paper.seeds)) or "none"
    told = f"{_LATER}{', '.join(names)}. {paper.runs} runs; trials of a cell: {page.trials(paper)}; "
    told += f"seed: {seeds}; CPU hours: {page.hours(paper)}; build: `{paper.code}`. "
    told += "Their p-values are adjusted among them alone."
    return [*kept[: at + 1], "", told, *kept[at + 1 :]]


def _names(line: str) -> set[str]:
    """Return the claims that are named by a sentence about later judgements."""
    return set(line.removeprefix(_LATER).partition(". ")[0].split(", "))


def recounted(text: str) -> str:
    """Return a page whose first table counts the verdicts of the other tables."""
    lines = text.splitlines()
    counts: dict[str, dict[str, int]] = {}
    paper, inside = "", False
    for line in lines:
        if line.startswith("## "):
            paper = line.removeprefix("## ")
            counts[paper] = dict.fromkeys(VERDICTS, 0)
        inside = line.startswith("| claim |") or (inside and line.startswith("|"))
        verdict = _cells(line)[2].strip("*") if inside and line.startswith("| ") else ""
        if verdict in VERDICTS:
            counts[paper][verdict] += 1
    done: set[str] = set()
    for at, line in enumerate(lines):
        cells = _cells(line) if line.startswith("| ") else []
        if cells and cells[0] in counts and cells[0] not in done:
            done.add(cells[0])
            numbers = [str(counts[cells[0]][verdict]) for verdict in VERDICTS]
            lines[at] = f"| {' | '.join([cells[0], *numbers, *cells[1 + len(VERDICTS) :]])} |"
    return "\n".join(lines) + "\n"


def _cells(line: str) -> list[str]:
    """Return the cells of a table's row."""
    # A `|` inside a cell is escaped by a backslash.
    return line.removeprefix("| ").removesuffix(" |").split(" | ")
