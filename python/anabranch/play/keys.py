"""The keys of the page's set-up: label, range, and the key of a scenario that each one writes.

The page, its links and the command line read this table. No other code has a list of these keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from anabranch.plugins import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The parts of a set-up. A path has its own part.
Section = Literal["session", "application", "transport", "path"]
SECTIONS: tuple[Section, ...] = ("session", "application", "transport", "path")

#: The most paths that the page offers.
MOST_PATHS = 4
#: How a cut takes a path away, with the words of the page; the keys are states of a scenario's events.
CUTS: Mapping[str, str] = {
    "down": "silently: no host notices",
    "link-down": "the client's interface goes down",
    "removed": "the client also withdraws the address",
}
#: The names of paths in a new set-up.
PATH_NAMES = ("wifi", "lte", "starlink", "ethernet")


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key of the set-up.

    Attributes
    ----------
    id
        Its name in a set-up and in a link.
    section
        The part of the set-up that it is in.
    label, help
        The words of the page.
    toml
        The key of the scenario, as the steps from the table of its section.
    default
        The value in a new set-up: a number, a word, or true or false.
    write
        The form of the value in a scenario: `{} ms`; empty for a bare value.
    unit
        The unit that the page shows.
    least, most, step
        The range of a number, and the distance between two of its values.
    choices
        The permitted words, each with a description.
    when
        Another key of the same section, and the values of it with which this key exists.
    omit
        Whether a scenario leaves the key out at its default.
    more
        Whether the page hides it under "More".
    """

    id: str
    section: Section
    label: str
    toml: tuple[str, ...]
    default: float | str | bool
    help: str = ""
    write: str = ""
    unit: str = ""
    least: float = 0
    most: float = 0
    step: float = 1
    choices: tuple[tuple[str, str], ...] = ()
    when: tuple[str, tuple[str, ...]] | None = None
    omit: bool = False
    more: bool = False

    @property
    def kind(self) -> str:
        """Return the kind of control: `choice`, `flag`, `number` or `text`."""
        if self.choices:
            return "choice"
        if isinstance(self.default, bool):
            return "flag"
        return "text" if isinstance(self.default, str) else "number"

    def permits(self, value: float) -> bool:
        """Return whether a number is in the key's range and on one of its steps."""
        steps = (value - self.least) / self.step
        return self.least <= value <= self.most and abs(steps - round(steps)) < 1e-6

    def applies(self, part: Mapping[str, Any]) -> bool:
        """Return whether the key exists in a part of a set-up."""
        if self.when is None:
            return True
        other, values = self.when
        return part.get(other, BY_ID[self.section, other].default) in values

    def written(self, value: object) -> Any:  # noqa: ANN401 - of many types
        """Return a value as a scenario has it."""
        return self.write.format(value) if self.write else value


def _named(table: str, *names: str) -> tuple[tuple[str, str], ...]:
    """Return the plug-ins of a table with their summaries, or only the named ones."""
    return tuple((name, summary) for name, summary, *_ in listed(table) if not names or name in names)


_FILM, _LADDER, _BULK = ("kind", ("progressive",)), ("kind", ("adaptive",)), ("kind", ("bulk",))
_WIFI = ("wifi-ac", "wifi-n", "wifi-g", "wifi-a")
_MODELS = (*_WIFI, "lte", "starlink")


def _session() -> list[Key]:
    """Return the keys of the session itself."""
    return [
        Key(id="name", section="session", label="Name", toml=("name",), default="my-scenario"),
        Key(id="seed", section="session", label="Seed", toml=("seed",), default=1, most=999_999_999,
            help="another seed is other luck: other losses, other jitter"),
        Key(id="limit", section="session", label="Stop at the latest after", toml=("time_limit",),
            default=900, write="{} s", unit="s", least=1, most=7200, more=True,
            help="the session ends here even if the film has not"),
    ]  # fmt: skip


def _application() -> list[Key]:
    """Return the keys of the application."""
    section: Section = "application"
    return [
        Key(id="kind", section=section, label="Stream", toml=("kind",), default="progressive",
            choices=(("progressive", "Film (VLC)"),
                     ("adaptive", "Ladder (HLS)"),
                     ("bulk", "File, in bulk"))),
        Key(id="film", section=section, label="Film", toml=("film",), default="demo", when=_FILM,
            choices=(("demo", "60 s, 5.2 Mbit/s"), ("leo24-film", "3 min, 5.2 Mbit/s"),
                     ("papers-film", "10 min, 5.2 Mbit/s"))),
        Key(id="ladder", section=section, label="Ladder", toml=("ladder",), default="uq18-va", when=_LADDER,
            choices=(("uq18-va", "5 min, 0.5 to 12 Mbit/s"), ("uq18-jp", "10 min, 0.2 to 3.3 Mbit/s"))),
        Key(id="abr", section=section, label="Rate adaptation", toml=("abr",), default="vlc-nearoptimal",
            when=_LADDER, choices=_named("abr_rules")),
        Key(id="player", section=section, label="Player", toml=("player", "model"), default="vlc",
            when=_LADDER, choices=(("vlc", "VLC"), ("hlsjs", "hls.js, in a browser"))),
        Key(id="bytes", section=section, label="Size", toml=("bytes",), default=40, write="{} MB", unit="MB",
            least=0.1, most=2000, step=0.1, when=_BULK),
        Key(id="prefetch", section=section, label="Read ahead", toml=("player", "prefetch"), default=16,
            write="{} MiB", unit="MiB", least=0.25, most=64, step=0.25, when=_FILM, more=True,
            help="how much VLC reads before it needs it"),
        Key(id="cache", section=section, label="Buffer before playing", toml=("player", "network_cache"),
            default=1000, write="{} ms", unit="ms", least=100, most=30_000, step=100, when=_FILM, more=True),
    ]  # fmt: skip


def _transport() -> list[Key]:
    """Return the keys of the transport."""
    section: Section = "transport"
    return [
        Key(id="profile", section=section, label="Kernel", toml=("profile",), default="linux-6.18",
            choices=_named("profiles"), more=True),
        Key(id="scheduler", section=section, label="Scheduler", toml=("scheduler",), default="linux",
            choices=_named("schedulers"), help="which path sends next"),
        Key(id="congestion", section=section, label="Congestion control", toml=("congestion",),
            default="cubic", choices=_named("congestion_controls"), help="how much may be on its way"),
        Key(id="receive_buffer", section=section, label="Receive buffer", toml=("receive_buffer",),
            default=6144, write="{} KiB", unit="KiB", least=32, most=65_536, step=1,
            help="what the client can hold; a slow path fills it while the fast one waits"),
        Key(id="send_buffer", section=section, label="Send buffer", toml=("send_buffer",), default=4096,
            write="{} KiB", unit="KiB", least=32, most=65_536, step=1, more=True),
        Key(id="path_manager", section=section, label="Subflows", toml=("path_manager",),
            default="full-mesh", choices=_named("path_managers", "full-mesh", "none"), more=True),
    ]  # fmt: skip


def _path() -> list[Key]:
    """Return the keys of a path."""
    section: Section = "path"
    plain = ("model", ("",))
    return [
        Key(id="name", section=section, label="Name", toml=("name",), default=PATH_NAMES[0]),
        Key(id="model", section=section, label="Link", toml=("model", "name"), default="", omit=True,
            choices=(("", "Fixed rate"), ("wifi-ac", "WiFi 802.11ac"), ("wifi-n", "WiFi 802.11n"),
                     ("wifi-g", "WiFi 802.11g"), ("wifi-a", "WiFi 802.11a"),
                     ("lte", "LTE in a moving car"), ("starlink", "Starlink"))),
        Key(id="rate", section=section, label="Rate", toml=("rate",), default=5, write="{} Mbit/s",
            unit="Mbit/s", least=0.1, most=1000, step=0.1, when=plain),
        Key(id="cap", section=section, label="Rate limit", toml=("rate",), default=0, write="{} Mbit/s",
            unit="Mbit/s", most=1000, step=0.1, when=("model", _MODELS), omit=True,
            help="0: no limit besides the radio's"),
        Key(id="rtt", section=section, label="Round trip", toml=("rtt",), default=50, write="{} ms",
            unit="ms", most=2000, step=0.1, help="without queues"),
        Key(id="loss", section=section, label="Loss", toml=("loss",), default=0, write="{} %", unit="%",
            most=50, step=0.01, omit=True, help="server to client, at random"),
        Key(id="queue", section=section, label="Queue", toml=("queue",), default=100, write="{} packets",
            unit="packets", least=1, most=10_000),
        Key(id="queue_bytes", section=section, label="Queue in bytes", toml=("queue",), default=0,
            write="{} kB", unit="kB", most=100_000, omit=True, more=True,
            help="replaces the limit in packets; 0: not used"),
        Key(id="jitter", section=section, label="Jitter", toml=("jitter",), default=0, write="{} ms",
            unit="ms", most=500, step=0.1, omit=True, more=True),
        Key(id="upload", section=section, label="Upload rate", toml=("up", "rate"), default=0,
            write="{} Mbit/s", unit="Mbit/s", most=1000, step=0.1, when=plain, omit=True, more=True,
            help="0: as fast as downwards"),
        Key(id="snr", section=section, label="Signal to noise", toml=("model", "snr"), default=35,
            write="{} dB", unit="dB", most=60, step=0.5, when=("model", _WIFI), omit=True,
            help="near the access point 35 dB, at the edge of its reach 10 dB"),
        Key(id="fading", section=section, label="Fading", toml=("model", "fading"), default=3,
            write="{} dB", unit="dB", most=20, step=0.5, when=("model", _WIFI), omit=True, more=True),
        Key(id="phase", section=section, label="First handover after", toml=("model", "phase"), default=3,
            write="{} s", unit="s", most=14.9, step=0.1, when=("model", ("starlink",)), more=True,
            help="then every 15 s"),
        Key(id="backup", section=section, label="Only if no other path works", toml=("backup",),
            default=False, omit=True, more=True),
    ]  # fmt: skip


#: Every key, in the order in which the page shows them and plans apply them.
KEYS: tuple[Key, ...] = (*_session(), *_application(), *_transport(), *_path())
BY_ID: Mapping[tuple[str, str], Key] = {(key.section, key.id): key for key in KEYS}


def of(section: Section) -> list[Key]:
    """Return the keys of a section."""
    return [key for key in KEYS if key.section == section]
