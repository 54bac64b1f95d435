"""A study's `claims.toml`: every claim of its paper in a form that results can refute."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from anabranch.claims import cells, measure
from anabranch.errors import Fault, InputError
from anabranch.scenario import _faults, load, shipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from anabranch.claims.cells import Cell, Choice
    from anabranch.claims.measure import Metric
    from anabranch.scenario._lines import KeyPath
    from anabranch.study.models import Study

FILE = "claims.toml"
#: The measures of `better`, `worse` and `alike`: the papers' two first measures, in their order.
VIEWER = ("picture_discards", "buffer_underflows")
#: Further metrics for these relations, because a player counts no underflow while its input is blocked. The
#: number is the smallest difference that matters if the file sets none: 1 s, the film that VLC buffers before
#: it resumes.
STILL = {"still_s": 1.0, "unplayed_s": 1.0}

#: The relations between two cells' means.
_Between = Literal["less", "more", "equal"]
#: The relations that use all metrics of `VIEWER` at once.
_Whole = Literal["better", "worse", "alike"]
#: The relations with separate bounds: on a mean, on a quotient of two means, and on a share of runs.
_Bounded = Literal["between", "ratio", "share"]
Test = Literal["less", "more", "equal", "better", "worse", "alike", "between", "ratio", "share"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Matters(_Table):
    """The smallest difference of a metric that matters, and the reason for it."""

    by: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    why: Annotated[str, Field(min_length=1)]


class Part(_Table):
    """One comparison of a claim.

    Attributes
    ----------
    test
        The claimed relation. `less`, `more` or `equal`: a metric of the cells `of` compared with the cells
        `than` or a number, by at least what matters. `better`, `worse` or `alike`: discards and underflows.
        `between`: a mean within two bounds. `ratio`: a quotient of means within two bounds. `share`: a share
        of runs within two bounds.
    metric
        A column, or arithmetic over columns.
    of, than
        The cells: keys of the grid and their values. A list stands for each of its values. `than` has only
        the keys that differ from `of`.
    against
        Of `ratio`: the keys that differ in two more cells. The quotient is divided by theirs.
    least
        Of `share`: a run counts if its value is at least this. With `than`, the value is the difference from
        the run of the same number.
    within
        The two bounds.
    by, why
        These replace the file's smallest difference that matters, and give the reason for it or for the
        bounds.
    """

    test: Test
    metric: str | None = None
    of: dict[str, Any] = {}
    than: dict[str, Any] | float | None = None
    against: dict[str, Any] | None = None
    least: Annotated[float, Field(allow_inf_nan=False)] | None = None
    within: tuple[float, float] | None = None
    by: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    why: str | None = None


class Claim(_Table):
    """A claim as it is written in the file.

    Attributes
    ----------
    id, place, says
        Its name, its place in the paper, and a short form of it.
    at
        The part of `of` that all parts share.
    parts
        The comparisons, all of which must hold.
    at_least
        The number of comparisons that must hold, if the paper does not require all.
    missing
        Instead of parts: the missing measurement, without which the claim cannot be tested.
    inferred
        The setting of the study that was taken from this claim, which therefore cannot count as reproduced.
    """

    id: Annotated[str, Field(min_length=1)]
    place: Annotated[str, Field(min_length=1)]
    says: Annotated[str, Field(min_length=1)]
    at: dict[str, Any] = {}
    parts: list[Part] = []
    at_least: Annotated[int, Field(ge=1)] | None = None
    missing: str | None = None
    inferred: str | None = None


class Claims(_Table):
    """The file.

    Attributes
    ----------
    found
        Other findings, in Markdown: the page of verdicts has them unchanged.
    matters
        The smallest differences that matter, by metric.
    claims
        The claims.
    """

    found: str = ""
    matters: dict[str, Matters] = {}
    claims: Annotated[list[Claim], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A part of a claim with its lists expanded: one cell compared with one cell or number.

    Attributes
    ----------
    test
        As in `Part`.
    metric
        None if the test uses all metrics of `VIEWER` and `STILL`.
    of, than
        The cells. `than` may be a number, or None if there are only bounds.
    against
        The cells of the quotient by which that of `of` and `than` is divided.
    least
        The value from which a run counts for a `share`.
    within
        The two bounds of `between`, `ratio` and `share`.
    by
        The smallest difference that matters, by metric's text.
    """

    test: Test
    metric: Metric | None
    of: Cell
    than: Cell | float | None
    within: tuple[float, float] | None
    by: Mapping[str, float]
    against: tuple[Cell, Cell] | None = None
    least: float | None = None

    def sides(self) -> list[Cell]:
        """Return its cells."""
        found = (self.of, self.than, *(self.against or ()))
        return [side for side in found if isinstance(side, cells.Cell)]


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A claim that can be judged.

    Attributes
    ----------
    claim
        The claim as it is written in the file.
    comparisons
        The comparisons that must hold; empty if a measurement is missing.
    needed
        How many of them have to hold.
    """

    claim: Claim
    comparisons: tuple[Comparison, ...]

    @property
    def needed(self) -> int:
        """Return how many comparisons have to hold."""
        return self.claim.at_least or len(self.comparisons)

    def cells(self) -> list[Cell]:
        """Return the cells that it needs, each once."""
        return list(dict.fromkeys(cell for one in self.comparisons for cell in one.sides()))


def found(folder: Path) -> str:
    """Return the other findings of a study's list of claims."""
    path = folder / FILE
    raw, _ = load.read(path, shipped.display(path), what="list of claims")
    return str(raw.get("found", "")).strip()


def read(folder: Path, study: Study) -> list[Stated]:
    """Return the claims of a study's paper.

    Parameters
    ----------
    folder, study
        The study whose cells the claims name.

    Raises
    ------
    InputError
        With every fault of the file.
    """
    path = folder / FILE
    where = shipped.display(path)
    if not path.exists():
        message = f"the study states no claims: `{where}` is missing"
        raise InputError([Fault(message=message, hint="docs/guide/studies.md shows how claims are stated")])
    raw, lines = load.read(path, where, what="list of claims")
    source = _faults.Source(where=where, raw=raw, lines=lines, origins={})
    try:
        whole = Claims.model_validate(raw)
    except ValidationError as error:
        found = (_faults.from_pydantic(source, one, valid=_keys) for one in error.errors(include_url=False))
        faults = {fault for fault in found if fault is not None}
        raise InputError(sorted(faults, key=source.order)) from None
    reader = _Reader(source, whole, cells.of_study(folder, study))
    result = [reader.claim(place, claim) for place, claim in enumerate(whole.claims)]
    reader.check_names()
    if reader.faults:
        raise InputError(sorted(dict.fromkeys(reader.faults), key=source.order))
    return result


def _keys(path: KeyPath) -> list[str]:
    """Return the keys of the table of the file that a path is in."""
    names = [step for step in path[:-1] if isinstance(step, str)]
    model: type[_Table] = Claims
    if names[:1] == ["matters"]:
        model = Matters
    elif names[:2] == ["claims", "parts"]:
        model = Part
    elif names[:1] == ["claims"]:
        model = Claim
    return list(model.model_fields)


class _Reader:
    """Checks a valid file against the study, and collects faults."""

    def __init__(self, source: _faults.Source, whole: Claims, grid: list[Cell]) -> None:
        self.faults: list[Fault] = []
        self._source = source
        self._whole = whole
        self._grid = grid

    def claim(self, place: int, claim: Claim) -> Stated:
        """Return a claim with its parts written out."""
        path: KeyPath = ("claims", place)
        if bool(claim.parts) == (claim.missing is not None):
            message = "expected either `parts`, or `missing` with the measurement that it would take"
            self._fault(path, message)
        found = [
            comparison
            for number, part in enumerate(claim.parts)
            for comparison in self._part((*path, "parts", number), claim, part)
        ]
        if claim.at_least is not None and claim.at_least > len(found):
            self._fault((*path, "at_least"), f"there are only {len(found)} comparisons: {claim.at_least}")
        return Stated(claim=claim, comparisons=tuple(found))

    def check_names(self) -> None:
        """Report names that occur twice, and metrics that no claim uses."""
        seen: set[str] = set()
        for place, claim in enumerate(self._whole.claims):
            if claim.id in seen:
                self._fault(("claims", place, "id"), f"given twice: `{claim.id}`")
            seen.add(claim.id)
        used = {part.metric for claim in self._whole.claims for part in claim.parts} | {*VIEWER, *STILL}
        for name in self._whole.matters:
            if name not in used:
                self._fault(("matters", name), f"no part has this metric: `{name}`", names=used)

    def _fault(self, path: KeyPath, message: str, *, hint: str = "", names: object = None) -> None:
        """Note a fault."""
        from anabranch.errors import did_you_mean

        if isinstance(names, set):
            hint = did_you_mean(str(path[-1]), {name for name in names if isinstance(name, str)})
        self.faults.append(self._source.fault(path, message, hint=hint))

    def _part(self, path: KeyPath, claim: Claim, part: Part) -> Iterator[Comparison]:
        """Yield the comparisons of a part."""
        metric = self._metric(path, part)
        bounds = self._bounds(path, part)
        if isinstance(metric, str) or not bounds:
            return
        by = self._matters(path, part)
        if by is None:
            return
        for left in cells.spread({**claim.at, **part.of}):
            of = self._cell(path, "of", left)
            others = [part.than] if not isinstance(part.than, dict) else self._others(path, left, part.than)
            for other in others:
                if of is None or (isinstance(part.than, dict) and other is None):
                    continue
                against = self._against(path, part, left)
                if part.against is not None and against is None:
                    continue
                found = Comparison(
                    test=part.test,
                    metric=metric,
                    of=of,
                    than=other,
                    within=part.within,
                    by=by,
                    against=against,
                    least=part.least,
                )
                self._check_columns(path, metric, found.sides())
                yield found

    def _against(self, path: KeyPath, part: Part, left: Choice) -> tuple[Cell, Cell] | None:
        """Return the cells of the quotient to divide by."""
        if part.against is None or not isinstance(part.than, dict):
            return None
        above = self._cell(path, "against", {**left, **part.against})
        below = self._cell(path, "against", {**left, **part.than, **part.against})
        return None if above is None or below is None else (above, below)

    def _others(self, path: KeyPath, left: Choice, than: Mapping[str, Any]) -> list[Cell | None]:
        """Return the cells to compare with."""
        return [self._cell(path, "than", {**left, **other}) for other in cells.spread(than)]

    def _cell(self, path: KeyPath, side: str, choice: Choice) -> Cell | None:
        """Return the cell that a choice names."""
        found = cells.pick(self._grid, choice)
        if isinstance(found, cells.Cell):
            return found
        key, message, hint = found
        self._fault(self._there(path, side, key), message, hint=hint)
        return None

    def _there(self, path: KeyPath, side: str, key: str) -> KeyPath:
        """Return the place of a key of a choice: in the part, or in the table that all parts share."""
        for place in ((*path, side, key), (*path, "of", key), (*path[:2], "at", key)):
            if key and place in self._source.lines:
                return place
        return (*path, side) if (*path, side) in self._source.lines else path

    def _metric(self, path: KeyPath, part: Part) -> Metric | str | None:
        """Return a part's metric; a text when it is at fault."""
        if part.test in get_args(_Whole):
            if part.metric is not None:
                self._fault((*path, "metric"), f"`{part.test}` looks at discards and underflows together")
                return part.metric
            return None
        if part.metric is None:
            self._fault(path, "missing key: `metric`", hint=f"`{part.test}` needs a metric")
            return ""
        found = measure.parse(part.metric)
        if isinstance(found, str):
            self._fault((*path, "metric"), f"not a metric: `{part.metric}`", hint=found)
        return found

    def _bounds(self, path: KeyPath, part: Part) -> bool:
        """Return whether a part has exactly the values that its test needs."""
        before = len(self.faults)
        bounded = part.test in get_args(_Bounded)
        if bounded != (part.within is not None):
            self._fault(
                path if part.within is None else (*path, "within"),
                "missing key: `within`" if bounded else f"`{part.test}` has no bounds of its own",
                hint="`between`, `ratio` and `share` have `within = [least, most]`",
            )
        if part.within is not None and not _ascending(part.within):
            self._fault((*path, "within"), "expected the lower bound first, and one that is finite")
        needs = (dict,) if part.test in (*get_args(_Whole), "ratio") else (dict, float)
        if part.test == "between" and part.than is not None:
            self._fault((*path, "than"), "`between` compares with its bounds alone", hint="`ratio` has both")
        elif part.test == "share" and isinstance(part.than, float):
            self._fault(
                (*path, "than"), "expected cells", hint="`least` is the value from which a run counts"
            )
        elif part.test not in ("between", "share") and not isinstance(part.than, needs):
            kinds = "cells" if needs == (dict,) else "cells or a number"
            self._fault(path if part.than is None else (*path, "than"), f"expected `than`, with {kinds}")
        for key, test in (("least", "share"), ("against", "ratio")):
            if getattr(part, key) is not None and part.test != test:
                self._fault((*path, key), f"only `{test}` has `{key}`")
        if part.test == "share" and part.least is None:
            self._fault(path, "missing key: `least`", hint="the value from which a run counts")
        if part.against is not None and any(isinstance(one, list) for one in part.against.values()):
            self._fault(
                (*path, "against"), "expected one value for each key", hint="a list makes several claims"
            )
        if bounded and part.why is None:
            self._fault(path, "missing key: `why`", hint="bounds have a reason")
        return len(self.faults) == before

    def _matters(self, path: KeyPath, part: Part) -> dict[str, float] | None:
        """Return the smallest differences that matter to a part; None if the file has none."""
        known = self._whole.matters
        if part.test in get_args(_Bounded):
            if part.by is not None:
                self._fault((*path, "by"), f"`{part.test}` has bounds instead")
            return {}
        if part.by is not None:
            if part.why is None or part.metric is None:
                self._fault((*path, "by"), "missing key: `why`" if part.metric else "say it under [matters]")
                return None
            return {part.metric: part.by}
        wanted = [part.metric] if part.metric is not None else list(VIEWER)
        lacking = [name for name in wanted if name not in known]
        for name in lacking:
            hint = f'add `by` and `why` here, or a table [matters."{name}"]'
            self._fault(path, f"it is not said by how much `{name}` must differ to matter", hint=hint)
        if lacking:
            return None
        still = {name: known[name].by if name in known else by for name, by in STILL.items()}
        return {name: known[name].by for name in wanted} | ({} if part.metric is not None else still)

    def _check_columns(self, path: KeyPath, metric: Metric | None, found: list[Cell]) -> None:
        """Find columns that the runs of some cell do not have."""
        for cell in found if metric is not None else ():
            for name, hint in measure.unknown(metric, cell.paths) if metric is not None else ():
                self._fault((*path, "metric"), f"no such column in row {cell.name}: `{name}`", hint=hint)


def _ascending(within: tuple[float, float]) -> bool:
    """Return whether two bounds are in order and at least one of them is finite."""
    return all(one < other for one, other in pairwise(within)) and any(map(math.isfinite, within))
