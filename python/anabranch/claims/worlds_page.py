"""The page of a study's random worlds: a table of claims, a map, and the value of choosing a world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.claims.judge import ALPHA
from anabranch.study.joint_worlds import factors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.claims.judge import Judged
    from anabranch.claims.worlds import Effect, Found, Skill
    from anabranch.study.joint_worlds import World
    from anabranch.study.models import Study

#: The smallest share of a variance that the table of claims names.
_LEAST = 0.05
#: The outcome by means in a word.
_MEANS = {True: "holds", False: "fails", None: "unknown"}


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """The best world on another seed.

    Attributes
    ----------
    world
        The world.
    judged
        The verdicts there. The claims chose the world, so that none counts as reproduced.
    means
        By claim whether it holds there by means.
    seed, trials
        The seed, and the runs of each cell.
    """

    world: World
    judged: Sequence[Judged]
    means: Mapping[str, bool | None]
    seed: int
    trials: int


@dataclass(frozen=True, kw_only=True)
class Page:
    """Everything on the page.

    Attributes
    ----------
    name
        The study.
    found
        The claims in its worlds.
    seed, trials
        The seed of the draws, and the runs of each cell.
    code
        The build.
    cpu_s
        Seconds of processor time; None when unknown.
    confirmed
        The best world on another seed; None if it was not run.
    image
        The path of the drawn map, relative to the page; empty without a map.
    """

    name: str
    found: Found
    seed: int
    trials: int
    code: str
    cpu_s: float | None
    confirmed: Confirmed | None
    image: str = ""


def write(page: Page) -> str:
    """Return the page as Markdown."""
    lines = [
        *_head(page),
        *_claims(page),
        *_map(page),
        *_skill(page.found.study, page.found.skill),
        *_best(page),
        *_drawn(page),
    ]
    return "\n".join(lines) + "\n"


def _head(page: Page) -> Iterator[str]:
    """Yield the title and the description of the runs."""
    found = page.found
    counts = found.counts()
    hours = "unknown" if page.cpu_s is None else f"{page.cpu_s / 60:.0f}"
    yield f"# {page.name}: the claims in random worlds"
    yield ""
    yield f"This page is written by `anabranch study worlds {page.name} --docs FILE`."
    yield "A *world* has a value of every open assumption at once, each drawn from the list in `study.toml`."
    yield "The lists and their reasons were fixed before the runs."
    yield "A claim *holds* in a world by the means of its runs. **This is no test.**"
    yield "[The guide](guide/studies.md#random-worlds) explains the columns."
    yield ""
    yield "| worlds | runs of a cell | claims | hold in a world, mean | most | seed | CPU minutes | build |"
    yield "|--:|--:|--:|--:|--:|--:|--:|---|"
    cells = (
        str(len(counts)),
        str(page.trials),
        str(len(found.claims)),
        f"{sum(counts) / len(counts):.1f}",
        str(max(counts)),
        str(page.seed),
        hours,
        f"`{page.code}`",
    )
    yield f"| {' | '.join(cells)} |"


def _claims(page: Page) -> Iterator[str]:
    """Yield the table of claims."""
    found, best = page.found, page.found.best()
    place = found.worlds.index(best)
    yield from ("", "## Claims", "")
    head = ("claim", "says", "holds in", "decided by (share of the variance)", "in the best world")
    yield f"| {' | '.join((*head, 'there, on another seed'))} |"
    yield "|---|---|--:|---|---|---|"
    for one in found.claims:
        name = one.claim.id
        share = found.share(name)
        cells = (
            name,
            one.claim.says.replace("|", "\\|"),
            "no world says" if share is None else f"{100 * share:.0f} %",
            _effects(found.effects[name]),
            _MEANS[found.holds[name][place]],
            _verdict(page.confirmed, name),
        )
        yield f"| {' | '.join(cells)} |"


def _effects(effects: Sequence[Effect]) -> str:
    """Return the assumptions that decide a claim."""
    told = [f"{one.factor} {one.share:.2f}" for one in effects if one.decided and one.share >= _LEAST]
    return "; ".join(told) or "none is found"


def _verdict(confirmed: Confirmed | None, claim: str) -> str:
    """Return the verdict on a claim in the best world."""
    if confirmed is None:
        return "not run"
    found = next((one for one in confirmed.judged if one.stated.claim.id == claim), None)
    return "not run" if found is None else f"{_MEANS[confirmed.means[claim]]}: {found.verdict}"


def table(found: Found) -> tuple[list[str], list[str], dict[tuple[str, str], list[int]]]:
    """Return the map: the values of the two most important assumptions, and the counts of claims there.

    The counts are by the value of the first and of the second assumption.
    """
    first, second = (one.factor.partition(",")[0] for one in found.effects[""][:2])
    counts: dict[tuple[str, str], list[int]] = {}
    for world, count in zip(found.worlds, found.counts(), strict=True):
        counts.setdefault((world.levels[first], world.levels[second]), []).append(count)
    rows, columns = (list(dict.fromkeys(one.levels[key] for one in found.worlds)) for key in (first, second))
    return sorted(rows), sorted(columns), counts


def names(found: Found) -> tuple[str, str] | None:
    """Return the two assumptions of the map, the most important one first; None if there are fewer."""
    factors = [one.factor for one in found.effects[""]]
    return (factors[0], factors[1]) if len(factors) > 1 else None


def _map(page: Page) -> Iterator[str]:
    """Yield the map of worlds."""
    found = page.found
    effects = found.effects[""]
    yield from ("", "## Map", "")
    yield "The number of claims that hold depends most on these assumptions:"
    yield from ("", "| assumption | share of the variance |", "|---|--:|")
    yield from (f"| {one.factor} | {one.share:.2f} |" for one in effects if one.decided)
    if not any(one.decided for one in effects):
        yield "| none is found | |"
    both = names(found)
    if both is None:
        return
    rows, columns, counts = table(found)
    if page.image:
        yield ""
        yield f"![Mean number of claims that hold, by {' and '.join(both)}]({page.image})"
    yield ""
    yield f"Mean number of claims that hold, and in brackets the number of worlds; rows: {both[0]};"
    yield f"columns: {both[1]}:"
    yield from ("", f"| | {' | '.join(columns)} |", f"|---|{'--:|' * len(columns)}")
    for row in rows:
        cells = [_mean(counts.get((row, column), [])) for column in columns]
        yield f"| {row} | {' | '.join(cells)} |"


def _mean(counts: Sequence[int]) -> str:
    """Return a mean as text, with the number of worlds over which it is taken."""
    return f"{sum(counts) / len(counts):.1f} ({len(counts)})" if counts else ""


def _skill(study: Study, skill: Skill) -> Iterator[str]:
    """Yield what a choice by some claims says about another one."""
    yield from ("", "## What a chosen world is worth", "")
    yield "Each claim is left out in turn, and the others choose the world."
    yield "If the choice finds the paper's testbed, the claim holds there more often than in a random world."
    yield from (
        "",
        "| the others choose | the claim left out holds | in a random world | p |",
        "|---|--:|--:|--:|",
    )
    yield f"| the best world | {skill.best:.2f} | {skill.prior:.2f} | {skill.p_best:.2g} |"
    yield f"| the best tenth of the worlds | {skill.tenth:.2f} | {skill.prior:.2f} | {skill.p_tenth:.2g} |"
    if skill.apart is not None:
        first = "the same, by claims about other rows alone"
        yield f"| {first} | {skill.apart:.2f} | {skill.apart_prior:.2f} | {skill.p_apart:.2g} |"
    yield ""
    if skill.is_there:
        gain = skill.tenth - skill.prior
        if skill.apart is not None and skill.apart_prior is not None:
            gain = skill.apart - skill.apart_prior
        yield f"**There is skill** ({gain:+.2f}): some claims select worlds in which others hold too."
        yield "Claims that say the same thing twice have this effect as well."
    else:
        yield "**There is no skill**: a world chosen by some claims says nothing about the next claim."
        yield "The best world below is the best of many looks, and no evidence about the paper's testbed."
    last = (
        f"the last must be at most {ALPHA:g}"
        if skill.apart is not None
        else f"one must be below {ALPHA / 2:g}"
    )
    yield f"The p-values come from permutations; {last}."
    searched = [name for name, one in study.assumptions.items() if one.sweep and one.chosen_by]
    if searched:
        yield "An earlier search over the claims chose values of these assumptions."
        yield f"Some of the skill may be that search: {', '.join(searched)}."


def _best(page: Page) -> Iterator[str]:
    """Yield the best world and its confirmation."""
    found, best = page.found, page.found.best()
    yield from ("", "## The best world", "")
    count, all_of_them = max(found.counts()), len(found.claims)
    yield f"In world {best.number}, {count} of {all_of_them} claims hold by means."
    yield "All claims chose it, so none of them counts as reproduced there."
    contradicted = list(dict.fromkeys(text for name in best.settings for text in found.study.inferred(name)))
    if contradicted:
        yield f"It is *inferred from the testbed*, against the paper: {'; '.join(contradicted)}."
    if page.confirmed is not None:
        verdicts = [one.verdict for one in page.confirmed.judged]
        held, failed = verdicts.count("inferred"), verdicts.count("not reproduced")
        again = sum(one is True for one in page.confirmed.means.values())
        yield f"On seed {page.confirmed.seed}, with {page.confirmed.trials} trials, {again} hold by means."
        left = verdicts.count("undecided")
        yield f"By tests, {held} hold there (*inferred*), {failed} fail and {left} are undecided."
    yield from ("", "| assumption | value |", "|---|---|")
    yield from (f"| {name} | {value} |" for name, value in _values(best).items())


def _values(world: World) -> Mapping[str, str]:
    """Return the value of each assumption in a world."""
    from anabranch.study.assume import said

    return {
        name: said(world.settings[name]) if name in world.settings else f"{level} (the study's)"
        for name, level in world.levels.items()
    }


def _drawn(page: Page) -> Iterator[str]:
    """Yield the values that are drawn."""
    yield from ("", "## What is drawn", "")
    yield "Each value of an assumption is equally likely; a range counts as one value."
    yield "Assumptions in one row have the value at the same place of their lists."
    yield from ("", "| assumption | values, the study's own first | reason |", "|---|---|---|")
    study = page.found.study
    for head, members in factors(study).items():
        one = study.assumptions[head]
        yield f"| {', '.join(members)} | {'; '.join(_listed(one))} | {one.range} |"


def _listed(one: Any) -> Iterator[str]:  # noqa: ANN401 - an assumption
    """Yield the values of an assumption in words."""
    from anabranch.study import ranges
    from anabranch.study.assume import said

    yield said(one.set)
    for value in one.sweep:
        low, *high = (said(end) for end in ranges.ends(value))
        yield f"{low} to {high[0]}" if high else low


def plain(page: Page) -> dict[str, Any]:
    """Return the page's numbers, for JSON."""
    found, skill = page.found, page.found.skill
    return {
        "study": page.name,
        "seed": page.seed,
        "trials": page.trials,
        "worlds": [
            {
                "world": world.number,
                "values": dict(_values(world)),
                "holds": {claim: own[place] for claim, own in found.holds.items()},
            }
            for place, world in enumerate(found.worlds)
        ],
        "effects": {
            name or "number of claims": [
                {"assumption": one.factor, "share": one.share, "decided": one.decided} for one in own
            ]
            for name, own in found.effects.items()
        },
        "skill": {
            "best": skill.best,
            "tenth": skill.tenth,
            "apart": skill.apart,
            "apart_prior": skill.apart_prior,
            "p_apart": skill.p_apart,
            "prior": skill.prior,
            "p_best": skill.p_best,
            "p_tenth": skill.p_tenth,
            "is_there": skill.is_there,
        },
        "best": {
            "world": found.best().number,
            "verdicts": {}
            if page.confirmed is None
            else {one.stated.claim.id: one.verdict for one in page.confirmed.judged},
        },
    }
