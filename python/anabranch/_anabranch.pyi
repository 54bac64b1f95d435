"""The Rust side: the simulator and the tables of plug-ins."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, final

class PlanError(ValueError):
    """The plan is refused: a parameter that its plug-in does not know, a value out of range."""

    #: For each fault the keys of the plan that lead to it, what it is, and what could have been meant.
    faults: list[tuple[tuple[str | int, ...], str, list[str]]]

class SimulationError(RuntimeError):
    """A checker found the simulation to be wrong: a bug, never the user's fault."""

class RaisedError(RuntimeError):
    """A plug-in in Python raised: its kind, its name, its exception."""

class AnswerError(RuntimeError):
    """A plug-in in Python gave a wrong answer: its kind, its name, the method, what is wrong."""

@final
class SubflowView:
    """What a scheduler may know of a subflow: a frozen copy."""

    def __init__(self, **given: object) -> None: ...
    @property
    def id(self) -> int:
        """Which subflow; they are numbered from 0 in the order of their creation."""
    @property
    def srtt_ms(self) -> float:
        """Smoothed RTT, ms; 0 before the first sample."""
    @property
    def rttvar_ms(self) -> float:
        """RTT variation, ms."""
    @property
    def min_rtt_ms(self) -> float:
        """Minimum RTT, ms."""
    @property
    def cwnd_segments(self) -> int:
        """Congestion window, segments."""
    @property
    def ssthresh_segments(self) -> int:
        """Slow-start threshold, segments."""
    @property
    def in_flight_segments(self) -> int:
        """Segments in flight."""
    @property
    def queued_bytes(self) -> int:
        """Bytes handed to the subflow and not sent yet."""
    @property
    def queued_memory_bytes(self) -> int:
        """Memory of all data written and not acknowledged, bytes."""
    @property
    def send_buffer_bytes(self) -> int:
        """The send buffer, bytes."""
    @property
    def mss_bytes(self) -> int:
        """Payload of a full segment, bytes."""
    @property
    def pacing_rate_mbps(self) -> float:
        """Pacing rate, Mb/s."""
    @property
    def delivery_rate_mbps(self) -> float:
        """Delivery rate, the last valid sample, Mb/s."""
    @property
    def state(self) -> str:
        """Congestion state."""
    @property
    def repaired(self) -> bool:
        """Whether all losses are repaired. Without SACK the state lasts until newer data is acknowledged."""
    @property
    def backup(self) -> bool:
        """Either side declared it a backup."""
    @property
    def stale(self) -> bool:
        """Found without progress."""
    @property
    def potentially_failed(self) -> bool:
        """Its retransmission timer has fired and nothing was acknowledged since."""
    @property
    def established(self) -> bool:
        """Data may be sent."""
    @property
    def last_ack_ms(self) -> float:
        """When the last acknowledgement arrived, ms."""
    @property
    def oldest_sent_ms(self) -> float | None:
        """When the oldest unacknowledged segment was first sent, ms; None if nothing is outstanding."""
    @property
    def next_timeout_ms(self) -> float | None:
        """When the retransmission timeout fires without an acknowledgement, ms; None if none is due."""
    @property
    def window_space_segments(self) -> int:
        """Segments that the window lets out now."""
    @property
    def can_send(self) -> bool:
        """It can send a segment now."""
    @property
    def can_queue(self) -> bool:
        """Its send buffer has room."""

@final
class SubflowEvent:
    """Something that happened to a subflow."""

    def __init__(self, **given: object) -> None: ...
    @property
    def kind(self) -> str:
        """What."""
    @property
    def segments(self) -> int:
        """Segments acknowledged or marked lost; 0 in other events."""
    @property
    def acked_bytes(self) -> int:
        """Payload acknowledged cumulatively, bytes; 0 except in `delivered`."""
    @property
    def consecutive_timeouts(self) -> int:
        """Retransmission timeouts in a row; 0 except in `timeout`."""
    @property
    def state(self) -> str | None:
        """The new congestion state; None except in `congestion`."""

@final
class SendRequest:
    """A question to a scheduler. Positions count bytes of the data stream from 0."""

    def __init__(self, **given: object) -> None: ...
    @property
    def now_ms(self) -> float:
        """When, ms."""
    @property
    def ask(self) -> str:
        """What is asked."""
    @property
    def data_una(self) -> int:
        """First byte not acknowledged at data level."""
    @property
    def data_next(self) -> int:
        """First byte not scheduled yet."""
    @property
    def data_end(self) -> int:
        """Behind the last byte written by the application."""
    @property
    def window_end(self) -> int:
        """Behind the last byte that the connection-level window admits."""
    @property
    def fragment_bytes(self) -> int:
        """Length of the pieces that written data is kept in, bytes."""
    @property
    def unscheduled_bytes(self) -> int:
        """Written and not scheduled, bytes."""
    @property
    def window_left_bytes(self) -> int:
        """What the connection-level window still admits, bytes."""
    @property
    def piece(self) -> tuple[int, int] | None:
        """The piece to go again, or that holds the window or buffer up: first byte, behind the last."""
    @property
    def carried_by(self) -> list[int]:
        """The subflows that carried it, those that are gone among them."""
    @property
    def buffer_left_bytes(self) -> int | None:
        """What a full send buffer could still take, too little to wake the application, bytes."""
    @property
    def deadline_ms(self) -> float | None:
        """When the requested data is needed, ms; None unless the player's request has it."""
    @property
    def media_buffered_ms(self) -> float | None:
        """Media that the player had buffered, ms; None unless its request has it."""
    @property
    def hinted_ms(self) -> float | None:
        """When the request with these two values arrived, ms; None if it had neither."""

@final
class SiblingView:
    """What a controller may know of another subflow of its connection."""

    def __init__(self, **given: object) -> None: ...
    @property
    def id(self) -> int:
        """Which subflow."""
    @property
    def cwnd_segments(self) -> int:
        """Congestion window, segments."""
    @property
    def ssthresh_segments(self) -> int:
        """Slow-start threshold, segments."""
    @property
    def srtt_ms(self) -> float | None:
        """Smoothed RTT, ms; None before the first sample."""
    @property
    def min_rtt_ms(self) -> float | None:
        """Minimum RTT over the last 300 s, ms; None before the first sample."""
    @property
    def state(self) -> str:
        """Congestion state."""
    @property
    def usable(self) -> bool:
        """It can carry data: established, and neither closed nor closing."""
    @property
    def stale(self) -> bool:
        """Data waits on it and nothing was acknowledged for several timer periods."""
    @property
    def consecutive_timeouts(self) -> int:
        """Retransmission timeouts in a row, without progress between them."""
    @property
    def since_loss_bytes(self) -> int:
        """Payload acknowledged since its last loss, bytes."""
    @property
    def between_losses_bytes(self) -> int:
        """Payload acknowledged between its last two losses, bytes."""
    @property
    def published_rate_mbps(self) -> float | None:
        """What its controller makes known, Mb/s; None when it makes nothing known."""

@final
class AckSample:
    """One acknowledgement, as a controller sees it."""

    def __init__(self, **given: object) -> None: ...
    @property
    def now_ms(self) -> float:
        """When it arrived, ms."""
    @property
    def coarse_now_ms(self) -> float:
        """The same as the host's tick clock shows it, ms."""
    @property
    def tick_ms(self) -> float:
        """A tick of that clock, ms; 0 where it is exact."""
    @property
    def acked_segments(self) -> int:
        """Segments newly acknowledged, cumulatively or selectively."""
    @property
    def acked_bytes(self) -> int:
        """Payload newly acknowledged cumulatively, bytes."""
    @property
    def newly_lost_segments(self) -> int:
        """Segments newly marked lost."""
    @property
    def delivered_segments(self) -> int:
        """Segments delivered since the subflow began."""
    @property
    def delivered_ce_segments(self) -> int:
        """Those of them whose acknowledgements told of a mark (ECN)."""
    @property
    def echo(self) -> bool:
        """Whether it tells of a mark."""
    @property
    def mss_bytes(self) -> int:
        """Payload of a full segment, bytes."""
    @property
    def next_departure_ms(self) -> float:
        """When pacing lets the next segment out, ms."""
    @property
    def prior_in_flight_segments(self) -> int:
        """Segments in flight before the acknowledgement."""
    @property
    def in_flight_segments(self) -> int:
        """Segments in flight after it."""
    @property
    def rtt_ms(self) -> float | None:
        """RTT of the most recently sent segment acknowledged, ms; None when it is ambiguous."""
    @property
    def maybe_delayed(self) -> bool:
        """The receiver may have held it back: it is of a lone segment that was not full."""
    @property
    def srtt_ms(self) -> float | None:
        """Smoothed RTT, ms; None before the first sample."""
    @property
    def min_rtt_ms(self) -> float | None:
        """Minimum RTT over the last 300 s, ms; None before the first sample."""
    @property
    def rate_delivered_segments(self) -> int:
        """Delivery-rate sample: segments delivered over its interval."""
    @property
    def rate_prior_delivered_segments(self) -> int:
        """The delivered count when the sampled segment was sent."""
    @property
    def rate_interval_ms(self) -> float:
        """The sample's interval, ms; 0 when the sample is invalid."""
    @property
    def rate_app_limited(self) -> bool:
        """The sample was taken while the application had nothing to send."""
    @property
    def rate_in_flight_segments(self) -> int:
        """Segments in flight when the sampled segment was sent."""
    @property
    def rate_lost_segments(self) -> int:
        """Segments marked lost over the sample's interval."""
    @property
    def rate_delivered_ce_segments(self) -> int:
        """Segments delivered over the sample's interval whose acknowledgements told of a mark."""
    @property
    def snd_nxt(self) -> int:
        """Where the subflow's next new byte will stand."""
    @property
    def snd_una(self) -> int:
        """Up to where everything is acknowledged on the subflow."""
    @property
    def cwnd_limited(self) -> bool:
        """The window was in use: without it no loss-based controller grows."""
    @property
    def may_grow(self) -> bool:
        """The core allows growth."""
    @property
    def paced(self) -> bool:
        """The subflow's pacing rate is enforced."""
    @property
    def pacing_rate_mbps(self) -> float:
        """Pacing rate, Mb/s."""
    @property
    def id(self) -> int:
        """The subflow, to find itself among the siblings."""
    @property
    def siblings(self) -> list[SiblingView]:
        """All subflows of the connection, if the controller wants them."""

@final
class LostSegment:
    """A segment that was just marked lost."""

    def __init__(self, **given: object) -> None: ...
    @property
    def now_ms(self) -> float:
        """When, ms."""
    @property
    def from_byte(self) -> int:
        """Its first payload byte, as a position in the subflow."""
    @property
    def to_byte(self) -> int:
        """Behind its last."""
    @property
    def in_flight_at_send_segments(self) -> int:
        """Segments in flight when it was sent last, itself not counted."""
    @property
    def lost_since_send_segments(self) -> int:
        """Segments marked lost since then, itself included."""
    @property
    def app_limited(self) -> bool:
        """It was sent while the application had nothing more to send."""
    @property
    def delivered_segments(self) -> int:
        """Segments delivered since the subflow began."""
    @property
    def selective_acks(self) -> bool:
        """The peer reports what it has received beyond a hole (SACK)."""

@final
class CongestionEvent:
    """A congestion event."""

    def __init__(self, **given: object) -> None: ...
    @property
    def now_ms(self) -> float:
        """When, ms."""
    @property
    def kind(self) -> str:
        """Why."""
    @property
    def in_flight_segments(self) -> int:
        """Segments in flight."""

@final
class TransmitStart:
    """Data is about to be sent and nothing is in flight."""

    def __init__(self, **given: object) -> None: ...
    @property
    def now_ms(self) -> float:
        """When, ms."""
    @property
    def coarse_now_ms(self) -> float:
        """The same as the host's tick clock shows it, ms."""
    @property
    def last_sent_ms(self) -> float:
        """The last transmission before, as that clock showed it, ms."""
    @property
    def app_limited(self) -> bool:
        """The application, not the window, had held the subflow back."""
    @property
    def min_rtt_ms(self) -> float | None:
        """Minimum RTT so far, ms."""

@final
class Window:
    """A subflow's window, in segments: a controller sets it."""

    cwnd: int
    ssthresh: int

    def __init__(self, cwnd: int = 10, ssthresh: int = 4294967295) -> None: ...
    @property
    def base_pacing_rate_mbps(self) -> float | None:
        """The rate at which the base wants to pace, Mb/s; None if it does not pace, or without a base."""
    @property
    def in_slow_start(self) -> bool:
        """True while the window grows by slow start."""

_On: TypeAlias = SubflowView | int | Sequence[SubflowView | int]

@final
class Send:
    """The answer "send": on which subflows, how many bytes, and from which byte of the data stream."""

    def __init__(self, on: _On, *, burst_bytes: int | None = None, from_byte: int | None = None) -> None: ...
    @property
    def on(self) -> _On:
        """The subflows, as views or by their ids; on several means redundantly."""
    @property
    def burst_bytes(self) -> int | None:
        """The most bytes to send before the next question; None is one segment."""
    @property
    def from_byte(self) -> int | None:
        """The first byte; None is the next that is not scheduled."""

@final
class Penalise:
    """The answer "penalise": halve the windows of one subflow or several, then ask again."""

    def __init__(self, on: _On) -> None: ...
    @property
    def on(self) -> _On:
        """The subflows; those in another state than Open are let be."""

@final
class Wait:
    """The answer "wait": until something happens, or a time at the latest."""

    def __init__(self, *, until_ms: float | None = None) -> None: ...
    @property
    def until_ms(self) -> float | None:
        """When to ask again at the latest; None is when something happens."""

@final
class Column(Sequence[Any]):
    """A column of a trace: a sequence, and Arrow to whoever asks; missing numbers are None."""

    def __init__(self, kind: str, values: Sequence[Any], /) -> None: ...
    @property
    def kind(self) -> str:
        """What its values are: `bool`, `float`, `int` or `text`."""
    def to_list(self) -> list[Any]:
        """Return its values."""
    def __getitem__(self, place: Any, /) -> Any: ...  # noqa: ANN401 - of whatever kind the column is
    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class Table(Mapping[str, Column]):
    """A table of a trace: columns by name, and Arrow to whoever asks."""

    def __init__(self, columns: Sequence[tuple[str, Column]], /) -> None: ...
    def split(self, name: str, /) -> list[tuple[int, Table]]:
        """Return its rows by the whole numbers of a column, in rising order, in one pass."""
    def __getitem__(self, name: str, /) -> Column: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def candidates(subflows: Iterable[SubflowView]) -> tuple[SubflowView, ...]: ...
def schedulers() -> list[tuple[str, str]]: ...
def congestion_controls() -> list[tuple[str, str]]: ...
def path_managers() -> list[tuple[str, str]]: ...
def abr_rules() -> list[tuple[str, str]]: ...
def profiles() -> list[tuple[str, str]]: ...
def profile_parts() -> list[tuple[str, str]]: ...
def host_defaults() -> list[tuple[str, int]]: ...
def transport_defaults() -> list[tuple[str, int]]: ...
def plugin_defaults() -> list[tuple[str, str]]: ...
def limits() -> list[tuple[str, int]]: ...
def link_models() -> list[
    tuple[
        str,
        str,
        bool,
        list[tuple[str, str, str]],
        list[
            tuple[
                str,
                str,
                str,
                list[str],
                float | None,
                tuple[str, list[tuple[str, float]]] | None,
                float,
                float,
                bool,
                str,
            ]
        ],
    ]
]: ...
def link_model_faults(model: str) -> list[tuple[str, str, str]]: ...
def likely_bps(model: str) -> float | None: ...
def queue_disciplines() -> list[
    tuple[str, str, tuple[str, int] | None, list[tuple[str, str, int, int, int, str]]]
]: ...
def ladder(plan: str) -> tuple[str, list[tuple[str, str]]]: ...
def plugin_parameters(kind: str, name: str) -> list[tuple[str, str, str]]: ...
def plugin_parts(text: str) -> list[tuple[list[str], str, dict[str, Any]]]: ...
def check_plugin(
    kind: str, text: str, plugins: Mapping[str, Mapping[str, Any]] | None = None
) -> list[tuple[list[str], str, list[str]]]: ...
def simulate(
    plan_json: str,
    pcapng: str | None = None,
    progress: Callable[[float, float], None] | None = None,
    plugins: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]: ...
def live(
    plan_json: str,
    client: tuple[str | None, Sequence[str], bool, str | None] | None,
    server: tuple[str | None, Sequence[str], bool, str | None] | None,
    application: bool,
    ready: Callable[[], None],
    progress: Callable[[float, float], bool | None],
    interface: Callable[[str, str], None],
    pcapng: str | None = None,
    plugins: Mapping[str, Mapping[str, Any]] | None = None,
    announced: Sequence[int] = (),
    origin: tuple[str | None, str] | None = None,
    watch: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]: ...
def path_addresses(path: int, ipv6: bool) -> tuple[str, str]: ...
def gateway(
    settings: object,
    watch: Callable[[list[Exception]], tuple[int, list[str], object | None]],
    plugins: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Run a gateway with the attributes of `settings`, until `watch` ends it.

    `watch` is called ten times a second with the exceptions that plug-ins raised, each of which ended its own
    connection. It returns a tuple of three. The first is 0 to continue, 1 to refuse new connections and
    finish, or 2 to stop at once. The second is a list of lines for stderr. The third has settings with
    changed limits, or is None; with settings the log is opened again. After the end, `watch` is called once
    more and its result is ignored.
    """

def record_link(
    plan_json: str, link: str, window_ns: int, windows: int, ping_ns: int
) -> tuple[list[float], list[float]]: ...
