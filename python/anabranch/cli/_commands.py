"""The bodies of the commands run, check, init and list."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from anabranch import _files
from anabranch.cli import _console, _outputs
from anabranch.cli._films import making_film
from anabranch.errors import Fault, InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from anabranch._run import Run
    from anabranch._taken import Taken
    from anabranch.media.films import Film
    from anabranch.plugins import Kind
    from anabranch.scenario._overrides import Override
    from anabranch.scenario.load import Loaded


@dataclass(frozen=True, kw_only=True)
class Given:
    """A scenario with the keys that the command line sets."""

    scenario: str
    scheduler: str | None = None
    congestion: str | None = None
    preset: str | None = None
    seed: int | None = None
    set: tuple[str, ...] = ()
    #: Keys that other options set; `set` takes precedence.
    first: tuple[Override, ...] = ()

    def overrides(self) -> list[Override | Fault]:
        """Return the overrides; the named options come last."""
        from anabranch.scenario._overrides import Override, parse_assignment

        named = (
            ("seed", self.seed, "--seed"),
            ("transport.scheduler", self.scheduler, "--scheduler"),
            ("transport.congestion", self.congestion, "--congestion"),
        )
        last = [
            Override(key=key, value=value, origin=f"{option} {value}")
            for key, value, option in named
            if value is not None
        ]
        return [*self.first, *self._preset(), *map(parse_assignment, self.set), *last]

    def _preset(self) -> list[Override]:
        """Return the preset's keys, which replace the scenario's own.

        The kernel's preset sets nothing, so it replaces the keys of the others by their defaults.
        """
        from anabranch.scenario._overrides import Override
        from anabranch.scenario.presets import KERNEL_KEYS, preset_keys

        if self.preset is None:
            return []
        origin = f"--preset {self.preset}"
        own = KERNEL_KEYS if self.preset == "kernel" else preset_keys(self.preset)
        keys = {"preset": self.preset, **own}
        return [Override(key=f"transport.{key}", value=value, origin=origin) for key, value in keys.items()]

    def load(self) -> Loaded:
        """Return the validated scenario."""
        from anabranch.play import is_link
        from anabranch.scenario.load import load

        if is_link(self.scenario):
            from anabranch.play import links

            return load(links.read(self.scenario).tables(), self.overrides())
        return load(self.scenario, self.overrides())


@dataclass(frozen=True, kw_only=True)
class Cmcd:
    """The file of CMCD reports, and the options of its content."""

    file: Path
    form: str = "json"
    version: int = 1

    @classmethod
    def asked(cls, file: Path | None, form: str, version: int) -> Cmcd | None:
        """Return what options request; None without a file."""
        return None if file is None else cls(file=file, form=form, version=version)

    def fault(self) -> Fault | None:
        """Return the fault of the form."""
        from anabranch.metrics import cmcd

        if self.form in cmcd.FORMS:
            return None
        hint = did_you_mean(self.form, cmcd.FORMS)
        return Fault(message=f"no such form: `{self.form}`", where="--cmcd-form", hint=hint)

    def write(self, result: Run) -> None:
        """Write the reports of a run."""
        import uuid

        from anabranch.metrics import cmcd

        # A run over real packets has no digest.
        session = f"{result.digest or uuid.uuid4()}/{result.plan['run']}"
        found = cmcd.reports(result.tables, session=session, version=self.version)
        _files.write(self.file, cmcd.text(found, self.form), "the CMCD reports")


@dataclass(frozen=True, kw_only=True)
class Files:
    """The output files of a run."""

    report: Path | None = None
    pcapng: Path | None = None
    taken: Taken | None = None
    p1203: Path | None = None
    cmcd: Cmcd | None = None
    #: Whether to print a link of the page too.
    link: bool = False
    #: Whether to serve the page with the run afterwards.
    watch: bool = False

    def named(self) -> list[_outputs.Named]:
        """Return the requested files, each with its option."""
        named = (
            (self.report, "--report"),
            (self.pcapng, "--pcapng"),
            (self.p1203, "--p1203"),
            (None if self.cmcd is None else self.cmcd.file, "--cmcd"),
        )
        return [(path, option) for path, option in named if path is not None]

    def faults(self) -> list[Fault]:
        """Return the faults of the files, before any work is done."""
        found = [_outputs.unwritable(path, option) for path, option in self.named()]
        found += [None if self.cmcd is None else self.cmcd.fault()]
        return [*filter(None, found), *_outputs.twice(self.named())]


def run(given: Given, *, run: int | None, as_json: bool, files: Files) -> None:
    """Run a scenario and write its results. Without a run number, use that of the link, or 0."""
    from anabranch.cli import _links

    loaded = opened(given, files)
    asked = _links.asked(given.scenario, run, changed=bool(given.overrides()))
    film = prepare_film(loaded)
    shown = files.link or files.watch
    setup = _links.setup_of(loaded, film, run=asked.run, watch=files.watch) if shown else None
    result = simulate(loaded, film=film, run=asked.run, pcapng=files.pcapng, taken=files.taken)
    try:
        tell(result, files, as_json=as_json)
    finally:
        if setup is not None and files.link:
            _links.tell_link(setup, result)
        if setup is not None and files.watch:
            from anabranch.cli import _play

            _play.serve(_links.fragment_of(setup, result))
    _links.compare(asked, result)


def opened(given: Given, files: Files, faults: Sequence[Fault] = ()) -> Loaded:
    """Return the validated scenario; its faults, and those of the files, are raised together."""
    found = [*faults, *files.faults()]
    try:
        loaded = given.load()
    except InputError as error:
        raise InputError([*error.faults, *found]) from None
    found += _outputs.over_inputs(files.named(), _outputs.inputs(loaded, given.scenario))
    if loaded.scenario.application.kind != "adaptive":
        for option, asked, what in (("--p1203", files.p1203, "P.1203"), ("--cmcd", files.cmcd, "CMCD")):
            if asked is not None:
                hint = f'{what} is about application.kind = "adaptive"'
                message = "no adaptive playback in the scenario"
                found.append(Fault(message=message, where=option, hint=hint))
    if found:
        raise InputError(found)
    _console.warn(loaded.warnings)
    return loaded


def tell(result: Run, files: Files, *, as_json: bool) -> None:
    """Print a run and write its files.

    The exit code is 1 if an expectation does not hold, and otherwise 3 if a player did not reach the end or
    a client was never connected.
    """
    from anabranch import _unfinished
    from anabranch.cli import _show

    if files.p1203 is not None:
        from anabranch.metrics import p1203 as standard

        text = json.dumps(standard.request(result.tables), indent=2) + "\n"
        _files.write(files.p1203, text, "the P.1203 input")
    if files.cmcd is not None:
        files.cmcd.write(result)
    if files.report is not None:
        from anabranch import report as reports

        reports.write(files.report, result)
    if as_json:
        _console.out(json.dumps(result.to_json(), indent=2, allow_nan=False))
    else:
        _show.run(result)
    if files.pcapng is not None:
        _console.note(f"packets: {files.pcapng}")
    if files.p1203 is not None:
        _console.note(f"P.1203 input: {files.p1203}")
    if files.cmcd is not None:
        _console.note(f"CMCD: {files.cmcd.file}")
    if files.report is not None:
        _console.note(f"report: {files.report}")
    if result.broken:
        for broken in result.broken:
            _console.note(f"failed: {broken}")
    cut_off = _unfinished.unconnected(result.tables, clients=len(result.clients))
    if cut_off is not None:
        _console.note(f"warning: {cut_off}")
        _console.note("hint: check loss, rates and outages of each path; `--pcapng` writes every packet")
    short = _unfinished.unreached(result.clients)
    if short is not None:
        _console.note(f"warning: {short}")
        _console.note("hint: `still_s`, `unplayed_s` and the notes tell since when; `--report` draws it")
    if result.broken:
        raise typer.Exit(_console.EXPECTATION_FAILED)
    if short is not None or cut_off is not None:
        raise typer.Exit(_console.UNREACHED)


def simulate(
    loaded: Loaded,
    *,
    film: Film | None,
    run: int = 0,
    pcapng: Path | None = None,
    taken: Taken | None = None,
    what: str = "simulating",
) -> Run:
    """Run a validated scenario under a progress bar."""
    from anabranch._run import run_loaded

    with _console.progress(what) as progress:
        return run_loaded(loaded, run=run, pcapng=pcapng, taken=taken, progress=progress, film=film)


def check(given: Given, *, show_plan: bool) -> None:
    """Check a scenario and describe it."""
    from anabranch.media.films import open_film
    from anabranch.media.ladders import open_ladder
    from anabranch.scenario import plan as plans

    loaded = given.load()
    _console.warn(loaded.warnings)
    value = loaded.scenario
    if show_plan:
        plan = plans.build(value, prepare_film(loaded))
        _console.out(json.dumps(plan, indent=2))
        return
    film = (
        open_ladder(value.application.ladder, loaded.folders)
        if value.application.kind == "adaptive"
        else open_film(value.application.film, loaded.folders, described=True)
    )
    names = ", ".join(path.name for path in value.paths)
    application = value.application
    ladder = application.ladder_name or "a ladder by numbers"
    streamed = ladder if application.kind == "adaptive" else application.film
    what = f"{value.application.kind} {streamed or ''}".strip()
    plan = plans.build(value, film)
    lasts = f"about {plans.expected_duration_s(plan, film):,.0f} s of session"
    if not plans.delivers(plan):
        lasts = "and nothing arrives: every path loses every packet"
    flows = sum(group.count for group in value.cross_traffic)
    beside = f" beside {flows} background flow{'s' if flows > 1 else ''}" if flows else ""
    _console.out(f"ok: {loaded.source.where}: {what} over {names}{beside}, {lasts}")


def prepare_film(loaded: Loaded, *, played: bool = False) -> Film | None:
    """Return a scenario's film, as `film_of` does. A missing film file is made under a progress bar."""
    from anabranch.scenario.streamed import film_of

    with making_film() as progress:
        return film_of(loaded, played=played, progress=progress)


def init(file: Path, *, force: bool) -> None:
    """Write the starter scenario."""
    from importlib.resources import files

    text = files("anabranch.cli").joinpath("starter.toml").read_text(encoding="utf-8")
    if str(file) == "-":
        _console.out(text.rstrip("\n"))
        return
    fault = _outputs.unwritable(file, "FILE") or _outputs.exists(file, force=force)
    if fault is not None:
        raise InputError([fault])
    _files.write(file, text, "the scenario")
    _console.note(f"wrote {file}")
    _console.note(f"hint: {_console.program()} run {shlex.quote(str(file))}")


#: The kinds of plug-in by their name in `anabranch list`.
_PLUGINS: dict[str, Kind] = {
    "schedulers": "scheduler",
    "congestion": "congestion",
    "path-managers": "path_manager",
    "abr": "abr",
}


#: The kinds of names that `anabranch list` can print.
_KINDS = {
    "schedulers": "which subflow sends next",
    "congestion": "how much may be in flight on a subflow",
    "path-managers": "which subflows to open",
    "abr": "which rendition an adaptive player requests next",
    "queues": "how a link queues, drops and marks packets",
    "profiles": "kernel generations, and the parts of each that can be switched off",
    "scenarios": "scenarios that come with the program",
    "films": "films by name",
    "ladders": "ladders of renditions by name",
}


def list_names(what: str | None, *, as_json: bool) -> None:
    """Print the names of one kind, with the parameters of plug-ins; None prints the kinds."""
    others = {"scenarios": _scenarios, "films": _films, "ladders": _ladders, "profiles": _profiles}
    rows: list[dict[str, Any]]
    if what is None:
        rows = [{"name": name, "description": text} for name, text in _KINDS.items()]
    elif what in _PLUGINS:
        rows = _plugin_rows(_PLUGINS[what])
    elif what == "queues":
        rows = _queue_rows()
    elif what in others:
        rows = [{"name": name, "description": text} for name, text in others[what]().items()]
    else:
        hint = did_you_mean(what, list(_KINDS))
        raise InputError([Fault(message=f"nothing to list: `{what}`", hint=hint)])
    if as_json:
        _console.out(json.dumps(rows, indent=2))
        return
    lines = []
    for row in rows:
        lines.append((row["name"], row["description"]))
        own = row.get("parameters", ())
        lines += [("", f"{item['key']} = {item['default']}: {item['allowed']}") for item in own]
    _console.table(("name", ""), lines, left=2)
    if what is None:
        _console.note(f"hint: {_console.program()} list schedulers")


def _plugin_rows(kind: Kind) -> list[dict[str, Any]]:
    """Return the plug-ins of a kind, each with its parameters; entry points come last."""
    from anabranch import plugins
    from anabranch.plugins import load

    names = plugins.catalogue().of(kind)
    rows = [(name, text, plugins.parameters(kind, name)) for name, text in names.items()]
    return [
        {"name": name, "description": text, "parameters": [vars(item) for item in own]}
        for name, text, own in [*rows, *load.listed(kind)]
    ]


def _queue_rows() -> list[dict[str, Any]]:
    """Return the kinds of queue, each with its parameters."""
    from anabranch.scenario import queues

    return [
        {
            "name": kind.name,
            "description": kind.summary,
            "parameters": [
                {"key": own.key, "default": own.show(own.default), "allowed": f"{own.meaning}, {own.allowed}"}
                for own in kind.parameters.values()
            ],
        }
        for kind in queues.disciplines().values()
    ]


def _profiles() -> Mapping[str, str]:
    """Return the kernel generations, each followed by its parts that can be switched off."""
    from anabranch import plugins

    known = plugins.catalogue()
    parts = {f"stack.{name}": text for name, text in known.parts.items()}
    return {**known.profiles, **parts}


def _scenarios() -> Mapping[str, str]:
    """Return the named scenarios and their descriptions."""
    from anabranch.scenario import shipped

    return {name: shipped.description(path) for name, path in shipped.files().items()}


def _films() -> Mapping[str, str]:
    """Return the named films; any video file's path does as well."""
    from anabranch.media.films import NAMED

    return {**{name: film.description for name, film in NAMED.items()}, "PATH": "any video file"}


def _ladders() -> Mapping[str, str]:
    """Return the named ladders; any master playlist's path does as well."""
    from anabranch.media.ladders import NAMED

    return {**NAMED, "PATH": "any master playlist (.m3u8), or the folder that it is in"}
