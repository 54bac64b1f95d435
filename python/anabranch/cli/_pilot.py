"""`anabranch study pilot`: how many trials the claims of a paper need."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.cli import _claims, _console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.claims.pilot import Needed
    from anabranch.cli._sweep import How


def pilot(name: str, *, trials: int, seed: int, how: How, as_json: bool) -> None:
    """Run a study a few times with another seed, and print how many trials each claim needs."""
    from anabranch.claims import pilot as pilots
    from anabranch.claims import statement, stored
    from anabranch.cli import _sweep
    from anabranch.scenario._overrides import Override
    from anabranch.study import drawn
    from anabranch.study import study as studies

    folder = studies.find(name)
    study = studies.read(folder)
    claims = statement.read(folder, study)
    if study.worlds:
        # For a study with drawn worlds, another seed draws other worlds, and each world is a trial.
        study = drawn.with_seed(study, seed)
        what = studies.sweep(folder, study, worlds=trials)
    else:
        luck = Override(key="seed", value=seed, origin=f"--seed {seed}")
        what = studies.sweep(folder, study, trials=trials, sets=[luck])
    what = replace(_claims.needed(what, claims), name=f"{folder.name}-pilot")
    out = how.out or Path("results") / what.name
    if _sweep.make(what, replace(how, out=out)):
        own = study.worlds[0].count if study.worlds else study.trials
        _show(pilots.needed(claims, stored.read(out)), own, trials, as_json=as_json)


def _show(found: Sequence[Needed], own: int, trials: int, *, as_json: bool) -> None:
    """Print the claims, and how many the study's own number of trials decides."""
    from anabranch.claims.pilot import MOST

    if as_json:
        _console.out(json.dumps([asdict(one) for one in found], indent=2))
        return
    lines = [
        (one.claim, f"more than {MOST}" if one.trials is None else f"{one.trials}", one.outcome)
        for one in found
    ]
    _console.table(("claim", "trials needed", "by the pilot"), lines, left=1)
    enough = sum(one.trials is not None and one.trials <= own for one in found)
    _console.note(
        f"{own} trials, the study's own number, decide {enough} of {len(found)} claims in four cases of "
        f"five, if means and spreads are those of these {trials}; p-values are not adjusted"
    )
