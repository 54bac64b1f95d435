"""Runs the settings in several processes."""

from __future__ import annotations

from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from anabranch._pool import processes, undisturbed
from anabranch.calibrate import measure, settings
from anabranch.errors import MissingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anabranch.calibrate.measure import Figures
    from anabranch.calibrate.model import Measured, Setting
    from anabranch.media.films import Film
    from anabranch.metrics._rows import Tables

T = TypeVar("T")
R = TypeVar("R")

#: The number of runs of a setting without random loss. In these, only the emulator's lateness, the time of a
#: cut and BBR's own draws vary.
RUNS_WITHOUT_LOSS = 30
#: The largest number of runs of a setting that lasts ten minutes.
RUNS_OF_FILMS = 20
# The number of runs that a process is given at once. It is so large that distributing them costs nothing.
_CHUNK = 10


@dataclass(frozen=True, kw_only=True)
class Task:
    """Some runs of one setting.

    Attributes
    ----------
    place
        The index of the setting.
    setting, film
        The setting and its film.
    runs
        The numbers of the runs.
    cuts
        The times at which path 1 is lost, used in turn.
    seeds
        The seeds of the emulator's losses, used in turn; empty if the simulator draws its own.
    lateness_us
        The emulator's mean lateness for each path; empty for the laboratory's usual values.
    one_processor
        Whether the laboratory's hosts share one processor.
    """

    place: int
    setting: Setting
    film: Film | None
    runs: tuple[int, ...]
    cuts: tuple[float, ...]
    seeds: tuple[int, ...] = ()
    lateness_us: tuple[float, ...] = ()
    one_processor: bool = False


def tasks(
    measured: Sequence[Measured],
    films: Mapping[str, Film],
    *,
    runs: int,
    plain: int = RUNS_WITHOUT_LOSS,
    same_losses: bool = False,
    one_processor: bool = False,
) -> list[Task]:
    """Return the list of tasks.

    Parameters
    ----------
    measured
        The settings.
    films
        The films of the players, by file name.
    runs
        The number of runs of a setting with random loss.
    plain
        The largest number of runs of any other setting.
    same_losses
        Whether the runs lose the same packets as the kernel's trials; each trial is used equally often.
    one_processor
        Whether the laboratory's hosts share one processor.

    Raises
    ------
    ValueError
        When the same losses are requested and trials have no seeds.
    """
    result = []
    for place, one in enumerate(measured):
        setting = one.setting
        count = runs if setting.lossy else min(runs, plain)
        if setting.kind == "film":
            count = min(count, RUNS_OF_FILMS)
        if same_losses and not one.seeds:
            message = f"no seeds of {setting.name}"
            raise ValueError(message)
        seeds = one.seeds if same_losses else ()
        count += -count % max(len(seeds), 1)
        cuts = tuple(trial.cut_at_s for trial in one.trials if trial.cut_at_s is not None)
        for first in range(0, count, _CHUNK):
            chunk = tuple(range(first, min(first + _CHUNK, count)))
            film = films.get(setting.film)
            task = Task(
                place=place,
                setting=setting,
                film=film,
                runs=chunk,
                cuts=cuts,
                seeds=seeds,
                lateness_us=one.lateness_us,
                one_processor=one_processor,
            )
            result.append(task)
    return result


def each(
    todo: Sequence[Task], *, workers: int, progress: Callable[[float, float], None] | None = None
) -> Iterator[tuple[int, list[Figures]]]:
    """Yield each setting's index with the values of all its runs, in order and as soon as possible.

    Parameters
    ----------
    todo
        The tasks.
    workers
        Number of processes; with 1, this process makes the runs.
    progress
        Called with the number of runs done, and of all runs.
    """
    runs = 0
    total = sum(len(task.runs) for task in todo)
    wanted: dict[int, list[int]] = {}
    for task in todo:
        wanted.setdefault(task.place, []).append(task.runs[0])
    waiting = sorted(wanted)
    found: dict[tuple[int, int], list[Figures]] = {}
    for at, figures in done(_work, todo, workers=workers):
        task = todo[at]
        found[task.place, task.runs[0]] = figures
        runs += len(task.runs)
        if progress is not None:
            progress(runs, total)
        while waiting and all((waiting[0], first) in found for first in wanted[waiting[0]]):
            place = waiting.pop(0)
            yield place, [one for first in sorted(wanted[place]) for one in found.pop((place, first))]


def simulate(todo: Sequence[Task], *, workers: int) -> dict[int, list[Figures]]:
    """Return the figures of every run by the index of its setting, in the order of the runs."""
    return dict(each(todo, workers=workers))


def trace(task: Task, run: int) -> tuple[Figures, Tables]:
    """Run a task's setting once; return its figures and the trace.

    The runs of a handover use the trials' cut times in turn. Runs with the kernel's losses use the trials'
    seeds in turn.
    """
    from anabranch._run import run_loaded
    from anabranch.scenario.load import load

    cut = task.cuts[run % len(task.cuts)] if task.cuts else None
    seed = task.seeds[run % len(task.seeds)] if task.seeds else None
    tables = settings.scenario(
        task.setting,
        lateness_us=task.lateness_us,
        cut_at_s=cut,
        seed=seed,
        one_processor=task.one_processor,
    )
    result = run_loaded(load(tables), run=run, film=task.film)
    return measure.figures(task.setting, result.tables, cut_at_s=cut), result.tables


def done(work: Callable[[T], R], todo: Sequence[T], *, workers: int) -> Iterator[tuple[int, R]]:
    """Yield the index of each task with its result, in the order of completion.

    Parameters
    ----------
    work
        A function at module level, so that other processes can call it.
    todo
        The arguments of the call.
    workers
        Processes; 1 is this one.

    Raises
    ------
    MissingError
        If a process was ended from outside.
    """
    if workers == 1 or len(todo) <= 1:
        yield from enumerate(map(work, todo))
        return
    try:
        with processes(min(workers, len(todo))) as pool:
            with undisturbed():
                under_way = {pool.submit(work, task): place for place, task in enumerate(todo)}
            for future in as_completed(under_way):
                yield under_way[future], future.result()
    except BrokenProcessPool:
        message = "a process of the calibration was ended from outside"
        raise MissingError(message, hint="is memory short? --workers 1 needs the least") from None


def _work(task: Task) -> list[Figures]:
    """Return the figures of a task's runs."""
    return [trace(task, run)[0] for run in task.runs]
