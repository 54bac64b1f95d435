"""`anabranch study claims`: verdicts on the claims of the papers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.cli import _console
from anabranch.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.claims.page import Paper
    from anabranch.claims.statement import Stated
    from anabranch.cli._sweep import How
    from anabranch.study.study import Study

ALL = "all"
_RESULTS = Path("results")


def claims(
    name: str,
    results: Path | None,
    *,
    runs: bool,
    trials: int | None,
    how: How,
    docs: Path | None,
    as_json: bool,
) -> None:
    """Judge the claims of one study or of all that state some."""
    from anabranch.claims import page, statement
    from anabranch.cli import _outputs
    from anabranch.study import study as studies

    faults = []
    if not runs:
        given = {"--trials": trials, "--workers": how.workers, "--dask": how.dask, "--shard": how.shard}
        faults = [
            Fault(message=f"nothing is run: `{option}`", where=option, hint="add --run")
            for option, value in given.items()
            if value is not None
        ]
    unwritable = None if docs is None else _outputs.unwritable(docs, "--docs")
    if faults or unwritable is not None:
        raise InputError([*faults, *([unwritable] if unwritable is not None else [])])
    if name == ALL:
        folders = {key: one for key, one in studies.folders().items() if (one / statement.FILE).exists()}
    else:
        folder = studies.find(name)
        folders = {folder.name: folder}
    found = {key: studies.read(folder) for key, folder in folders.items()}
    stated = _stated(folders, found)
    base = results or _RESULTS
    places = {key: base if results is not None and name != ALL else base / key for key in folders}
    if runs:
        for key, study in found.items():
            _run(folders[key], study, places[key], trials=trials, how=how)
    papers = []
    for key, claimed in stated.items():
        if name == ALL and not (places[key] / "manifest.json").exists():
            _console.note(f"{key}: no results in {places[key]}: `anabranch study run {key}` makes them")
        else:
            papers.append(_judged(key, folders[key], found[key], claimed, places[key]))
    if not papers:
        raise InputError([Fault(message=f"no results of any study in `{base}`", hint="add --run")])
    if docs is not None:
        docs.write_text(page.write(papers), encoding="utf-8")
    _show(papers, as_json=as_json)
    if docs is not None:
        _console.note(f"page: {docs}")


def _stated(folders: dict[str, Path], found: dict[str, Study]) -> dict[str, list[Stated]]:
    """Return the claims of each study; the faults of all files are told together."""
    from anabranch.claims import statement

    result: dict[str, list[Stated]] = {}
    faults: list[Fault] = []
    for key, study in found.items():
        try:
            result[key] = statement.read(folders[key], study)
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    return result


def _run(folder: Path, study: Study, place: Path, *, trials: int | None, how: How) -> None:
    """Run whatever is missing of a study."""
    from dataclasses import replace

    from anabranch.cli import _sweep
    from anabranch.study import study as studies

    what = studies.sweep(folder, study, trials=trials)
    _sweep.make(what, replace(how, out=place))


def _judged(name: str, folder: Path, study: Study, stated: Sequence[Stated], place: Path) -> Paper:
    """Return the claims of a study, judged on a folder of results."""
    from anabranch.claims import judge, page, stored
    from anabranch.results import cost, store

    made = store.made(place)
    runs = stored.read(place)
    with _console.progress(f"judging {name}", unit="claims"):
        judged = judge.judge(stated, runs)
    return page.Paper(
        name=name,
        study=study,
        judged=judged,
        runs=runs.count(),
        trials=runs.trials(),
        seeds=runs.seeds(),
        code=made.code,
        notes=made.notes,
        cpu_s=cost.read(place),
        changed=_changed(folder, study, place),
    )


def _changed(folder: Path, study: Study, place: Path) -> int:
    """Return how many cells of the results have other settings than the study as it stands."""
    from anabranch.results import store
    from anabranch.study import study as studies

    def key(labels: dict[str, object], settings: dict[str, object]) -> str:
        return json.dumps([labels, settings], sort_keys=True, default=str)

    own = studies.sweep(folder, study).cells
    known = {key(dict(one.labels), {name: value for name, value, _ in one.settings}) for one in own}
    stored = store.manifest(place)["cells"]
    return sum(
        key(one["labels"], one["settings"]) not in known for one in stored if "varied" not in one["labels"]
    )


def _show(papers: Sequence[Paper], *, as_json: bool) -> None:
    """Print the verdicts."""
    from anabranch.claims import page
    from anabranch.claims.judge import VERDICTS, counted

    for paper in papers:
        if paper.changed:
            _console.note(
                f"{paper.name}: {paper.changed} cells have other settings than the study as it stands"
            )
    if as_json:
        rows = [{"study": paper.name, **page.plain(one)} for paper in papers for one in paper.judged]
        _console.out(json.dumps(rows, indent=2))
        return
    lines = [
        (one.stated.claim.id, one.verdict, one.stated.claim.says, page.evidence(one))
        for paper in papers
        for one in paper.judged
    ]
    _console.table(("claim", "verdict", "says", "rests on"), lines, left=4)
    for paper in papers:
        counts = counted(paper.judged)
        told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
        _console.note(f"{paper.name}: {told} ({paper.runs} runs)")
