"""The required and the optional members of a plug-in's class, by its kind."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import did_you_mean, nearest
from anabranch.plugins.tables import Kind, Parameter, PluginFault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


#: The methods that a class must have, with the names of their arguments.
NEEDED: dict[Kind, dict[str, tuple[str, ...]]] = {
    "scheduler": {"schedule": ("request", "subflows")},
    "congestion": {"on_ack": ("ack", "window"), "on_congestion": ("event", "window")},
    "abr": {"choose": ("player",)},
}
OPTIONAL: dict[Kind, dict[str, tuple[str, ...]]] = {
    "scheduler": {
        "on_sent": ("subflow", "from_byte", "sent_bytes"),
        "on_data_ack": ("now_ms", "data_una"),
        "on_penalised": ("subflow",),
        "on_event": ("now_ms", "subflow", "event"),
    },
    "congestion": {
        "on_rto": ("event", "window"),
        "on_lost": ("segment", "window"),
        "on_state": ("state", "window"),
        "on_transmit_start": ("start", "window"),
        "on_idle_restart": ("now_ms",),
        "on_window_changed": ("cause", "window"),
        "undo_cwnd": ("window", "prior_cwnd"),
    },
    "abr": {"on_chunk": ("chunk",), "abandons": ("player", "loading")},
}
#: The optional attributes of a class.
ATTRIBUTES: dict[Kind, tuple[str, ...]] = {
    "scheduler": ("wants_idle", "reinjects", "builds_on"),
    "congestion": (
        "pacing_rate_mbps",
        "published_rate_mbps",
        "owns_recovery",
        "send_buffer_factor",
        "marks_application_limited",
        "wants_siblings",
        "counts_marks",
        "builds_on",
    ),
    "abr": (),
}
_NOUNS: dict[Kind, str] = {
    "scheduler": "a scheduler",
    "congestion": "a congestion control",
    "abr": "an ABR rule",
}


def is_one(plugin: type, kind: Kind) -> bool:
    """Return whether a class has the methods that its kind needs."""
    return all(callable(getattr(plugin, name, None)) for name in _needed(plugin, kind))


def _needed(plugin: type, kind: Kind) -> dict[str, tuple[str, ...]]:
    """Return the required methods: none for a congestion control that builds on one of the table."""
    scheduler = callable(getattr(plugin, "schedule", None))
    return {} if kind == "congestion" and _builds(plugin) and not scheduler else NEEDED[kind]


def _also(plugin: type, kind: Kind) -> list[Kind]:
    """Return the other kinds whose methods a class has."""
    return [other for other in NEEDED if other != kind and is_one(plugin, other)]


def _builds(plugin: type) -> bool:
    """Return whether a class builds on a plug-in of the table."""
    return isinstance(getattr(plugin, "builds_on", None), str)


def faults(plugin: type, kind: Kind) -> list[PluginFault]:
    """Return the faults of a class's methods."""
    return [*_missing(plugin, kind), *_unfit(plugin, kind), *_unheard(plugin, kind)]


def _missing(plugin: type, kind: Kind) -> Iterator[PluginFault]:
    """Return the required methods that a class lacks."""
    where, line = place(plugin)
    for name, arguments in _needed(plugin, kind).items():
        if not callable(getattr(plugin, name, None)):
            hint = f"{_NOUNS[kind]} needs `{_call(name, arguments)}`"
            hint += "".join(f"; this is {_NOUNS[other]}" for other in _also(plugin, kind))
            message = f"no method `{name}` in class {plugin.__name__}"
            yield PluginFault(path=(), message=message, where=_show(where), line=line, hint=hint)


def _unfit(plugin: type, kind: Kind) -> Iterator[PluginFault]:
    """Return the methods that do not accept the arguments that they will receive."""
    for name, arguments in {**NEEDED[kind], **OPTIONAL[kind], **_built(plugin, kind)}.items():
        method = getattr(plugin, name, None)
        if not callable(method):
            continue
        static = isinstance(inspect.getattr_static(plugin, name), staticmethod | classmethod)
        given = arguments if static else ("self", *arguments)
        try:
            inspect.signature(method).bind(*given)
        except TypeError:
            where, line = place(plugin, name)
            message = f"{plugin.__name__}.{name} cannot be called with {', '.join(arguments)}"
            hint = f"def {_call(name, arguments)}"
            yield PluginFault(path=(), message=message, where=_show(where), line=line, hint=hint)
        except ValueError:  # not written in Python, so its arguments are unknown
            continue


def _built(plugin: type, kind: Kind) -> dict[str, tuple[str, ...]]:
    """Return the methods whose arguments differ because a scheduler builds on one of the table."""
    builds = kind == "scheduler" and _builds(plugin)
    return {"schedule": ("request", "subflows", "proposal")} if builds else {}


def _unheard(plugin: type, kind: Kind) -> Iterator[PluginFault]:
    """Return the methods that begin with `on_` and are never called."""
    known = {**NEEDED[kind], **OPTIONAL[kind]}
    for other in _also(plugin, kind):
        known |= NEEDED[other] | OPTIONAL[other]
    for name in dir(plugin):
        if name.startswith("on_") and name not in known:
            where, line = place(plugin, name)
            hint = did_you_mean(name, [key for key in known if key.startswith("on_")])
            message = f"nothing calls `{name}` of {_NOUNS[kind]}"
            yield PluginFault(path=(), message=message, where=_show(where), line=line, hint=hint)


def _call(name: str, arguments: tuple[str, ...]) -> str:
    """Return a method's call as text: its name with its arguments."""
    return f"{name}({', '.join(('self', *arguments))})"


def place(plugin: type, method: str | None = None) -> tuple[Path, int | None]:
    """Return the file and line of a class, or of one of its methods."""
    found = getattr(plugin, method, None) if method else None
    for thing in (found, plugin):
        if not callable(thing):
            continue
        try:
            file = inspect.getsourcefile(thing)
            if file is not None:
                return Path(file), inspect.getsourcelines(thing)[1]
        except (OSError, TypeError):  # built in, or the source is gone
            continue
    return Path(plugin.__module__), None


def _show(file: Path) -> str:
    """Return a file's name as a person would type it here."""
    return str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)


def _constructor(plugin: type) -> dict[str, inspect.Parameter] | None:
    """Return the constructor's parameters by name; None if they are unknown."""
    try:
        return dict(inspect.signature(plugin).parameters)
    except (TypeError, ValueError):
        return None


def takes_rng(plugin: type) -> bool:
    """Return whether a constructor asks for a source of randomness."""
    return "rng" in (_constructor(plugin) or {})


def parameters(plugin: type) -> list[Parameter]:
    """Return the parameters of a class that a scenario may set."""
    result = []
    for key, parameter in (_constructor(plugin) or {}).items():
        if key != "rng" and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            default = "needed" if parameter.default is parameter.empty else repr(parameter.default)
            kind = parameter.annotation
            allowed = "any" if kind is parameter.empty else getattr(kind, "__name__", str(kind))
            result.append(Parameter(key=key, default=default, allowed=allowed))
    return result


def summary(plugin: type) -> str:
    """Return the first sentence of a class's documentation."""
    text = " ".join((inspect.getdoc(plugin) or "").split("\n\n")[0].split())
    return text.partition(". ")[0].removesuffix(".") + "." if text else ""


def parameter_faults(plugin: type, name: str, given: Mapping[str, Any]) -> Iterator[PluginFault]:
    """Yield a fault for each unknown parameter of a constructor, and for each missing one."""
    taken = _constructor(plugin)
    if "base" in given:
        message = f"a plug-in in Python cannot have a base: {name}"
        yield PluginFault(path=("base",), message=message)
    if taken is None:
        return
    known = tuple(parameter.key for parameter in parameters(plugin))
    more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    for key in given:
        if key != "base" and key not in known and not (more and key != "rng"):
            message = f"unknown parameter of {name}: `{key}`"
            yield PluginFault(path=(key,), message=message, known=known)
    for parameter in parameters(plugin):
        if parameter.default == "needed" and parameter.key not in given:
            message = f"missing parameter of {name}: `{parameter.key}`"
            close = nearest(parameter.key, given)
            hint = f"`{close}` is given" if close else f"its constructor has no default for `{parameter.key}`"
            yield PluginFault(path=(), message=message, hint=hint)
