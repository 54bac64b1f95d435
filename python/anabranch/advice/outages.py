"""The ranked rules for outages: the kernel's, the kernel's with a cap on timeouts, and our endpoint's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, did_you_mean
from anabranch.scenario import linux_timeouts, profiles, units
from anabranch.scenario.linux_timeouts import MOST_RETRIES, RETRIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The column that names the rules of a run.
COLUMN = "outages"
#: The states of a path in which no packet passes.
_LOST = ("down", "link-down", "removed")
#: The link models with outages.
_MODELS = ("lte", "5g", "starlink")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """TCP's behaviour when a path returns after an outage.

    Attributes
    ----------
    name
        `kernel`, `cap` or `dsack`; `own` if they are those of the scenario.
    keys
        The dotted keys of `[transport]` that these rules set, with their values.
    rto_max_ns
        The longest retransmission timeout; None is the kernel's 120 s.
    retries
        The retries that end a connection; None is the default.
    outage
        `transport.stack.outage`.
    has_probe
        BBR searches for its minimum RTT after an outage, as in the kernel.
    word
        The rules in words; None if nothing is set.
    """

    name: str
    keys: tuple[tuple[str, Any], ...] = ()
    rto_max_ns: int | None = None
    retries: int | None = None
    outage: str = "kernel"
    has_probe: bool = True
    word: str | None = None

    @property
    def in_kernel(self) -> bool:
        """Whether mainline Linux can apply these rules with `sysctl`."""
        return self.outage == "kernel" and self.has_probe

    @property
    def are_set(self) -> bool:
        """Whether they differ from the kernel's default in more than the number of retries."""
        return self.rto_max_ns is not None or not self.in_kernel

    @property
    def are_video(self) -> bool:
        """Whether the preset `video` sets the same rules."""
        same = (self.rto_max_ns, self.outage, self.has_probe)
        return same == (DSACK.rto_max_ns, DSACK.outage, DSACK.has_probe)

    def lacking(self) -> list[str]:
        """Return the keys that mainline kernels lack, as text."""
        found = [] if self.outage == "kernel" else [f'stack.outage = "{self.outage}"']
        return found if self.has_probe else [*found, "stack.outage_probe = false"]

    def sysctl(self) -> list[str]:
        """Return the commands for a mainline kernel, with comments."""
        settings = linux_timeouts.settings(self.rto_max_ns, self.retries)
        if not settings:
            return []
        given = (f"net.{name.replace('/', '.')}={value}" for name, value in settings.items())
        command = " ".join(["sysctl -w", *given])
        if self.rto_max_ns is None:
            return [command]
        longest_s = self.rto_max_ns / 1e9
        usual, most = (linux_timeouts.lasting_s(one, longest_s) for one in (RETRIES, MOST_RETRIES))
        each = f"at {longest_s:g} s each, the kernel's {RETRIES} end a"
        lasts = f"{MOST_RETRIES} is the most and lasts {most:.0f} s."
        return [
            f"# Linux 6.15 or newer. The retries must be raised with it: {each}",
            f"# connection after {usual:.0f} s of silence. {lasts}",
            command,
        ]


def _of_transport(
    name: str,
    transport: Mapping[str, Any],
    *,
    keys: tuple[tuple[str, Any], ...] = (),
    word: str | None = None,
) -> Rules:
    """Return the rules of a `[transport]` table, preset included."""
    filled: Any = profiles.with_defaults({"transport": transport})
    stack, longest = filled["transport"].get("stack", {}), filled["transport"].get("rto_max")
    longest_ns = None if longest is None else units.time_ns(longest)
    return Rules(
        name=name,
        keys=keys,
        rto_max_ns=None if longest_ns == units.time_ns(linux_timeouts.RTO_MAX) else longest_ns,
        retries=filled["transport"].get("retries"),
        outage=stack.get("outage", "kernel"),
        has_probe=stack.get("outage_probe") is not False,
        word=word,
    )


def _named(name: str, word: str, **keys: object) -> Rules:
    """Return the rules that some keys of `[transport]` set."""
    return _of_transport(name, keys, keys=tuple(keys.items()), word=word)


#: Nothing is set.
KERNEL = Rules(name="kernel")
#: The cap that `sysctl` sets on Linux, with as many retries as Linux accepts.
CAP = _named("cap", "rto_max 1 s", rto_max="1 s", retries=MOST_RETRIES)
#: Rules that only our endpoint has. The candidate's scheduler and control take precedence over the preset's.
DSACK = _named("dsack", "rto_max 1 s, outage dsack", preset="video")
NAMED = {rules.name: rules for rules in (KERNEL, CAP, DSACK)}


def faults(raw: Mapping[str, Any], asked: Sequence[str]) -> list[Fault]:
    """Return the faults of requested rules: unknown names, and a scenario that already sets rules.

    Parameters
    ----------
    raw
        The tables of a valid scenario.
    asked
        Names; none is the default.
    """
    found = [
        Fault(
            message=f"no such rules for outages: `{name}`",
            where=f"--outages {name}",
            hint=did_you_mean(name, NAMED),
        )
        for name in dict.fromkeys(asked)
        if name not in NAMED
    ]
    own = _own_keys(raw)
    if asked and own:
        keys = ", ".join(f"transport.{key}" for key in own)
        hint = "leave --outages out to rank with these keys, or take them out of the scenario"
        message = f"the scenario already sets rules for outages: {keys}"
        found.append(Fault(message=message, where=f"--outages {','.join(asked)}", hint=hint))
    return found


def of(raw: Mapping[str, Any], asked: Sequence[str]) -> tuple[Rules, ...]:
    """Return the rules to rank for a scenario.

    Parameters
    ----------
    raw
        The tables of a valid scenario.
    asked
        Valid names. Empty means all if a path may go down and return, and otherwise the kernel's only.
    """
    if _own_keys(raw):
        return (_of_transport("own", raw["transport"]),)
    if asked:
        return tuple(NAMED[name] for name in dict.fromkeys(asked))
    return tuple(NAMED.values()) if may_fall_silent(raw) else (KERNEL,)


def may_fall_silent(raw: Mapping[str, Any]) -> bool:
    """Return whether an event takes a path down, or a path follows a recording or a radio model."""
    from anabranch.scenario import _follow, link_models

    if raw.get("handoffs") or any(_is_silent(event) for event in raw.get("events", ())):
        return True
    tables = [table for _, table in _follow.places(dict(raw))]
    models = [link_models.expanded(table.get("model")) for table in tables]
    return any("trace" in table for table in tables) or any(
        model is not None and model["name"] in _MODELS for model in models
    )


def _is_silent(event: Mapping[str, Any]) -> bool:
    """Return whether no packet passes after an event."""
    loss = event.get("loss")
    loses_all = loss is not None and not isinstance(loss, dict) and units.fraction(loss) >= 1
    return event.get("state") in _LOST or loses_all


def _own_keys(raw: Mapping[str, Any]) -> list[str]:
    """Return the keys for outages that a scenario sets itself."""
    transport = raw.get("transport", {})
    stack = transport.get("stack", {})
    found = [key for key in ("preset", "rto_max", "retries") if key in transport]
    return [*found, *(f"stack.{key}" for key in ("outage", "outage_probe") if key in stack)]
