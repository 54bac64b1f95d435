"""A scenario as validated, frozen values: one class per table of the file.

Every quantity is a string with a unit in the file and a whole number in the plan's unit here. The
classes check single keys; checks that involve several keys are in `_cross`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from anabranch.scenario import defaults, limits, presets, profiles, units
from anabranch.scenario._base import (
    LimitedRate,
    Name,
    PositiveTime,
    Rate,
    Share,
    Size,
    Time,
    quantity,
)
from anabranch.scenario._base import Table as Table
from anabranch.scenario.handoff import Handoff as Handoff
from anabranch.scenario.link_models import Model, TraceFile
from anabranch.scenario.players import Player as Player
from anabranch.scenario.queues import USUAL_LIMIT, AnyQueue


class GilbertElliott(Table):
    """Bursty loss: two states, each with its own chance that a packet survives."""

    model: Literal["gilbert-elliott"]
    p: Share = Field(description="chance per packet to go from the good state to the bad one")
    r: Share = Field(description="chance per packet to go from the bad state to the good one")
    h: Share = Field(default=0.0, description="chance that a packet survives in the bad state")
    k: Share = Field(default=1.0, description="chance that a packet survives in the good state")


def _kind_of_loss(value: object) -> str:
    """Distinguish a loss given as a table from a percentage."""
    return "<model>" if isinstance(value, dict | GilbertElliott) else "<share>"


Loss = Annotated[
    Annotated[Share, Tag("<share>")] | Annotated[GilbertElliott, Tag("<model>")],
    Discriminator(_kind_of_loss),
]
LossAt = Literal["exit", "entry"]
RtoMax = Annotated[int, quantity(units.time_ns), Field(ge=limits.LEAST_RTO_MAX_NS, le=limits.MOST_RTO_MAX_NS)]
AttemptDelay = Annotated[
    int,
    quantity(units.time_ns),
    Field(ge=limits.LEAST_ATTEMPT_DELAY_NS, le=limits.MOST_ATTEMPT_DELAY_NS),
]
Mtu = Annotated[int, quantity(units.size_bytes), Field(ge=limits.LEAST_MTU, le=65_535)]
Family = Literal["ipv4", "ipv6"]


class Reorder(Table):
    """The share of packets that are delayed so that later ones overtake them."""

    share: Share = Field(description="chance per packet to fall behind")
    delay: PositiveTime = Field(description="how much later than in its turn it arrives")
    gap: Annotated[int, Field(ge=1, le=10**9)] = Field(
        default=1, description="the least number of packets from one to the next"
    )


class Corrupt(Table):
    """The share of packets that are corrupted, some of which are delivered."""

    share: Share = Field(description="chance per packet to be corrupted")
    passes: Share = Field(
        default=0.0,
        description="share of those that arrive with a byte of payload changed, undetected by TCP",
    )


def _kind_of_corrupt(value: object) -> str:
    """Distinguish corruption given as a table from a percentage."""
    return "<model>" if isinstance(value, dict | Corrupt) else "<share>"


AnyCorrupt = Annotated[
    Annotated[Share, Tag("<share>")] | Annotated[Corrupt, Tag("<model>")],
    Discriminator(_kind_of_corrupt),
]


class Direction(Table):
    """One direction of a path or link. Missing keys are taken from the keys for both directions."""

    rate: Rate = Field(default=None, description="bit rate, counting IP bytes")
    delay: Time | None = Field(default=None, description="one-way propagation delay")
    jitter: Time | None = Field(default=None, description="spread of the delay")
    loss: Loss | None = Field(default=None, description="random loss")
    loss_at: LossAt | None = Field(default=None, description="behind the queue or in front of it")
    queue: AnyQueue = Field(default=None, description="the queue: packets or bytes, or a table")
    reorder: Reorder | None = Field(default=None, description="packets that fall behind")
    duplicate: Share | None = Field(default=None, description="share of packets that arrive twice")
    corrupt: AnyCorrupt | None = Field(default=None, description="share of packets corrupted on the way")
    mtu: Mtu | None = Field(default=None, description="largest packet that passes, headers included")
    icmp: bool | None = Field(default=None, description="senders of larger ones are told")
    trace: TraceFile | None = Field(default=None, description="a recording that it follows")


class LinkKeys(Table):
    """The keys of a path's own link and of a shared link."""

    name: Name
    rate: Rate = Field(default=None, description="bit rate of each direction")
    jitter: Time = Field(default=0, description="spread of the delay, each direction")
    loss: Loss | None = Field(default=None, description="random loss, server to client")
    loss_at: LossAt = Field(default="exit", description="behind the queue or in front of it")
    queue: AnyQueue = Field(default=USUAL_LIMIT, description="the queue of each direction")
    reorder: Reorder | None = Field(default=None, description="packets that fall behind, server to client")
    duplicate: Share = Field(default=0.0, description="share that arrives twice, server to client")
    corrupt: AnyCorrupt = Field(default=0.0, description="share corrupted on the way, server to client")
    mtu: Mtu | None = Field(default=None, description="largest packet that passes, headers included")
    icmp: bool = Field(default=True, description="senders of larger ones are told")
    model: Model | None = Field(default=None, description="a radio or satellite that it follows, both ways")
    trace: TraceFile | None = Field(default=None, description="a recording that each direction follows")
    down: Direction = Field(default=Direction(), description="server to client, where it differs")
    up: Direction = Field(default=Direction(), description="client to server, where it differs")


class Link(LinkKeys):
    """A link that several paths or clients share, one queue in each direction."""

    delay: Time = Field(default=0, description="one-way propagation delay")


SegmentKind = Literal["syn", "syn-ack", "third-ack", "data"]


def _kind_of_strips(value: object) -> str:
    """Distinguish a list of kinds of segments from a word for all or none."""
    return "<kinds>" if isinstance(value, list) else "<all>"


AnyStrips = Annotated[
    Annotated[bool, Tag("<all>")] | Annotated[list[SegmentKind], Tag("<kinds>")],
    Discriminator(_kind_of_strips),
]


class Path(LinkKeys):
    """A path: a pair of addresses and the links between. Its keys describe a link that no other path uses."""

    rtt: Time | None = Field(default=None, description="round-trip propagation delay, half each way")
    family: Family = Field(default="ipv4", description="what its addresses are of")
    links: list[str] | None = Field(default=None, description="shared links, from server to client")
    links_down: list[str] | None = Field(default=None, description="shared links, server to client only")
    links_up: list[str] | None = Field(default=None, description="shared links, client to server only")
    backup: bool = Field(default=False, description="use only when no other path works")
    price_per_gb: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)] | None = Field(
        default=None, description="what a gigabyte of payload costs, in whatever currency"
    )
    cap_gb_per_month: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)] | None = Field(
        default=None, description="gigabytes of payload that the path may carry in a month"
    )
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)] | None = Field(
        default=None, description="how much a gigabyte counts against the path among equal choices"
    )
    strips_mptcp: AnyStrips = Field(default=False, description="a middlebox takes MPTCP's options out")
    drops_mptcp: bool = Field(default=False, description="a firewall drops every SYN with an MPTCP option")
    emulator_seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        default=None, description="losses and jitter as the laboratory's emulator draws them from this seed"
    )


class Plugin(Table):
    """A plug-in by name, with its own parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str


def _plugin(value: object) -> object:
    """Read a plug-in: a name, or a table with a name and parameters."""
    return {"name": value} if isinstance(value, str) else value


NamedPlugin = Annotated[Plugin, BeforeValidator(_plugin)]


def _usual(key: defaults.PluginKey) -> Plugin:
    return Plugin(name=defaults.plugin(key))


class Rung(Table):
    """A rendition of a ladder by numbers."""

    height: Annotated[int, Field(ge=1, le=10_000)]
    bitrate: LimitedRate


class Numbers(Table):
    """A ladder by numbers: its renditions, or a master playlist whose chunks are not read."""

    renditions: Annotated[tuple[Rung, ...], Field(strict=False, min_length=1, max_length=50)] | None = Field(
        default=None, description="height and mean rate of each rendition"
    )
    master: str | None = Field(default=None, description="path or URL of a master playlist")
    chunk: PositiveTime = Field(default=4 * 10**9, description="length of a chunk")
    length: PositiveTime = Field(default=600 * 10**9, description="length of the film")
    spread: Annotated[Share, Field(ge=0, lt=1)] = Field(
        default=0.2, description="largest difference of a chunk's size from the mean"
    )
    sound: LimitedRate | None = Field(default=None, description="rate of separate sound")
    sizes: Annotated[tuple[Annotated[float, Field(gt=0, le=100)], ...], Field(strict=False)] = Field(
        default=(), description="sizes of the first chunks over the mean of their rendition"
    )


def _kind_of_ladder(value: object) -> str:
    """Distinguish a ladder by numbers from a name."""
    return "<numbers>" if isinstance(value, dict | list | Numbers) else "<name>"


def _numbers(value: object) -> object:
    """Read renditions alone as a table with them."""
    return {"renditions": value} if isinstance(value, list) else value


AnyLadder = Annotated[
    Annotated[str, Tag("<name>")] | Annotated[Numbers, BeforeValidator(_numbers), Tag("<numbers>")],
    Discriminator(_kind_of_ladder),
]


class Application(Table):
    """The client's request to the server."""

    kind: Literal["progressive", "adaptive", "bulk", "paced"] = Field(
        default="progressive",
        description="play a film, or one at several rates, read as fast as possible, or read at a rate",
    )
    film: str | None = Field(default=None, description="name of a film, or path of a video file")
    ladder: AnyLadder | None = Field(
        default=None, description="name of a ladder, path or URL of a master playlist, or its numbers"
    )
    abr: NamedPlugin = Field(default=Plugin(name="vlc-nearoptimal"), description="which rendition is next")
    rate: LimitedRate | None = Field(default=None, description="rate of a paced application")
    duration: PositiveTime | None = Field(default=None, description="how long the session may last")
    bytes: Size | None = Field(default=None, description="how much a bulk or paced application reads")
    player: Player = Player()

    @property
    def ladder_name(self) -> str | None:
        """The ladder's name, or the path or URL of its master playlist; None for a ladder by numbers."""
        return self.ladder.master if isinstance(self.ladder, Numbers) else self.ladder


class Buffer(Table):
    """A buffer that grows on demand."""

    initial: Size
    max: Size


EcnWord = Literal["off", "request", "accept"]


class Ecn(Table):
    """The use of explicit congestion notification on each side."""

    client: EcnWord = Field(default="accept", description="the hosts that open connections")
    server: EcnWord = Field(default="accept", description="the hosts that accept them")


def _kind_of_ecn(value: object) -> str:
    """Distinguish a table (one setting for each side) from a word (the same for both sides)."""
    return "<sides>" if isinstance(value, dict | Ecn) else "<word>"


AnyEcn = Annotated[
    Annotated[EcnWord, Tag("<word>")] | Annotated[Ecn, Tag("<sides>")], Discriminator(_kind_of_ecn)
]


class Transport(Table):
    """The transport at both ends."""

    profile: profiles.ProfileName = Field(default="linux-6.18", description="the kernel generation")
    stack: profiles.Stack = Field(default=profiles.Stack(), description="parts of it switched off")
    preset: presets.PresetName = Field(
        default="kernel", description="a named combination of scheduler, congestion control and timeouts"
    )
    scheduler: NamedPlugin = Field(default=_usual("scheduler"), description="who sends next")
    congestion: NamedPlugin = Field(default=_usual("congestion"), description="how much may be in flight")
    path_manager: NamedPlugin = Field(default=_usual("path_manager"), description="which subflows to open")
    multipath: bool | None = Field(
        default=None, description="false is plain TCP over the first path; default: with two paths or more"
    )
    receive_buffer: Size = Field(
        default=defaults.size("receive_buffer"), description="largest receive buffer"
    )
    receive_buffer_initial: Size = Field(
        default=defaults.size("receive_buffer_initial"), description="receive buffer at the start"
    )
    send_buffer: Size = Field(default=defaults.size("send_buffer"), description="largest send buffer")
    mss: Annotated[int, quantity(units.size_bytes), Field(ge=536, le=9000)] = Field(
        default=defaults.size("mss"), description="largest TCP payload before options"
    )
    checksum: bool = Field(default=False, description="DSS checksums")
    pacing: bool = Field(default=False, description="pace every subflow, whatever its congestion control")
    rto_max: RtoMax | None = Field(
        default=None, description="longest retransmission timeout (`tcp_rto_max_ms`)"
    )
    retries: Annotated[int, Field(ge=1, le=limits.MOST_RETRIES)] | None = Field(
        default=None, description="retransmission timeouts in a row that end a subflow (`tcp_retries2`)"
    )
    ecn: AnyEcn = Field(default="accept", description="explicit congestion notification (RFC 3168)")
    first_path: Literal["first", "race"] = Field(
        default="first", description="over which path a client opens its connections"
    )
    attempt_delay: AttemptDelay = Field(
        default=100 * 10**6, description="time between two attempts to connect in a race (RFC 8305)"
    )


Memory = Annotated[int, quantity(units.size_bytes), Field(ge=256, le=2**20)]


class Host(Table):
    """Properties of the computers at both ends beyond the protocol. The Rust module has the defaults."""

    timer_tick: Time | None = Field(default=None, description="granularity of the timers; 0 s is exact")
    clock_phase: Time | None = Field(
        default=None, description="where in a tick of the clock a run begins; drawn where it is not given"
    )
    one_processor: bool | None = Field(
        default=None, description="an application that is woken writes before another subflow is given data"
    )
    send_fragment: Memory | None = Field(
        default=None, description="pieces that written data is kept in and handed to subflows by"
    )
    send_memory_per_segment: Memory | None = Field(
        default=None, description="memory a send buffer grows by for each segment of the window"
    )
    send_memory_per_buffer: Memory | None = Field(
        default=None, description="memory of a burst on the send queue besides its payload"
    )
    receive_memory_per_segment: Memory | None = Field(default=None, description="memory of a full segment")


class CrossTraffic(Table):
    """Background traffic over links that the clients may use, TCP or datagrams, between separate hosts."""

    name: Name | None = Field(default=None, description="its name; default: cross-1, by its place")
    links: list[str] | None = Field(default=None, description="shared links, from server to client")
    path: str | None = Field(default=None, description="or the path whose links the flows cross")
    family: Family | None = Field(
        default=None, description="what the flows' addresses are of; default: the path's, else ipv4"
    )
    direction: Literal["down", "up"] = Field(
        default="down", description="which way the data goes: server to client, or client to server"
    )
    rtt: Time = Field(default=0, description="propagation delay of the flows' own, half each way")
    kind: Literal["bulk", "paced", "transfers", "udp", "on-off", "poisson"] = Field(
        default="bulk",
        description="TCP as fast as possible, at a rate, or in transfers that begin at random; "
        "datagrams at a rate, in bursts, or at random",
    )
    rate: LimitedRate | None = Field(
        default=None, description="rate of each flow that has one, of a burst while it lasts"
    )
    size: Annotated[int, quantity(units.size_bytes), Field(ge=64, le=9000)] | None = Field(
        default=None, description="size of a datagram's packet, headers included; default: 1,500 bytes"
    )
    on: PositiveTime | None = Field(default=None, description="mean length of a burst")
    off: PositiveTime | None = Field(default=None, description="mean silence between bursts")
    gap: PositiveTime | None = Field(
        default=None, description="mean time from one transfer's start to the next"
    )
    congestion: NamedPlugin = Field(default=_usual("congestion"), description="how much may be in flight")
    count: Annotated[int, Field(ge=1, le=limits.MOST_FLOWS)] = Field(default=1, description="how many flows")
    start: Time = Field(default=0, description="when the first begins, from the start of the simulation")
    duration: PositiveTime | None = Field(default=None, description="how long each lasts from its own start")
    bytes: Size | None = Field(default=None, description="how much each carries")


#: Kinds of cross traffic: the required keys of each, and the optional keys that only some kinds have.
CROSS_KINDS = {
    "bulk": ((), ("congestion", "count", "bytes")),
    "paced": (("rate",), ("congestion", "count", "bytes")),
    "transfers": (("gap", "bytes"), ("congestion",)),
    "udp": (("rate",), ("size", "count")),
    "on-off": (("rate", "on", "off"), ("size", "count")),
    "poisson": (("rate",), ("size", "count")),
}
#: The kinds that send datagrams.
DATAGRAMS = ("udp", "on-off", "poisson")
#: The default size of a datagram's packet, bytes.
DATAGRAM_BYTES = 1500


def cross_name(index: int, name: str | None) -> str:
    """Return the name of the flows of one table: the given name, or one made from the table's index."""
    return f"cross-{index + 1}" if name is None else name


class Event(Table):
    """A change of the world at a time."""

    at: Time = Field(description="when, counted from the start of the simulation")
    path: str | None = Field(default=None, description="the path that changes")
    link: str | None = Field(default=None, description="or the link that changes")
    direction: Literal["down", "up", "both"] | None = Field(
        default=None, description="server to client, client to server, or both (default; loss: down)"
    )
    state: Literal["down", "link-down", "removed", "up"] | None = Field(
        default=None,
        description="lost silently, or with the client's interface, or with its end point; or back again",
    )
    rate: LimitedRate | None = None
    rtt: Time | None = Field(default=None, description="new round-trip delay of a path")
    delay: Time | None = Field(default=None, description="new one-way delay")
    loss: Loss | None = None
    mtu: Mtu | None = Field(default=None, description="new size of the largest packet that passes")


class Bounds(Table):
    """The bounds of a metric."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    min: Annotated[float, Field(allow_inf_nan=False)] | None = None
    max: Annotated[float, Field(allow_inf_nan=False)] | None = None
    equals: Annotated[float, Field(allow_inf_nan=False)] | bool | None = None


def _bounds(value: object) -> object:
    """Read an expectation: a table of bounds, or the expected value itself."""
    return {"equals": value} if isinstance(value, bool | int | float) else value


class Cost(Table):
    """Money and time for verdicts on paths, without an effect on any run."""

    currency: str = Field(default="", max_length=10, description="the currency of prices")
    hours_per_month: Annotated[float, Field(gt=0, le=744, allow_inf_nan=False, strict=False)] = Field(
        default=30.0, description="hours of use in a month, for caps"
    )


class Scenario(Table):
    """A scenario: the server's clients, their application, and the paths between."""

    name: Name
    description: str = ""
    clients: Annotated[int, Field(ge=1, le=limits.MOST_CLIENTS)] = 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    time_limit: PositiveTime | None = Field(default=None, description="stop the simulation at the latest")
    application: Application = Application()
    paths: Annotated[tuple[Path, ...], Field(min_length=1, max_length=limits.MOST_PATHS, strict=False)]
    links: Annotated[tuple[Link, ...], Field(strict=False)] = ()
    transport: Transport = Transport()
    host: Host = Host()
    cross_traffic: Annotated[tuple[CrossTraffic, ...], Field(strict=False)] = ()
    events: Annotated[tuple[Event, ...], Field(strict=False)] = ()
    handoffs: Annotated[tuple[Handoff, ...], Field(strict=False)] = ()
    record: Annotated[tuple[Literal["receiver"], ...], Field(strict=False)] = Field(
        default=(), description="what else is written into the trace"
    )
    cost: Cost = Cost()
    expect: dict[str, Annotated[Bounds, BeforeValidator(_bounds)]] = Field(default={})

    @model_validator(mode="before")
    @classmethod
    def _profile(cls, raw: object) -> object:
        return profiles.with_defaults(raw)
