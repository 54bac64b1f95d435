"""Judges a study's claims on a folder of results, for a page about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.claims import around, inputs, judge, page, statement, stored
from anabranch.results import cost, store
from anabranch.results.manifest import tables_of
from anabranch.results.worlds import WORLD
from anabranch.study import drawn, values
from anabranch.study import study as studies
from anabranch.why import stored as causes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.claims.around import World
    from anabranch.claims.judge import Judged
    from anabranch.claims.page import Paper
    from anabranch.claims.statement import Stated
    from anabranch.claims.stored import Runs
    from anabranch.study.models import Study


def study_of(results: Path) -> Path | None:
    """Return the folder of the study of some results; None if the study is not on this host.

    The folder from which the study was run is used; otherwise the study whose name is the beginning of the
    results' name.
    """
    found = store.manifest(results)
    for folder in dict.fromkeys(cell["folder"] for cell in found["cells"]):
        if (Path(folder) / values.FILE).exists():
            return Path(folder)
    if any("row" not in cell["labels"] for cell in found["cells"]):
        return None
    known = studies.folders()
    names = [name for name in known if found["name"] == name or found["name"].startswith(f"{name}-")]
    return known[max(names, key=len)] if names else None


def judged(results: Path) -> Paper | None:
    """Return the judged claims of the study of some results; None if the study states none.

    Raises
    ------
    InputError
        If the study or its claims have faults, or the folder has no results.
    """
    folder = study_of(results)
    if folder is None or not (folder / statement.FILE).exists():
        return None
    study = studies.read(folder)
    return paper(folder.name, folder, study, statement.read(folder, study), results)


def place_around(place: Path, assumption: str) -> Path:
    """Return the folder of the results at an assumption's other values, next to those of the study."""
    return place.with_name(f"{place.name}-around-{assumption}")


def _read_around(study: Study, place: Path) -> dict[World, Runs]:
    """Return the runs of the worlds around a study that were run."""
    result: dict[World, Runs] = {}
    every = around.worlds(study)
    for assumption in dict.fromkeys(world.assumption for world in every):
        folder = place_around(place, assumption)
        if (folder / "manifest.json").exists():
            own = {world.said: world for world in every if world.assumption == assumption}
            found = stored.read_around(folder, own)
            result |= {own[said]: runs for said, runs in found.items()}
    return result


def paper(name: str, folder: Path, study: Study, stated: Sequence[Stated], place: Path) -> Paper:
    """Return the claims of a study, judged on a folder of results."""
    made = store.made(place)
    runs = stored.read(place)
    verdicts = judge.judge(stated, runs)
    others = _read_around(study, place)
    spreads = [around.spread(one, runs, others) for one in stated]
    spent = [cost.read(place)]
    spent += [cost.read(place_around(place, one)) for one in {world.assumption for world in others}]
    return page.Paper(
        name=name,
        study=study,
        judged=verdicts,
        runs=runs.count(),
        trials=runs.trials(),
        lacking=_lacking(study, runs),
        seeds=runs.seeds(),
        code=made.code,
        notes=_notes(study, made.notes),
        cpu_s=None if None in spent else sum(one for one in spent if one is not None),
        spreads=spreads,
        worlds={world: found.trials() for world, found in others.items()},
        causes=causes.groups(place),
        missing=[world for world in around.worlds(study) if world not in others],
        changed=_changed(folder, study, place),
        found=statement.found(folder),
        inputs=inputs.of_results(folder, place),
        joint=_joint(study, stated, runs, others),
    )


def _joint(
    study: Study, stated: Sequence[Stated], own: Runs, others: Mapping[World, Runs]
) -> dict[str, list[Judged]]:
    """Return the verdicts in each joint world that was run."""
    result = {}
    for world, runs in others.items():
        name = world.assumption
        if name in study.joint:
            verdicts = judge.judge(stated, around.Mixed(own, runs, world))
            why = f"the claim was used to choose {name}"
            result[name] = judge.inferred(verdicts, study.chosen_by(name), why)
    return result


def _lacking(study: Study, runs: Runs) -> dict[str, int]:
    """Return the number of trials or worlds that the study requires, for the rows that have fewer."""
    # The labels of runs are in lower case.
    counts = {one.row.lower(): one.count for one in study.worlds}
    asked = {row: counts.get(row.lower(), study.trials) for row in study.rows()}
    fewest = runs.fewest()
    return {row: count for row, count in asked.items() if fewest.get(row.lower(), count) < count}


def _notes(study: Study, made: Mapping[str, str]) -> dict[str, str]:
    """Return the assumptions of the results, and the study's later assumptions that set no key."""
    later = {name: text for name, text in studies.sentences(study).items() if not study.assumptions[name].set}
    known = {**later, **made} if made else {}
    # They are in the study's order.
    return {name: known[name] for name in dict.fromkeys((*study.assumptions, *made)) if name in known}


def _changed(folder: Path, study: Study, place: Path) -> int:
    """Return how many cells of the results have settings that the study no longer has."""

    def key(labels: object, settings: object, tables: object = None) -> str:
        return json.dumps([labels, settings, tables], sort_keys=True, default=str)

    found = store.manifest(place)
    stored = [one for one in found["cells"] if "varied" not in one["labels"]]
    worlds = [int(one["labels"][WORLD]) for one in stored if WORLD in one["labels"]]
    grid = study.model_copy(update={"worlds": []})
    own = studies.sweep(folder, grid).cells if grid.parts else ()
    known = {key(dict(one.labels), {name: value for name, value, _ in one.settings}) for one in own}
    known |= {
        key(dict(one.labels), {name: value for name, value, _ in one.settings}, one.tables)
        for one in studies.drawn_points(folder, drawn.counted(study, max(worlds, default=0) + 1))
    }
    return sum(
        key(one["labels"], one["settings"], tables_of(found, one) if WORLD in one["labels"] else None)
        not in known
        for one in stored
    )
