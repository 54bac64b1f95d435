"""Running a scenario: validate, make the plan, simulate, measure."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _files, metrics, plugins
from anabranch.errors import DefectError, Fault, InputError, PluginError, ScenarioError
from anabranch.results import identity
from anabranch.scenario.units import show_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anabranch.media.films import Film
    from anabranch.metrics._rows import Tables
    from anabranch.scenario.load import Loaded
    from anabranch.scenario.models import Bounds


@dataclass(frozen=True, kw_only=True)
class Broken:
    """An expectation that did not hold."""

    metric: str
    expected: str
    found: Any

    def __str__(self) -> str:
        """Return the expectation and what was found instead."""
        return f"expected {self.metric} {self.expected}, found {self.found}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a scenario and what came of it.

    Attributes
    ----------
    scenario
        The scenario's name.
    seed, run
        Which draw it was.
    scheduler, congestion
        The plug-ins in short form: `rtx-aware(blest)`.
    plan
        What the simulator was given.
    tables
        The trace: table to column to values (docs/reference/trace.md); a table is Arrow to whoever asks.
    summary
        The simulator's own account: digest, steps, world.
    qoe
        What the viewer saw; None for bulk and paced applications.
    qos
        What the network did.
    clients
        Each client's own `qoe` and `qos`.
    identity
        The run's inputs as a hash: the plan, seed and run, the program, the plug-ins' sources.
    plugins
        The plug-ins in Python by name, each with the hash of its sources.
    broken
        Expectations of the scenario that did not hold.
    """

    scenario: str
    seed: int
    run: int
    scheduler: str
    congestion: str
    plan: Mapping[str, Any] = field(repr=False)
    tables: Tables = field(repr=False)
    summary: Mapping[str, Any]
    qoe: Mapping[str, Any] | None
    qos: Mapping[str, Any]
    clients: metrics.Clients = field(default=(), repr=False)
    identity: str = ""
    plugins: Mapping[str, str] = field(default_factory=dict)
    broken: tuple[Broken, ...] = ()

    @classmethod
    def open(cls, folder: str | Path, run: str | None = None) -> Run:
        """Return a run that `anabranch sweep` or `anabranch study run` made.

        It is read where `--keep-trace` kept its trace, whatever build made it. Else it is run again from what
        the folder says of it, and its digest proves that it came out as it did.

        Parameters
        ----------
        folder
            The results.
        run
            The beginning of its `identity`; None is the first run of the first cell.

        Raises
        ------
        InputError
            When there is no such run, or it does not come out as it did.

        Examples
        --------
        >>> import anabranch
        >>> run = anabranch.Run.open("results/SD18")  # doctest: +SKIP
        >>> run.rows("subflows")  # doctest: +SKIP
        """
        # By the package's door: rooms of many runs stand above this one.
        import anabranch

        return anabranch.open_run(folder, run)

    @property
    def digest(self) -> str:
        """The run's event log as a hash: equal for equal inputs."""
        return str(self.summary["digest"])

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said with the results: plug-ins that are reconstructions, sessions given up."""
        given_up = [row for row in self.rows("connections") if not row["finished"]]
        notes = [str(note) for note in self.summary.get("notes", ())]
        if given_up:
            read = sum(row["bytes_read"] for row in given_up)
            who = (
                f"{len(given_up)} of {self.plan['clients']} sessions"
                if self.plan["clients"] > 1
                else "The session"
            )
            notes.append(f"{who} had not finished when the simulation ended: {read:,} B were read.")
        elif self.cut_short is not None:
            notes.append(
                f"The session ended after {show_time(self.cut_short)}, as application.duration has it: "
                "the film was not played to its end."
            )
        return tuple(notes)

    @property
    def whose_subflows(self) -> str:
        """What is to be said of a table of subflows in which a path has several; else empty."""
        paths = [subflow["path"] for subflow in self.qos["subflows"]]
        if len(set(paths)) == len(paths) or len(self.tables.get("requests", {}).get("id", ())) < 2:
            return ""
        return "of all connections that the player opened"

    @property
    def cut_short(self) -> int | None:
        """The session's `application.duration` in nanoseconds, where it ended a film; else None."""
        duration: int | None = self.plan["application"]["duration_ns"]
        if self.qoe is None or self.qoe["finished"] or not all(self.tables["connections"]["finished"]):
            return None
        return duration

    @property
    def duration_s(self) -> float:
        """How long the session lasted from its connect, in seconds."""
        found = metrics.duration_s(self.tables)
        return float(self.summary["duration_s"] if found is None else found)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `anabranch run --json` prints."""
        result = {
            "scenario": self.scenario,
            "world": self.summary.get("world", "simulated"),
            "seed": self.seed,
            "run": self.run,
            "scheduler": self.scheduler,
            "congestion": self.congestion,
            "duration_s": self.duration_s,
            "digest": self.digest,
            "identity": self.identity,
            "plugins": dict(self.plugins),
            "notes": list(self.notes),
            "qoe": self.qoe,
            "qos": self.qos,
        }
        if self.plan["clients"] > 1:
            result["clients"] = list(self.clients)
        return result

    def rows(self, table: str, *, client: int | None = None) -> list[dict[str, Any]]:
        """Return a table of the trace as rows, those of one client when asked."""
        from anabranch.metrics._rows import rows

        return list(rows(self.tables[table], client=client))


def run(
    scenario: str | Path | Mapping[str, Any],
    *,
    seed: int | None = None,
    run: int = 0,
    scheduler: str | Mapping[str, Any] | None = None,
    congestion: str | Mapping[str, Any] | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the name that the command line has
    pcapng: str | Path | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> Run:
    """Run a scenario in the simulated world.

    Parameters
    ----------
    scenario
        Path of a TOML file, name of a shipped scenario, or the tables themselves.
    seed
        Seed of every draw; None is the scenario's own.
    run
        Number of the run: another draw of the same seed.
    scheduler, congestion
        Plug-in by name, or a table with its name and parameters; None is the scenario's own. A class
        in Python is named by its place: `mine.py:LowestRtt`.
    set
        Any other key by its dotted path: `{"paths.wifi.rtt": "80 ms"}`.
    pcapng
        Where to write a capture, one interface a path.
    progress
        Told the seconds of the session done so far, and how many are expected.

    Returns
    -------
    Run

    Raises
    ------
    ScenarioError
        With every fault found.
    InputError
        When a plug-in in Python answers what is no answer.
    Exception
        Whatever a plug-in in Python raises.
    MissingError
        When the simulator is not built.

    Examples
    --------
    >>> import anabranch
    >>> result = anabranch.run("bulk-two-paths", set={"application.bytes": "1 MB"})  # doctest: +SKIP
    >>> result.qos["goodput_mbps"]  # doctest: +SKIP
    """
    from anabranch.scenario._overrides import Override
    from anabranch.scenario.load import load

    given = {"seed": seed, "transport.scheduler": scheduler, "transport.congestion": congestion}
    overrides = [
        Override(key=key, value=dict(value) if isinstance(value, dict) else value, origin=f"{key}={value!r}")
        for key, value in {**given, **(set or {})}.items()
        if value is not None
    ]
    try:
        return run_loaded(load(scenario, overrides), run=run, pcapng=pcapng, progress=progress)
    except PluginError as raised:
        own = raised.error or raised
    raise own


def film_of(loaded: Loaded, *, progress: Callable[[float, float], None] | None = None) -> Film | None:
    """Return what a scenario streams, film or ladder; a film that is not played is described and not made.

    Raises
    ------
    MediaError
        When the film is missing, unreadable or truncated.
    """
    from anabranch.media.films import open_film
    from anabranch.media.ladders import open_ladder

    application = loaded.scenario.application
    if application.kind == "adaptive":
        return open_ladder(application.ladder, loaded.folders)
    described = application.kind != "progressive"
    return open_film(application.film, loaded.folders, described=described, progress=progress)


def run_loaded(
    loaded: Loaded,
    *,
    run: int = 0,
    pcapng: str | Path | None = None,
    progress: Callable[[float, float], None] | None = None,
    film: Film | None = None,
) -> Run:
    """Run a scenario that has been validated; its film, if not given, is opened or made.

    Raises
    ------
    ScenarioError
        When a plug-in refuses its parameters.
    InputError
        When a plug-in in Python answers what is no answer.
    PluginError
        When one raises.
    MissingError
        When the simulator is not built, or the capture cannot be written.
    """
    from anabranch.scenario import plan as plans

    value = loaded.scenario
    film = film_of(loaded) if film is None else film
    plan = plans.build(value, film, run=run)
    expected_s = plans.expected_duration_s(plan, film)

    def heard(done_s: float, _limit_s: float) -> None:
        # Told even where nobody asked: meanwhile an interrupt from the keyboard is noticed.
        if progress is not None:
            progress(done_s, max(expected_s, done_s))

    written = nullcontext() if pcapng is None else _files.whole(Path(pcapng), "the capture")
    with written as capture:
        trace = _simulate(loaded, plans.encode(plan), pcapng=capture, progress=heard)
    tables = trace["tables"]
    clients = metrics.by_client(tables)
    qoe, qos = metrics.qoe(tables, clients), metrics.qos(tables, clients)
    return Run(
        scenario=value.name,
        seed=value.seed,
        run=run,
        scheduler=plugins.label(value.transport.scheduler.model_dump()),
        congestion=plugins.label(value.transport.congestion.model_dump()),
        plan=plan,
        tables=tables,
        summary=trace["summary"],
        qoe=qoe,
        qos=qos,
        clients=clients,
        identity=identity.of_run(cell_of(loaded, film), run),
        plugins=loaded.sources(),
        broken=tuple(_broken(value.expect, qoe, qos, metrics.duration_s(tables))),
    )


def cell_of(loaded: Loaded, film: Film | None) -> str:
    """Return the hash that all runs of a scenario share: what is run 0 but for its number."""
    from anabranch.scenario import plan as plans

    return identity.of_cell(plans.build(loaded.scenario, film), loaded.sources())


def _simulate(
    loaded: Loaded, plan: str, *, pcapng: Path | None, progress: Callable[[float, float], None]
) -> dict[str, Any]:
    """Return the trace of a plan, with the Rust module's errors as the program's own."""
    from anabranch.plugins.load import FaultyPluginError, anew
    from anabranch.scenario import _refused

    rust = plugins.module()
    capture = None if pcapng is None else str(pcapng)
    try:
        classes = anew(loaded.plugins)
    except FaultyPluginError as error:
        found = [Fault(message=each.message, where=each.where, line=each.line) for each in error.faults]
        raise ScenarioError(found) from None
    try:
        trace: dict[str, Any] = rust.simulate(plan, capture, progress, classes)
    except rust.RaisedError as raised:
        raise PluginError(raised.args[2]) from None
    except rust.AnswerError as wrong:
        kind, name, method, message = wrong.args
        raise InputError([loaded.plugins[kind][name].fault(method, message)]) from None
    except rust.PlanError as error:
        found = _refused.faults(error.faults, json.loads(plan), loaded.scenario, loaded.source)
        raise ScenarioError(found) from None
    except rust.SimulationError as error:
        given = json.loads(plan)
        replay = f"the scenario, seed {given['seed']}, run {given['run']}"
        raise DefectError(str(error), replay=replay) from None
    return trace


def _broken(
    expect: Mapping[str, Bounds],
    qoe: Mapping[str, Any] | None,
    qos: Mapping[str, Any],
    duration: float | None,
) -> list[Broken]:
    """Return the expectations that do not hold; a metric that the run has not got breaks its own."""
    result = []
    for name, bounds in expect.items():
        found = metrics.lookup(name, qoe=qoe, qos=qos, duration=duration)
        checks = (
            (bounds.min, ">=", found is not None and bounds.min is not None and found >= bounds.min),
            (bounds.max, "<=", found is not None and bounds.max is not None and found <= bounds.max),
            (bounds.equals, "=", found == bounds.equals),
        )
        for bound, sign, holds in checks:
            if bound is not None and not holds:
                result.append(Broken(metric=name, expected=f"{sign} {_plain(bound)}", found=found))
    return result


def _plain(bound: float | bool) -> str:  # noqa: FBT001 - a value to show
    """Return a bound as the scenario has it."""
    return json.dumps(bound) if isinstance(bound, bool) else f"{bound:g}"
