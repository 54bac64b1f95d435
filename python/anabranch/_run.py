"""Runs a scenario: validates it, makes the plan, simulates and computes the metrics."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _cell, _files, _progress, _rust, _unfinished, metrics, plugins
from anabranch import _expected as expected
from anabranch._taken import Taken
from anabranch.errors import Fault, InputError, PluginError, did_you_mean
from anabranch.scenario.units import show_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    import polars

    from anabranch import Why
    from anabranch.figures.picture import Picture
    from anabranch.media.films import Film
    from anabranch.metrics._rows import Tables
    from anabranch.scenario.load import Loaded

    #: Plug-in classes written in Python, by kind and name, in the form that the Rust module takes.
    Classes = Mapping[plugins.Kind, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a scenario, with its trace and metrics.

    Attributes
    ----------
    scenario
        The scenario's name.
    seed, run
        The seed of all random draws, and the number of the run under that seed (from 0).
    scheduler, congestion
        The plug-ins in short form: `rtx-aware(blest)`.
    plan
        The simulator's input, all units resolved (docs/plan-and-trace.md).
    tables
        The trace: `tables[table][column]` is a sequence of values. Tables and columns are Arrow data, so
        that polars, pyarrow and pandas take them whole (docs/reference/trace.md has every column and unit).
    summary
        The simulator's summary: `digest`, `duration_s`, `steps`, `notes`, `world`.
    qoe
        The viewer's metrics (docs/reference/trace.md, "Metrics"); times in seconds. None for bulk
        and paced applications. With several clients, means over them.
    qos
        The network's metrics; rates in Mb/s, times with the unit in their names.
    clients
        Each client's own `qoe` and `qos`, in the order of the clients.
    identity
        The hash of all inputs of the run: the plan, seed and run, the program, the plug-ins' sources.
    plugins
        The plug-ins written in Python by name, each with the hash of its sources.
    broken
        The expectations of the scenario that did not hold.
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
    broken: tuple[expected.Broken, ...] = ()

    @classmethod
    def open(cls, folder: str | Path, run: str | None = None) -> Run:
        """Return a run of a sweep or study, with its trace.

        If `--keep-trace` stored its trace, the trace is read, even from another build. Otherwise the run is
        repeated from its stored inputs (as long as before), and its digest is compared with the stored one.

        Parameters
        ----------
        folder
            A folder of results that `anabranch sweep` or `anabranch study run` wrote.
        run
            The run's `identity`, or the beginning of it; None is the first run of the first cell.

        Raises
        ------
        InputError
            When there are no results, no or several such runs, or the repeated run has another digest.

        Examples
        --------
        >>> import anabranch
        >>> run = anabranch.Run.open("results/SD18")  # doctest: +SKIP
        >>> run.rows("subflows")  # doctest: +SKIP
        """
        # Imported from the package: modules for many runs are in a higher layer.
        import anabranch

        return anabranch.open_run(folder, run)

    @property
    def digest(self) -> str:
        """The hash of the run's whole event log, 64 hex digits: equal inputs give equal digests.

        It is empty for a run over real packets, which cannot be repeated exactly.
        """
        return str(self.summary["digest"])

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the results: reconstructed plug-ins, and sessions that did not finish."""
        given_up = [row for row in self.rows("connections") if not row["finished"]]
        notes = [str(note) for note in self.summary.get("notes", ())]
        if given_up and self.summary.get("world") != "captured":
            read = sum(row["bytes_read"] for row in given_up)
            who = (
                f"{len(given_up)} of {self.plan['clients']} sessions"
                if self.plan["clients"] > 1
                else "The session"
            )
            notes.append(f"{who} had not finished when the simulation ended: {read:,} B were read.")
            notes += _unfinished.silent(self.tables, clients=self.plan["clients"])
        elif self.cut_short is not None:
            notes.append(
                f"The session ended after {show_time(self.cut_short)}, as application.duration has it: "
                "the film was not played to its end."
            )
        return tuple(notes)

    @property
    def whose_subflows(self) -> str:
        """The explanation of a table of subflows in which a path has several rows; may be empty."""
        paths = [subflow["path"] for subflow in self.qos["subflows"]]
        if len(set(paths)) == len(paths) or len(self.tables.get("requests", {}).get("id", ())) < 2:
            return ""
        return "of all connections that the player opened"

    @property
    def cut_short(self) -> int | None:
        """`application.duration` in nanoseconds if it ended a film before its end; else None."""
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
        """Return a table of the trace as rows.

        Parameters
        ----------
        table
            The table's name, for example `samples`.
        client
            Only the rows of the client with this number, from 0; None is all rows.

        Returns
        -------
        list
            A dict a row, by column; None where a number is missing.

        Raises
        ------
        KeyError
            When the trace has no such table.
        """
        from anabranch.metrics._rows import rows

        return list(rows(self.tables[table], client=client))

    def frame(self, name: str) -> polars.DataFrame:
        """Return a table of the trace as a polars frame.

        Parameters
        ----------
        name
            The table's name: `samples`, `subflows`, `frames` and so on (docs/reference/trace.md).

        Returns
        -------
        polars.DataFrame
            The suffix of a column's name is its unit; null where a number is missing.

        Raises
        ------
        InputError
            When the trace has no such table; the message has the nearest name.
        """
        import polars

        if name not in self.tables:
            hint = did_you_mean(name, self.tables)
            where = f"the trace of {self.scenario}"
            raise InputError([Fault(message=f"no such table: `{name}`", where=where, hint=hint)])
        return polars.DataFrame(self.tables[name])

    def plot(self, *, client: int = 0) -> Picture:
        """Return the session as a figure over seconds: pictures, windows in segments, throughput in Mb/s.

        Parameters
        ----------
        client
            The client, counted from 0.

        Returns
        -------
        Picture
            Shows itself in a notebook; `.save("figure.svg")` writes it.

        Raises
        ------
        InputError, MissingError
            When there is no such client, or when Altair (extra `figures`) is missing.
        """
        from anabranch.figures.picture import Picture
        from anabranch.figures.session import session

        if client not in range(self.plan["clients"]):
            message = f"no such client: {client}, of {self.plan['clients']} from 0"
            raise InputError([Fault(message=message, where=f"client={client}")])
        return Picture(chart=session(self.tables, client=client))

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that loads nothing, and return its path.

        Raises
        ------
        MissingError
            When it cannot be written.
        """
        # Imported from the package: `report` is a higher layer than this module.
        import anabranch

        anabranch.write_report(Path(path), self)
        return Path(path)

    def why(self) -> Why:
        """Return the causes of freezes and steps down, and why the run was not better."""
        import anabranch

        return anabranch.explain(self)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what the viewer saw, and what each path carried."""
        from anabranch.figures import glance

        return glance.run(self.scenario, self.to_json(), self.tables)


def run(
    scenario: str | Path | Mapping[str, Any],
    *,
    seed: int | None = None,
    run: int = 0,
    scheduler: str | type | Mapping[str, Any] | None = None,
    congestion: str | type | Mapping[str, Any] | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the name that the command line has
    pcapng: str | Path | None = None,
    pcapng_at: str = "client",
    pcapng_start: datetime | None = None,
    progress: _progress.Asked = False,
) -> Run:
    """Simulate a scenario.

    Parameters
    ----------
    scenario
        Path of a TOML file, name of a shipped scenario, or the scenario's tables as a dict.
    seed
        Seed of all random draws, a whole number from 0; None is the scenario's own.
    run
        Number of the run, from 0: another draw under the same seed.
    scheduler, congestion
        Plug-in by name or short form (`rtx-aware(min-rtt)`), a class or its place (`mine.py:LowestRtt`), or a
        table with a name and parameters; None is the scenario's own. A class of a notebook is loaded from its
        source, with the imports, functions and constants that it uses.
    set
        Any other keys of the scenario by their dotted path: `{"paths.wifi.rtt": "80 ms"}`.
    pcapng, pcapng_at, pcapng_start
        File for a capture, its host (`client` or `server`), and when it begins, with a zone; None is 1970.
    progress
        Function that is called with the seconds of the session done so far and the seconds expected. True
        shows a bar, False nothing; None shows a bar in a notebook or a terminal.

    Returns
    -------
    Run
        Trace and metrics.

    Raises
    ------
    ScenarioError
        If something in the scenario is wrong; the error contains every fault.
    MediaError
        When its film or ladder is missing, unreadable or truncated.
    InputError
        When a plug-in in Python returns something that is not a valid answer.
    MissingError
        When the simulator is not built, or a file cannot be written.
    Exception
        Any exception of a plug-in in Python.

    Examples
    --------
    >>> import anabranch
    >>> result = anabranch.run("bulk-two-paths", set={"application.bytes": "1 MB"})  # doctest: +SKIP
    >>> result.qos["goodput_mbps"]  # doctest: +SKIP
    """
    from anabranch.scenario._overrides import by_name
    from anabranch.scenario.load import load

    overrides = by_name(seed=seed, scheduler=scheduler, congestion=congestion, set=set)
    try:
        loaded, taken = load(scenario, overrides), Taken(at=pcapng_at, start=pcapng_start)
        with _progress.shown(progress, f"running {loaded.scenario.name}", unit="s") as told:
            return run_loaded(loaded, run=run, pcapng=pcapng, taken=taken, progress=told)
    except PluginError as raised:
        own = raised.error or raised
    raise own


def run_loaded(
    loaded: Loaded,
    *,
    run: int = 0,
    pcapng: str | Path | None = None,
    taken: Taken | None = None,
    progress: Callable[[float, float], None] | None = None,
    film: Film | None = None,
    cell: str = "",
    may_stand: bool = False,
) -> Run:
    """Run a validated scenario. Without `film`, its film is opened or made.

    `cell` is the hash that the scenario's runs share; it is computed if empty.
    With `may_stand`, a run that came to a standstill is returned too. Its summary has `standstills`.

    Raises
    ------
    ScenarioError
        When a plug-in refuses its parameters.
    InputError
        If a plug-in in Python returns an invalid answer, or stops sending.
    PluginError
        If one raises an exception.
    MissingError
        When the simulator is not built, or the capture cannot be written.
    DefectError
        If the simulator found a violated rule.
    """
    from anabranch.scenario import plan as plans
    from anabranch.scenario import streamed

    film = streamed.film_of(loaded) if film is None else film
    plan = plans.build(loaded.scenario, film, run=run)
    expected_s = plans.expected_duration_s(plan, film)

    def heard(done_s: float, _limit_s: float) -> None:
        # Called even without a progress function, because it notices interrupts from the keyboard.
        if progress is not None:
            progress(done_s, max(expected_s, done_s))

    written = nullcontext() if pcapng is None else _files.whole(Path(pcapng), "the capture")
    with written as capture:
        trace = simulated(loaded, plan, pcapng=capture, taken=taken, progress=heard)
        if not may_stand:
            _rust.refuse_standstill(loaded, trace["summary"], replay=_replay(plan))
    return finished(loaded, film, plan, trace, run=run, cell=cell)


def finished(
    loaded: Loaded,
    film: Film | None,
    plan: dict[str, Any],
    trace: Mapping[str, Any],
    *,
    run: int,
    cell: str = "",
) -> Run:
    """Return a run from a finished trace of any world, with its metrics."""
    value, tables = loaded.scenario, trace["tables"]
    paths = [path["name"] for path in plan["paths"]]
    clients = metrics.by_client(tables, paths=paths)
    qoe, qos = metrics.qoe(tables, clients), metrics.qos(tables, clients, paths=paths)
    summary = {**trace["summary"]}
    if loaded.warnings:
        warnings = (warning.sentence() for warning in loaded.warnings)
        summary["notes"] = [*summary.get("notes", ()), *warnings]
    return Run(
        scenario=value.name,
        seed=value.seed,
        run=run,
        scheduler=plugins.label(value.transport.scheduler.model_dump()),
        congestion=plugins.label(value.transport.congestion.model_dump()),
        plan=plan,
        tables=tables,
        summary=summary,
        qoe=qoe,
        qos=qos,
        clients=clients,
        identity=_cell.of_run(loaded, film, trace, run, cell),
        plugins=loaded.sources(),
        broken=tuple(expected.broken(value.expect, qoe, qos, metrics.duration_s(tables))),
    )


def simulated(
    loaded: Loaded,
    plan: dict[str, Any],
    *,
    pcapng: Path | None = None,
    taken: Taken | None = None,
    progress: Callable[[float, float], None] = lambda _done_s, _limit_s: None,
    watched: Callable[[Classes], Classes] = lambda classes: classes,
) -> dict[str, Any]:
    """Return the trace of a plan.

    Parameters
    ----------
    loaded, plan
        The scenario, and its plan.
    pcapng, taken
        The pcapng file that receives every packet, and where and when it is taken.
    progress
        Called with the simulated seconds, and the largest possible number of them.
    watched
        Receives the plug-ins written in Python, and returns those to use. It may change the plan.
    """
    from anabranch.scenario import plan as plans

    with _rust.classes(loaded, plan, replay=_replay(plan)) as classes:
        used = watched(classes)
        where = taken or Taken()
        trace: dict[str, Any] = plugins.module().simulate(
            plans.encode(plan), pcapng and str(pcapng), progress, used, where.at == "server", where.start_ns
        )
    return trace


def _replay(plan: Mapping[str, Any]) -> str:
    """Return the inputs that repeat a run, in words."""
    return f"the scenario, seed {plan['seed']}, run {plan['run']}"
