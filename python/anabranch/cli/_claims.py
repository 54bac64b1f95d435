"""`anabranch study claims`: verdicts on the claims of the papers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch.cli import _console
from anabranch.errors import Fault, InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anabranch.claims.page import Paper
    from anabranch.claims.statement import Stated
    from anabranch.cli._sweep import How
    from anabranch.study.models import Study
    from anabranch.study.sweep import Sweep

ALL = "all"
_RESULTS = Path("results")
#: Default number of runs of each cell with a changed assumption; too few for a statistical test. Joint
#: assumptions have the study's number, because they are tested.
_AROUND_TRIALS = 3


@dataclass(frozen=True, kw_only=True)
class Around:
    """The assumptions whose other values are run.

    Attributes
    ----------
    names
        The assumptions and joint assumptions; `all` is every one that has other values.
    trials
        Runs of each cell; None is the default.
    """

    names: Sequence[str] = ()
    trials: int | None = None

    def of(self, study: Study) -> list[str]:
        """Return the names of the selected assumptions of a study."""
        from anabranch.study import variants

        return [name for name in variants.names(study) if ALL in self.names or name in self.names]


def claims(
    name: str,
    results: Path | None,
    *,
    runs: bool,
    trials: int | None,
    around: Around,
    how: How,
    docs: Path | None,
    only: Sequence[str] = (),
    as_json: bool,
    worlds: int | None = None,
    changed: bool = False,
) -> None:
    """Judge the claims of one study or of all that state some."""
    from anabranch.claims import amend, gather, statement
    from anabranch.cli import _sweep
    from anabranch.study import study as studies

    _refuse(runs=runs, trials=trials, worlds=worlds, around=around, how=how, docs=docs, only=only)
    _check_page(docs, changed=changed)
    if name == ALL:
        folders = {key: one for key, one in studies.folders().items() if (one / statement.FILE).exists()}
    else:
        folder = studies.find(name)
        folders = {folder.name: folder}
    found = {key: studies.read(folder) for key, folder in folders.items()}
    if changed and docs is not None:
        found = _outdated(docs, folders, found)
        if not found:
            _console.note(f"every paper of {docs} has this build and these inputs")
            return
    stated = _chosen(_stated(folders, found), only)
    folders = {key: folders[key] for key in stated}
    found = {key: found[key] for key in stated}
    _check_around(around, found)
    base = results or _RESULTS
    places = {
        key: base if results is not None and name != ALL else base / _place(key, stated[key], only=bool(only))
        for key in folders
    }
    if runs:
        for key, study in found.items():
            wanted = stated[key] if only else None
            _run(folders[key], study, places[key], trials=trials, worlds=worlds, how=how, stated=wanted)
            for assumption in around.of(study):
                _run_around(folders[key], study, stated[key], assumption, places[key], around, how)
    papers = []
    for key, claimed in stated.items():
        if name == ALL and not (places[key] / "manifest.json").exists():
            _console.note(f"{key}: no results in {places[key]}: `anabranch study run {key}` makes them")
        else:
            _sweep.left_out(places[key], shown_by=f"anabranch results {places[key]} --earlier")
            with _console.progress(f"judging {key}", unit="claims"):
                papers.append(gather.paper(key, folders[key], found[key], claimed, places[key]))
    if not papers:
        raise InputError([Fault(message=f"no results of any study in `{base}`", hint="add --run")])
    if docs is not None:
        before = docs.read_text(encoding="utf-8") if docs.exists() else ""
        text = amend.recounted(amend.amend(before, papers)) if only else amend.renewed(before, papers)
        _files.write(docs, text, "the page")
    _show(papers, as_json=as_json)
    if docs is not None:
        _console.note(f"page: {docs}")


def _check_page(docs: Path | None, *, changed: bool) -> None:
    """Refuse to select what changed since a page that is not given."""
    if changed and docs is None:
        message = "nothing to compare with: `--changed`"
        raise InputError([Fault(message=message, where="--changed", hint="add --docs")])


def _check_around(around: Around, found: dict[str, Study]) -> None:
    """Refuse an assumption that no study has."""
    from anabranch.claims import around as arounds

    if not any(around.of(study) for study in found.values()) and around.names:
        message = f"no such assumption with other values: `{around.names[0]}`"
        known = {one.assumption for study in found.values() for one in arounds.worlds(study)}
        raise InputError(
            [Fault(message=message, where="--around", hint=did_you_mean(around.names[0], known))]
        )


def _outdated(docs: Path, folders: dict[str, Path], found: dict[str, Study]) -> dict[str, Study]:
    """Return the studies whose section of a page has another build or other inputs."""
    from anabranch.claims import inputs

    text = docs.read_text(encoding="utf-8") if docs.exists() else ""
    return {key: one for key, one in found.items() if not inputs.is_current(text, key, folders[key], one)}


def _stated(folders: dict[str, Path], found: dict[str, Study]) -> dict[str, list[Stated]]:
    """Return the claims of each study; the faults of all files are raised together."""
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


def _refuse(
    *,
    runs: bool,
    trials: int | None,
    worlds: int | None,
    around: Around,
    how: How,
    docs: Path | None,
    only: Sequence[str],
) -> None:
    """Refuse options that have no effect, and a page that cannot be written or is not there."""
    from anabranch.cli import _outputs

    faults = []
    if not runs:
        given = {
            "--trials": trials,
            "--worlds": worlds,
            "--around": around.names or None,
            "--around-trials": around.trials,
            "--workers": how.workers,
            "--dask": how.dask,
            "--shard": how.shard,
        }
        faults = [
            Fault(message=f"nothing is run: `{option}`", where=option, hint="add --run")
            for option, value in given.items()
            if value is not None
        ]
    unwritable = None if docs is None else _outputs.unwritable(docs, "--docs")
    if only and docs is not None and not docs.exists():
        message = f"not a page of claims that could be judged again: `{docs}`"
        faults.append(Fault(message=message, where="--docs", hint="without --only the page is written"))
    if faults or unwritable is not None:
        raise InputError([*faults, *([unwritable] if unwritable is not None else [])])


def _chosen(stated: dict[str, list[Stated]], only: Sequence[str]) -> dict[str, list[Stated]]:
    """Return the claims that are to be judged, of the studies that have any of them."""
    if not only:
        return stated
    known = {one.claim.id: None for claims in stated.values() for one in claims}
    faults = [
        Fault(message=f"no such claim: `{one}`", where=f"--only {one}", hint=did_you_mean(one, known))
        for one in only
        if one not in known
    ]
    if faults:
        raise InputError(faults)
    kept = {key: [one for one in claims if one.claim.id in only] for key, claims in stated.items()}
    return {key: claims for key, claims in kept.items() if claims}


def _place(study: str, stated: Sequence[Stated], *, only: bool) -> str:
    """Return the name of the folder of a study's results.

    If claims were selected, it contains their numbers.
    """
    if not only:
        return study
    return f"{study}-only-{'+'.join(one.claim.id.rpartition('.')[2] for one in stated)}"


def needed(what: Sweep, stated: Sequence[Stated]) -> Sweep:
    """Return a sweep with only those cells that the claims need."""
    from dataclasses import replace

    from anabranch.claims import cells

    wanted = _labels(stated)
    return replace(what, cells=tuple(one for one in what.cells if _text(cells.stated(one.labels)) in wanted))


def cells_wanted(stated: Sequence[Stated]) -> Callable[[Mapping[str, Any]], bool]:
    """Return whether claims need a cell, as a function of the cell's labels."""
    wanted = _labels(stated)
    return lambda labels: _text(dict(labels)) in wanted


def _labels(stated: Sequence[Stated]) -> set[str]:
    """Return the labels of the cells that claims need, as text."""
    return {_text(dict(cell.labels)) for one in stated for cell in one.cells()}


def _text(labels: dict[str, Any]) -> str:
    """Return labels as text. Equal labels have equal texts."""
    return json.dumps(labels, sort_keys=True)


def _run(
    folder: Path,
    study: Study,
    place: Path,
    *,
    trials: int | None,
    worlds: int | None,
    how: How,
    stated: Sequence[Stated] | None = None,
) -> None:
    """Make the missing runs of a study, or of the cells that some claims need."""
    from dataclasses import replace

    from anabranch.cli import _sweep
    from anabranch.study import study as studies

    what = studies.sweep(folder, study, trials=trials, worlds=worlds)
    if stated is not None:
        what = needed(what, stated)
    _sweep.make(what, replace(how, out=place))


def _run_around(
    folder: Path,
    study: Study,
    stated: Sequence[Stated],
    assumption: str,
    place: Path,
    around: Around,
    how: How,
) -> None:
    """Make the missing runs of the cells that claims need, at the other values of an assumption."""
    from dataclasses import replace

    from anabranch.claims import gather
    from anabranch.cli import _sweep
    from anabranch.study import study as studies

    what = studies.around(
        folder,
        study,
        assumption,
        cells_of=cells_wanted(stated),
        trials=around.trials or (study.trials if assumption in study.joint else _AROUND_TRIALS),
    )
    if what.cells:
        _sweep.make(what, replace(how, out=gather.place_around(place, assumption)))


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
        rows = [
            {
                "study": paper.name,
                **page.plain(one, spread, {name: own[place] for name, own in paper.joint.items()}),
            }
            for paper in papers
            for place, (one, spread) in enumerate(zip(paper.judged, paper.spreads, strict=True))
        ]
        _console.out(json.dumps(rows, indent=2))
        return
    lines = [
        (one.stated.claim.id, one.verdict, spread.where, one.stated.claim.says, page.evidence(one))
        for paper in papers
        for one, spread in zip(paper.judged, paper.spreads, strict=True)
    ]
    _console.table(("claim", "verdict", "by means", "says", "rests on"), lines, left=5)
    for paper in papers:
        counts = counted(paper.judged)
        told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
        _console.note(f"{paper.name}: {told} ({paper.runs} runs)")
