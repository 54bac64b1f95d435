"""Runs an advice in rounds. Its results go to a folder, from which a repeated call continues."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from anabranch.advice import candidates as choosing
from anabranch.advice import outages as rules
from anabranch.advice import spending
from anabranch.advice.evidence import Evidence
from anabranch.advice.read import Advice, judged
from anabranch.comparison import price
from anabranch.errors import Fault, InputError
from anabranch.metrics import score
from anabranch.results import judging
from anabranch.study.sweep import Job, Sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anabranch.advice.candidates import Candidate
    from anabranch.media.films import Film
    from anabranch.results.store import Row, Store
    from anabranch.scenario._overrides import Override
    from anabranch.scenario.load import Loaded

#: The trials per candidate of an exhaustive comparison, and the most that a candidate gets here.
TRIALS = 30
#: At most the budget divided by this is spent on the scenario's own settings.
_OWN_SHARE = 8
#: The smallest budget of which a part goes to the scenario's own settings.
_OWN_FROM = 80
#: The default budget, as a share of the runs of an exhaustive comparison.
SHARE = 0.2


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The question that an advice answers.

    Attributes
    ----------
    candidates
        The candidates to rank.
    sweep
        The candidates' cells, with the most trials of each.
    budget
        The most runs.
    score
        How a run becomes a number.
    terms
        Prices, caps and weights of the scenario's paths.
    own
        The candidates with the scenario's own scheduler and congestion control, by their paths.
    """

    candidates: tuple[Candidate, ...]
    sweep: Sweep
    budget: int
    score: score.Score
    terms: price.Terms = price.NONE
    own: Mapping[frozenset[str], int] = field(default_factory=dict)

    @property
    def least(self) -> int:
        """The smallest budget that gives a recommendation if the leader stays and the trials decide.

        A verdict needs `judging.FEWEST` trials on both sides. Verdicts concern the leader, its closest rival
        and the best of a mainline kernel, the best with one path more or less, and the kernel's defaults over
        these paths. If rules for outages are ranked, three more candidates are compared. A candidate that
        takes the lead later may lack trials.
        """
        paths = {name for one in self.candidates for name in one.paths}
        has_rules = any(one.outages.keys for one in self.candidates)
        compared = 4 + 2 * len(paths) + (3 if has_rules else 0)
        # With three paths or more, a choice other than the leader has neighbours that the leader lacks.
        compared += len(paths) if len(paths) > 2 else 0
        return len(self.candidates) + (judging.FEWEST - 1) * min(compared, len(self.candidates))

    @property
    def warning(self) -> str:
        """The reason why so few runs may give no recommendation, in words; empty for enough runs."""
        fewest = judging.FEWEST
        needed = f"a verdict needs at least {fewest} trials of the leader and of each closest rival"
        if self.sweep.trials < fewest:
            return f"{needed}: --trials {self.sweep.trials} cannot give a recommendation"
        if self.budget < self.least:
            least = f"{self.least:,} are usually enough"
            return f"{needed}: {self.budget:,} runs may give no recommendation, {least}"
        return ""

    @property
    def exhaustive(self) -> int:
        """The number of runs if every candidate gets every trial."""
        return len(self.candidates) * self.sweep.trials


def advise(
    scenario: str | Path | Mapping[str, Any],
    *,
    controllers: Sequence[str] = choosing.CONTROLLERS,
    schedulers: Sequence[str] = choosing.SCHEDULERS,
    paths: Sequence[str] = (),
    outages: Sequence[str] = (),
    trials: int = TRIALS,
    budget: int | None = None,
    seed: int | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the name that the command line has
    out: str | Path | None = None,
    workers: int | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> Advice:
    """Find the best paths, path scheduler and congestion control for a scenario.

    Parameters
    ----------
    scenario
        Path of a TOML file, name of a shipped scenario, or the tables themselves.
    controllers, schedulers
        Congestion controls and path schedulers to choose from, by name, short form or place.
    paths
        The scenario's paths to choose from; empty is all.
    outages
        Any of `kernel`, `cap` and `dsack`. Empty means all if a path may go down, and otherwise `kernel`.
    trials
        The most trials of a candidate, at least 2. An exhaustive comparison would run this many of each.
    budget
        The most runs, at least one per candidate. None means a fifth of all trials, at least `Asked.least`.
    seed, set
        As of `anabranch.run`, for every candidate.
    out
        The folder for the results, from which a repeated call continues. None stores nothing.
    workers
        The number of processes; None for one per core.
    progress
        Called with the number of runs done, and the largest possible number.

    Raises
    ------
    ScenarioError
        With every fault of the scenario, and of each scheduler and congestion control that it does not take.
    InputError
        When there are no such paths or rules, the budget is too small, or the folder holds something else.

    Examples
    --------
    >>> import anabranch
    >>> found = anabranch.advise("two-paths", controllers=["cubic"], trials=10)  # doctest: +SKIP
    >>> print(found.sentences[0])  # doctest: +SKIP
    """
    from anabranch.scenario._overrides import by_name
    from anabranch.scenario.load import load

    overrides = by_name(seed=seed, scheduler=None, congestion=None, set=set)
    what = asked(
        load(scenario, overrides),
        scenario,
        overrides,
        controllers=controllers,
        schedulers=schedulers,
        paths=paths,
        outages=outages,
        trials=trials,
        budget=budget,
    )
    with TemporaryDirectory() as fallback:
        return run(what, Path(out or fallback), workers=workers or os.cpu_count() or 1, progress=progress)


def asked(
    loaded: Loaded,
    scenario: str | Path | Mapping[str, Any],
    overrides: Sequence[Override | Fault],
    *,
    controllers: Sequence[str],
    schedulers: Sequence[str],
    paths: Sequence[str],
    trials: int,
    budget: int | None,
    outages: Sequence[str] = (),
    film: Callable[[Loaded], Film | None] | None = None,
) -> Asked:
    """Return the question that the arguments describe.

    Parameters
    ----------
    loaded
        The scenario, validated.
    scenario, overrides
        The source of the scenario, without a fault.
    controllers, schedulers, paths, trials, budget, outages
        As of `advise`.
    film
        A function that makes or finds the scenario's film after validation. None prints nothing.

    Raises
    ------
    ScenarioError, InputError
        In the same cases as `advise`.
    """
    from anabranch.comparison.make import tables_of
    from anabranch.scenario.streamed import film_of

    raw, folder = tables_of(scenario, overrides)
    found = _combined(raw, folder, loaded, controllers, schedulers, paths, outages)
    runs = len(found) if budget is None else budget
    faults = []
    if trials < 2:
        faults.append(
            Fault(message="a single trial has no interval", where=f"--trials {trials}", hint="2 or more")
        )
    if runs < len(found):
        message = f"{runs} runs for {len(found)} candidates"
        hint = f"at least {len(found)}, or fewer candidates (--controllers, --schedulers, --paths)"
        faults.append(Fault(message=message, where=f"--budget {runs}", hint=hint))
    if faults:
        raise InputError(faults)
    application = loaded.scenario.application
    streamed = (film or film_of)(loaded)
    is_priced = application.kind == "adaptive" and price.terms(raw).prices
    heights = price.heights_of(streamed) if is_priced else ()
    question = Asked(
        candidates=tuple(found),
        sweep=Sweep(
            name=f"{loaded.scenario.name}-advice",
            cells=choosing.cells(found, raw, folder),
            trials=trials,
            once=True,
        ),
        budget=runs,
        score=score.of(application.kind, streamed, application.duration),
        terms=price.terms(raw, heights),
        own=choosing.own(found, loaded.scenario.transport),
    )
    if budget is not None:
        return question
    enough = min(question.least, question.exhaustive)
    return replace(question, budget=max(enough, int(SHARE * question.exhaustive)))


def evidence_of(what: Asked, exact: tuple[bool, ...]) -> Evidence:
    """Return the evidence of a question before any run.

    Parameters
    ----------
    what
        The question.
    exact
        The candidates without random draws.
    """
    return Evidence(score=what.score, exact=exact, terms=what.terms, own=what.own)


def _combined(
    raw: Mapping[str, Any],
    folder: Path,
    loaded: Loaded,
    controllers: Sequence[str],
    schedulers: Sequence[str],
    paths: Sequence[str],
    outages: Sequence[str],
) -> list[Candidate]:
    """Return the candidates, or raise all faults together."""
    from anabranch.comparison.paths import only

    wrong = rules.faults(raw, outages)
    try:
        sets = choosing.sets([path.name for path in loaded.scenario.paths], paths)
        choosing.validated(raw, folder, controllers, schedulers)
    except InputError as error:
        raise type(error)([*error.faults, *wrong]) from None
    if wrong:
        raise InputError(wrong)
    of_sets = {names: rules.of(only(raw, names), outages) for names in sets}
    return choosing.candidates(
        sets, tuple(dict.fromkeys(controllers)), tuple(dict.fromkeys(schedulers)), of_sets
    )


def run(
    what: Asked,
    folder: Path,
    *,
    workers: int,
    progress: Callable[[float, float], None] | None = None,
    expected: Callable[[float], None] | None = None,
) -> Advice:
    """Make the missing runs of an advice, and return it.

    Parameters
    ----------
    what
        The question to answer.
    folder
        The folder for the results.
    workers
        Processes on this machine.
    progress
        Called with the number of runs done, and the largest possible number.
    expected
        Called once, after two runs, with the fewest seconds that the rest is likely to take.

    Raises
    ------
    InputError
        When the folder holds something else.
    MissingError
        When the disk is full, or a worker is gone.
    """
    from anabranch.results import identity
    from anabranch.results.store import Store
    from anabranch.study import execute, sweep

    planned = sweep.planned(what.sweep)
    store = Store(folder, sweep.manifest(what.sweep, planned))
    jobs = {
        (place, run): Job(
            cell=cell,
            name=cell.name,
            run=run,
            keep=(),
            identity=identity.of_run(planned[place].hash, run),
            alike=planned[place].alike,
            hash=planned[place].hash,
        )
        for place, cell in enumerate(what.sweep.cells)
        for run in range(what.sweep.trials)
    }
    known = _known(folder, jobs)
    evidence = evidence_of(what, tuple(one.exact for one in planned))
    queue = _Queue(steps(what, evidence), jobs, known, evidence)

    def heard(job: Job, rows: Mapping[str, list[Row]]) -> None:
        queue.done(job, rows["runs"][0])
        if progress is not None:
            progress(evidence.runs, what.budget)

    with store.writing() as journal:
        if expected is not None:
            # A candidate without random draws runs once.
            possible = sum(1 if exact else what.sweep.trials for exact in evidence.exact)
            _timed(queue, journal, heard, expected, min(what.budget, possible), workers)
        with closing(execute.execute(queue, workers=workers)) as outcomes:
            for job, (made, traces) in outcomes:
                journal.add(made, traces)
                heard(job, made)
    _settle(store)
    return judged(what.sweep, what.candidates, evidence)


def _known(folder: Path, jobs: Mapping[tuple[int, int], Job]) -> dict[tuple[int, int], Row]:
    """Return the rows of runs that an earlier call stored."""
    from anabranch.results.read import rows
    from anabranch.results.store import key

    there = {key(row): row for row in rows(folder).iter_rows(named=True)}
    names = {place: (job.name, job.identity) for place, job in jobs.items()}
    return {place: there[name] for place, name in names.items() if name in there}


def _settle(store: Store) -> None:
    """Write the tables of the finished runs. A later call with the same folder continues from them."""
    store.finish()


def _timed(
    queue: _Queue,
    journal: Any,  # noqa: ANN401 - the store's own
    heard: Callable[[Job, Mapping[str, list[Row]]], None],
    expected: Callable[[float], None],
    budget: int,
    workers: int,
) -> None:
    """Make two runs in this process, and estimate the time of the others from both."""
    from anabranch.results import identity
    from anabranch.study import execute

    took: list[float] = []
    for _ in range(2):
        # A candidate from the middle has several paths and a common scheduler, so its time is typical.
        job = queue.take_middle()
        if job is None:
            return
        job.ready()
        began = time.monotonic()
        rows, traces = execute.work(job, identity.code())
        took.append(time.monotonic() - began)
        journal.add(rows, traces)
        heard(job, rows)
    first, second = took
    # The first run also loads modules and films, as every process does.
    expected(max(0.0, first - second) + second * max(0, budget - queue.evidence.runs) / workers)


def steps(what: Asked, evidence: Evidence) -> Iterator[list[tuple[int, int]]]:
    """Yield the runs that decide the choice, those for the sentences about it, and the rest of the budget."""
    trials, scores, exact = what.sweep.trials, evidence.scores, evidence.exact
    told = spending.told(what.budget)

    def of_questions() -> list[tuple[int, int]]:
        return spending.lacking(evidence.questions(what.candidates), scores, exact, trials, told)

    def lacking() -> list[tuple[int, int]]:
        asked = of_questions()
        own = [one for one in evidence.lacking_own(trials, told) if one not in asked]
        return [*asked, *own[: what.budget // _OWN_SHARE if what.budget >= _OWN_FROM else 0]]

    yield from spending.steps(scores, exact, what.budget, trials, lambda: len(lacking()))
    yield lacking()[: max(0, what.budget - evidence.runs)]
    # More runs may change the choice, and with it the candidates that a verdict needs.
    yield from spending.steps(scores, exact, what.budget, trials, lambda: len(of_questions()))
    while missing := of_questions()[: max(0, what.budget - evidence.runs)]:
        yield missing


class _Queue:
    """A queue of runs in steps. A step begins when all runs of the step before are finished.

    As an iterator, it stops while no job is ready, and can be continued later.

    Parameters
    ----------
    steps
        The runs of each step; the next step is taken when all runs of one are done.
    jobs
        The job of each run.
    known
        The rows of runs that an earlier call stored.
    evidence
        Receives every finished run.
    """

    def __init__(
        self,
        steps: Iterator[list[tuple[int, int]]],
        jobs: Mapping[tuple[int, int], Job],
        known: Mapping[tuple[int, int], Row],
        evidence: Evidence,
    ) -> None:
        self.evidence = evidence
        self._steps, self._jobs, self._known = steps, jobs, known
        self._keys = {(job.name, job.identity): key for key, job in jobs.items()}
        self._waiting: list[tuple[int, int]] = []
        self._under_way: set[tuple[int, int]] = set()

    def __iter__(self) -> _Queue:
        return self

    def __next__(self) -> Job:
        self._fill()
        if not self._waiting:
            raise StopIteration
        key = self._waiting.pop(0)
        self._under_way.add(key)
        return self._jobs[key]

    def take_middle(self) -> Job | None:
        """Return the run in the middle of a step; None if no run is left."""
        self._fill()
        if not self._waiting:
            return None
        key = self._waiting.pop(len(self._waiting) // 2)
        self._under_way.add(key)
        return self._jobs[key]

    def done(self, job: Job, row: Row) -> None:
        """Add the row of a finished run."""
        key = self._keys[job.name, job.identity]
        self._under_way.discard(key)
        self.evidence.add(*key, row)

    def _fill(self) -> None:
        """Take the next steps until a job is waiting or running."""
        while not self._waiting and not self._under_way:
            try:
                step = next(self._steps)
            except StopIteration:
                return
            for key in step:
                if self.evidence.has(*key):
                    continue
                if key in self._known:
                    self.evidence.add(*key, self._known[key])
                else:
                    self._waiting.append(key)
