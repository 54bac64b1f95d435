"""`anabranch study worlds`: the claims of a study in random worlds."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch import _extras, _files
from anabranch.cli import _console
from anabranch.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.claims.statement import Stated
    from anabranch.claims.worlds import Found
    from anabranch.claims.worlds_page import Confirmed, Page
    from anabranch.cli._sweep import How
    from anabranch.study.joint_worlds import World
    from anabranch.study.models import Study


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The random worlds to run.

    Attributes
    ----------
    worlds, trials, seed
        Their number, the runs of each cell, and the seed of the draws.
    confirm, confirm_seed
        The runs of each cell of the best world, 0 for none, and the seed of these runs.
    """

    worlds: int
    trials: int
    seed: int
    confirm: int
    confirm_seed: int


@dataclass(frozen=True, kw_only=True)
class _Named:
    """A study with its claims."""

    folder: Path
    study: Study
    claims: Sequence[Stated]


def worlds(name: str, wanted: Wanted, how: How, *, docs: Path | None, as_json: bool) -> None:
    """Run a study's random worlds, and print in how many of them each claim holds."""
    from anabranch.claims import statement, stored, worlds_page
    from anabranch.claims import worlds as found_in
    from anabranch.cli import _outputs, _sweep
    from anabranch.results import cost, store
    from anabranch.study import joint_worlds
    from anabranch.study import study as studies

    unwritable = None if docs is None else _outputs.unwritable(docs, "--docs")
    if unwritable is not None:
        raise InputError([unwritable])
    if docs is not None:
        _extras.figures()
    folder = studies.find(name)
    study = studies.read(folder)
    named = _Named(folder=folder, study=study, claims=statement.read(folder, study))
    if not study.parts or not joint_worlds.factors(study):
        hint = "an assumption has them in its `sweep`"
        raise InputError([Fault(message="the study has no assumption with other values", hint=hint)])
    drawn = [joint_worlds.world(study, seed=wanted.seed, number=one) for one in range(wanted.worlds)]
    out = how.out or Path("results") / f"{folder.name}-worlds"
    if not _run(named, drawn, out, how, trials=wanted.trials, seed=None):
        return
    with _console.progress(f"judging {folder.name}", unit="claims"):
        runs = stored.read_around(out, [one.label for one in drawn])
        found = found_in.judged(study, named.claims, drawn, runs)
    spent = [cost.read(out)]
    confirmed = None
    if wanted.confirm:
        place = out.with_name(f"{out.name}-best")
        confirmed = _confirmed(named, found, wanted, place, how)
        spent.append(cost.read(place))
    page = worlds_page.Page(
        name=folder.name,
        found=found,
        seed=wanted.seed,
        trials=wanted.trials,
        code=store.made(out).code,
        cpu_s=None if None in spent else sum(one for one in spent if one is not None),
        confirmed=confirmed,
    )
    if docs is not None:
        _files.write(docs, worlds_page.write(_with_map(page, docs)), "the page")
    _show(page, as_json=as_json)
    if docs is not None:
        _console.note(f"page: {docs}")
    _sweep.check_standstills(out)


def _with_map(page: Page, docs: Path) -> Page:
    """Write the drawn map into the folder `images` beside the page, and return the page with its name."""
    from anabranch.claims import worlds_page
    from anabranch.figures import worlds_map

    both = worlds_page.names(page.found)
    if both is None:
        return page
    place = docs.parent / "images" / f"{docs.stem}-map.svg"
    place.parent.mkdir(parents=True, exist_ok=True)
    _, _, counts = worlds_page.table(page.found)
    worlds_map.picture(counts, both, len(page.found.claims)).save(place)
    return replace(page, image=f"images/{place.name}")


def _run(
    named: _Named, drawn: Sequence[World], out: Path, how: How, *, trials: int, seed: int | None
) -> bool:
    """Make the missing runs of some worlds, and return whether all are made."""
    from anabranch.cli import _claims, _sweep
    from anabranch.study import joint_worlds

    what = joint_worlds.sweep_of(
        named.folder,
        named.study,
        drawn,
        name=out.name,
        wanted=_claims.cells_wanted(named.claims),
        trials=trials,
        seed=seed,
    )
    return _sweep.make(what, replace(how, out=out))


def _confirmed(named: _Named, found: Found, wanted: Wanted, place: Path, how: How) -> Confirmed | None:
    """Run the best world on another seed, and return the verdicts there."""
    from anabranch.claims import around, judge, stored
    from anabranch.claims.worlds_page import Confirmed

    best = found.best()
    if not _run(named, [best], place, how, trials=wanted.confirm, seed=wanted.confirm_seed):
        return None
    runs = stored.read_around(place, [best.label])[best.label]
    verdicts = judge.judge(named.claims, runs)
    tested = [one for one in verdicts if one.stated.claim.missing is None]
    why = "the claims chose this world"
    names = [one.stated.claim.id for one in tested]
    return Confirmed(
        world=best,
        judged=judge.inferred(tested, names, why),
        means={one.stated.claim.id: around.by_means(one.stated, runs) for one in tested},
        seed=wanted.confirm_seed,
        trials=wanted.confirm,
    )


def _show(page: Page, *, as_json: bool) -> None:
    """Print in how many worlds each claim holds, what decides it, and the skill."""
    from anabranch.claims import worlds_page

    if as_json:
        _console.out(json.dumps(worlds_page.plain(page), indent=2))
        return
    found = page.found
    lines = []
    for one in found.claims:
        share = found.share(one.claim.id)
        decided = "; ".join(f"{e.factor} {e.share:.2f}" for e in found.effects[one.claim.id] if e.decided)
        lines.append(
            (one.claim.id, "unknown" if share is None else f"{100 * share:.0f} %", decided, one.claim.says)
        )
    _console.table(("claim", "holds in", "decided by", "says"), lines, left=4)
    counts, skill = found.counts(), found.skill
    _console.note(
        f"{len(counts)} worlds: {sum(counts) / len(counts):.1f} of {len(found.claims)} claims hold in the "
        f"mean, at most {max(counts)} (world {found.best().number})"
    )
    told = "skill" if skill.is_there else "no skill"
    held, prior, p = skill.best, skill.prior, skill.p_best
    if skill.apart is not None and skill.apart_prior is not None and skill.p_apart is not None:
        held, prior, p = skill.apart, skill.apart_prior, skill.p_apart
    _console.note(
        f"a claim that is left out holds in {held:.2f} of the worlds that the others choose, and in "
        f"{prior:.2f} of all: {told} (p = {p:.2g})"
    )
