"""Verdicts as text: a line of evidence for a claim, and the page of all papers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.claims import around, inputs
from anabranch.claims.judge import EQUAL, FEWEST, VERDICTS, Finding, Judged, counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.claims.around import Spread, Where, World
    from anabranch.study.models import Study

BEGIN = """# Claims of the papers, judged

This page is written by `anabranch study claims all RESULTS --run --around all --docs FILE`, and its causes
are those of `anabranch study why`; either may stop early, and each paper names its runs and build.
Each claim is stated in the study's `claims.toml`, with the smallest effect that matters;
[the guide](guide/studies.md#claims) explains how verdicts are made. *Reproduced* and *not reproduced* refer
to this simulator under the studies' assumptions: neither means that a paper measured wrongly. *Inferred*
claims hold, but a setting of the study decides them: they do not count as reproduced. Claims that were judged
later, by `--only`, are named in their paper's section with the runs made for them; no worlds around the study
were run for these. The pages of [HO20](papers/HO20.md), [LEO24](papers/LEO24.md), [PC16](papers/PC16.md),
[SD18](papers/SD18.md) and [UQ18](papers/UQ18.md) go through the figures one by one.

*By means* looks at the study and at worlds around it, in each of which one assumption has another value; the
ranges and their reasons stand in `study.toml`, each fixed before it was computed. A claim holds
*everywhere*, *here* (in some worlds) or *nowhere*, going by the means of a few runs: **this is no test**, and
what hangs on a narrow difference may be on either side by chance. *Changed by* names the values with which it
comes out otherwise than in the study as it stands.
"""
_PLACES: tuple[Where, ...] = ("everywhere", "here", "nowhere")
#: The largest number of seeds that are listed.
_MOST_SEEDS = 8
#: The beginning of the table of causes, up to the command that made it.
CAUSES = "Why pictures froze and were discarded (`anabranch study why`"


@dataclass(frozen=True, kw_only=True)
class Paper:
    """The judged claims of a paper, and the results that they were judged on.

    Attributes
    ----------
    name, study
        The study.
    judged
        The claims.
    runs, trials, seeds
        The number of runs, the smallest and largest number of runs or drawn worlds of a cell with random
        draws, and the seeds.
    lacking
        The number of runs or drawn worlds that the study requires, for each row that has fewer.
    code
        The build that made the results.
    notes
        Assumptions by name.
    cpu_s
        Seconds of processor time that the runs took; None when unknown.
    changed
        Number of cells whose settings are no longer those of the study.
    spreads
        For each claim, the worlds in which it holds by its means.
    worlds
        The changed worlds that were run, with the smallest and largest number of runs of a cell.
    missing
        The changed worlds that were not run.
    causes
        The causes of freezes by row and congestion control, for the runs in which they were searched.
    found
        Other findings, in the words of the list of claims.
    inputs
        The digest of plans and claims; empty if it is not known.
    joint
        By joint assumption that was run the verdicts on the claims there.
    """

    name: str
    study: Study
    judged: Sequence[Judged]
    runs: int
    trials: tuple[int, int]
    lacking: Mapping[str, int]
    seeds: Sequence[int]
    code: str
    notes: Mapping[str, str]
    cpu_s: float | None
    changed: int
    spreads: Sequence[Spread]
    worlds: Mapping[World, tuple[int, int]]
    missing: Sequence[World]
    causes: Mapping[tuple[str, str], Mapping[str, Any]]
    found: str = ""
    inputs: str = ""
    joint: Mapping[str, Sequence[Judged]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Part:
    """The section of one paper.

    Attributes
    ----------
    name
        The study.
    verdicts, means
        Its rows of the two tables at the beginning.
    section
        The lines of its section, from the empty one before its heading on.
    """

    name: str
    verdicts: str
    means: str
    section: Sequence[str]


def evidence(one: Judged) -> str:
    """Return a line with the evidence for a verdict: the strongest comparison."""
    if not one.findings:
        return one.note
    states = [finding.state for finding in one.findings]
    wanted = {"not reproduced": "fails", "undecided": "open"}.get(one.verdict, "holds")
    # If one comparison is enough, this is the clearest one. If all must hold, it is the least certain one.
    states_of = [finding for finding in one.findings if finding.state == wanted] or list(one.findings)
    telling = max(states_of, key=lambda f: _weight(f, wanted))
    text = line(telling)
    if one.q is not None:
        text = f"{text}; adjusted p {one.q:.2g}"
    if len(states) > 1:
        words = {"holds": "hold", "fails": "fail", "open": "are open"}
        counts = ", ".join(f"{states.count(one)} {word}" for one, word in words.items() if one in states)
        text = f"{len(states)} comparisons ({counts}): {text}"
    return text


def _weight(finding: Finding, wanted: str) -> float:
    """Return how strong the evidence of a comparison is."""
    chance = finding.chance
    return -chance.false_if_fails if wanted == "fails" else chance.false_if_holds


def line(finding: Finding) -> str:
    """Return a comparison and its outcome in a line."""
    effect = finding.effect
    if finding.note or effect.value is None:
        return f"{finding.what}: {finding.note}"
    if finding.exact:
        return f"{finding.what}: {effect.value:.4g}, without chance"
    low = "?" if effect.low is None else f"{effect.low:.3g}"
    high = "?" if effect.high is None else f"{effect.high:.3g}"
    text = f"{finding.what}: {effect.value:.3g} [{low}, {high}], {effect.pairs} pairs"
    if effect.low is not None and effect.low == effect.high and effect.pairs < EQUAL:
        text += f" that are equal, and {EQUAL} are needed"
    return text if not effect.detectable else f"{text}, detectable {effect.detectable:.2g}"


def plain(one: Judged, spread: Spread, joint: Mapping[str, Judged] | None = None) -> dict[str, Any]:
    """Return a verdict with all of its comparisons and worlds, for JSON."""
    return {
        "joint": {name: found.verdict for name, found in (joint or {}).items()},
        "id": one.stated.claim.id,
        "place": one.stated.claim.place,
        "says": one.stated.claim.says,
        "verdict": one.verdict,
        "q": one.q,
        "note": one.note,
        "needed": one.stated.needed,
        "by_means": {
            "where": spread.where,
            "own": spread.own,
            "worlds": [
                {"assumption": world.assumption, "set": world.said, "holds": holds}
                for world, holds in spread.worlds.items()
            ],
        },
        "comparisons": [
            {
                "what": finding.what,
                "state": finding.state,
                "value": finding.effect.value,
                "low": finding.effect.low,
                "high": finding.effect.high,
                "pairs": finding.effect.pairs,
                "detectable": finding.effect.detectable,
                "exact": finding.exact,
                "note": finding.note,
            }
            for finding in one.findings
        ],
    }


def _numbers(seeds: Sequence[int]) -> str:
    """Return seeds as text. For drawn worlds, which have one seed each, return their number."""
    if len(seeds) > _MOST_SEEDS:
        return f"{len(seeds)}, one for each drawn world"
    return ", ".join(map(str, seeds)) or "none"


def write(parts: Sequence[Part]) -> str:
    """Return the page of some papers, by name."""
    parts = sorted(parts, key=lambda one: one.name)
    head = f"| paper | {' | '.join(VERDICTS)} | runs | trials | CPU hours |"
    lines = [BEGIN, head, "|---" * (len(VERDICTS) + 4) + "|"]
    lines += [one.verdicts for one in parts]
    lines += ["", f"| by means | {' | '.join(_PLACES)} | worlds | not run |", "|---" * 6 + "|"]
    lines += [one.means for one in parts]
    for one in parts:
        lines += one.section
    return "\n".join(lines) + "\n"


def part(paper: Paper) -> Part:
    """Return the section of a paper."""
    counts = counted(paper.judged)
    verdicts = [str(counts[verdict]) for verdict in VERDICTS]
    found = around.counted(paper.spreads)
    numbers = [*(found[place] for place in _PLACES), len(paper.worlds), len(paper.missing)]
    return Part(
        name=paper.name,
        verdicts=f"| {' | '.join([paper.name, *verdicts, str(paper.runs), trials(paper), hours(paper)])} |",
        means=f"| {' | '.join([paper.name, *map(str, numbers)])} |",
        section=_section(paper),
    )


def _section(paper: Paper) -> list[str]:
    """Return the lines about one paper."""
    seeds = _numbers(paper.seeds)
    told = f"{paper.study.title}; {paper.study.source}. {paper.runs} runs; trials of a cell: {trials(paper)}"
    if paper.lacking:
        told += f", where the study asks for {_asked(paper.lacking)}"
    told += f"; seed: {seeds}; CPU hours: {hours(paper)}{inputs.told(paper.code, paper.inputs)}"
    lines = ["", f"## {paper.name}", "", told]
    if paper.changed:
        lines.append(f"\n{paper.changed} cells have other settings than the study as it stands.")
    if paper.trials[1] and paper.trials[0] < FEWEST:
        lines.append(f"\nFewer than {FEWEST} trials decide nothing.")
    lines += [
        "",
        "| claim | says | verdict | by means | changed by | rests on |",
        "|---|---|---|---|---|---|",
    ]
    lines += [row(one, spread) for one, spread in zip(paper.judged, paper.spreads, strict=True)]
    lines += _joint(paper)
    if paper.notes:
        lines += ["", "Assumptions:", ""]
        lines += [f"- {name}: {note}" for name, note in paper.notes.items()]
    return lines + _worlds(paper) + (["", *paper.found.splitlines()] if paper.found else []) + _causes(paper)


def _joint(paper: Paper) -> list[str]:
    """Return the lines about the verdicts in joint worlds, beside those of the study as it stands."""
    if not paper.joint:
        return []
    names = list(paper.joint)
    lines = [
        "",
        "Verdicts by world, tested like those above. A claim that was used to choose a world is at most",
    ]
    lines += ["*inferred* there:", "", f"| in | the study as it stands | {' | '.join(names)} |"]
    lines += ["|---" * (2 + len(names)) + "|"]
    for place, one in enumerate(paper.judged):
        cells = [
            f"`{one.stated.claim.id}`",
            one.verdict,
            *(paper.joint[name][place].verdict for name in names),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    counts = [
        sum(one.verdict == "reproduced" for one in own) for own in (paper.judged, *paper.joint.values())
    ]
    lines += [f"| reproduced | {' | '.join(map(str, counts))} |", ""]
    for name in names:
        joint, against = paper.study.joint[name], paper.study.inferred(name)
        told = f"- {name}: {joint.what} ({joint.why})"
        lines.append(
            f"{told}. *Inferred from the testbed*, against the paper: {'; '.join(against)}"
            if against
            else told
        )
    return lines


def _asked(lacking: Mapping[str, int]) -> str:
    """Return the number of trials that a study requires, with the rows if their numbers differ."""
    numbers = sorted(set(lacking.values()))
    if len(numbers) == 1:
        return str(numbers[0])
    rows = {number: ", ".join(row for row in lacking if lacking[row] == number) for number in numbers}
    return ", ".join(f"{number} ({names})" for number, names in rows.items())


def row(one: Judged, spread: Spread | None) -> str:
    """Return a claim's row of its paper's table.

    `spread` is None if no changed world was evaluated for it.
    """
    claim = one.stated.claim
    verdict = f"**{one.verdict}**" if one.verdict in VERDICTS[:2] else one.verdict
    cells = (
        f"{claim.id} ({claim.place})",
        claim.says,
        verdict,
        "" if spread is None else _by_means(spread),
        "" if spread is None else "; ".join(world.said for world in spread.flips),
        evidence(one),
    )
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def shares(parts: Mapping[str, float]) -> str:
    """Return a sum and the shares of its causes that are above one in a hundred: `12.3: capacity 80 %`."""
    total = sum(parts.values())
    if total <= 0:
        return "0"
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    named = [f"{cause} {100 * part / total:.0f} %" for cause, part in ordered if part >= total / 100]
    return f"{total:.3g}: {', '.join(named)}"


def _causes(paper: Paper) -> list[str]:
    """Return the table of what froze pictures."""
    if not paper.causes:
        return []
    kinds = {"frozen_s": "frozen, s", "discards": "discards"}
    said = f"{CAUSES}), means a run over all schedulers:"
    if any(group["steps_down"] for group in paper.causes.values()):
        # Single pictures of a ladder are not examined.
        kinds = {"frozen_s": "frozen, s", "steps_down": "steps down"}
        said = f"{CAUSES}), and why the resolution fell, means a run over all schedulers:"
    lines = ["", said, "", f"| row | control | runs | {' | '.join(kinds.values())} |", "|---" * 5 + "|"]
    for (row, control), group in paper.causes.items():
        cells = (row, control, str(group["runs"]), *(shares(group[kind]) for kind in kinds))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _by_means(spread: Spread) -> str:
    """Return where a claim holds by its means, and in how many worlds, including the study itself."""
    known = [holds for holds in (spread.own, *spread.worlds.values()) if holds is not None]
    return f"{spread.where} ({sum(known)} of {len(known)})" if known else ""


def _worlds(paper: Paper) -> list[str]:
    """Return the lines about the worlds around a study."""
    by_name: dict[str, list[str]] = {}
    for world, trials in paper.worlds.items():
        by_name.setdefault(world.assumption, []).append(
            f"{world.said} ({_count(trials)} {'trial' if trials == (1, 1) else 'trials'})"
        )
    lines = ["", "Worlds around it:", ""] if paper.worlds or paper.missing else []
    lines += [f"- {name}: {'; '.join(worlds)}" for name, worlds in by_name.items()]
    if paper.missing:
        lines.append(f"- not run: {'; '.join(world.said for world in paper.missing)}")
    return lines


def trials(paper: Paper) -> str:
    """Return the number of trials."""
    return _count(paper.trials)


def _count(trials: tuple[int, int]) -> str:
    """Return the smallest and the largest number."""
    least, most = trials
    return str(least) if least == most else f"{least} to {most}"


def hours(paper: Paper) -> str:
    """Return the processor time."""
    return "unknown" if paper.cpu_s is None else f"{paper.cpu_s / 3600:.2f}"
