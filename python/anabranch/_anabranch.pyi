"""The extension module, written in Rust: the simulator and the tables of plug-ins."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, final

class CaptureFileError(ValueError): ...

class PlanError(ValueError):
    """The plan is invalid: for example, a parameter is unknown or a value is out of range."""

    #: For each fault: the keys of the plan that lead to it, the message, and similar valid names.
    faults: list[tuple[tuple[str | int, ...], str, list[str]]]

class SimulationError(RuntimeError):
    """The run broke a rule of the simulator. This is a defect, not an error of the user."""

class RaisedError(RuntimeError):
    """A plug-in in Python raised an exception. Arguments: kind, name, exception."""

class AnswerError(RuntimeError):
    """A plug-in in Python gave an invalid answer. Arguments: kind, name, method, message."""

@final
class SubflowView:
    """The state of a subflow: a frozen copy."""

    def __init__(self, **given: object) -> None: ...
    @property
    def id(self) -> int:
        """The subflow's number. Subflows are numbered from 0 in the order of their creation."""
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
        """Bytes in the subflow's queue that have not been sent."""
    @property
    def queued_memory_bytes(self) -> int:
        """Memory of all data that is written and not acknowledged, bytes."""
    @property
    def send_buffer_bytes(self) -> int:
        """The size of the send buffer, bytes."""
    @property
    def mss_bytes(self) -> int:
        """Payload of a full segment, bytes."""
    @property
    def pacing_rate_mbps(self) -> float:
        """Pacing rate, Mb/s."""
    @property
    def delivery_rate_mbps(self) -> float:
        """The last valid sample of the delivery rate, Mb/s."""
    @property
    def state(self) -> str:
        """Congestion state."""
    @property
    def repaired(self) -> bool:
        """All losses are repaired.

        Without SACK, the congestion state lasts until newer data is acknowledged.
        """
    @property
    def backup(self) -> bool:
        """Either side has declared it a backup."""
    @property
    def stale(self) -> bool:
        """The subflow has made no progress for several timer periods."""
    @property
    def potentially_failed(self) -> bool:
        """The retransmission timer has fired, and nothing was acknowledged since."""
    @property
    def established(self) -> bool:
        """The subflow is established, so data may be sent."""
    @property
    def last_ack_ms(self) -> float:
        """The time of the last acknowledgement, ms."""
    @property
    def oldest_sent_ms(self) -> float | None:
        """The time of the first transmission of the oldest unacknowledged segment, ms; None without one."""
    @property
    def next_timeout_ms(self) -> float | None:
        """The time of the next retransmission timeout, ms; None if nothing is outstanding."""
    @property
    def window_space_segments(self) -> int:
        """Segments that the window permits now."""
    @property
    def can_send(self) -> bool:
        """The subflow can send a segment now."""
    @property
    def can_queue(self) -> bool:
        """The send buffer has room."""

@final
class SubflowEvent:
    """An event of a subflow."""

    def __init__(self, **given: object) -> None: ...
    @property
    def kind(self) -> str:
        """The kind."""
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
    """A request to a scheduler. Positions count the bytes of the data stream from 0."""

    def __init__(self, **given: object) -> None: ...
    @property
    def now_ms(self) -> float:
        """The time, ms."""
    @property
    def ask(self) -> str:
        """The kind of the request."""
    @property
    def data_una(self) -> int:
        """The first byte that is not acknowledged at data level."""
    @property
    def data_next(self) -> int:
        """The first byte that is not scheduled."""
    @property
    def data_end(self) -> int:
        """The position after the last byte that the application has written."""
    @property
    def window_end(self) -> int:
        """The position after the last byte that the connection-level window permits."""
    @property
    def fragment_bytes(self) -> int:
        """The largest length of the fragments in which written data is stored, bytes."""
    @property
    def unscheduled_bytes(self) -> int:
        """Bytes that are written and not scheduled."""
    @property
    def window_left_bytes(self) -> int:
        """Bytes that the connection-level window still permits."""
    @property
    def piece(self) -> tuple[int, int] | None:
        """The fragment that blocks or must be reinjected: its first byte, and the position after its last."""
    @property
    def carried_by(self) -> list[int]:
        """The subflows that have carried the fragment, including closed ones."""
    @property
    def buffer_left_bytes(self) -> int | None:
        """Bytes that a full send buffer could still take, which are too few to wake the application."""
    @property
    def deadline_ms(self) -> float | None:
        """The time at which the requested data is needed, ms; None if the request has none."""
    @property
    def media_buffered_ms(self) -> float | None:
        """The media that the player had buffered, ms; None if the player's request does not contain it."""
    @property
    def hinted_ms(self) -> float | None:
        """The time at which the request with these two values arrived, ms; None if it had neither."""

@final
class SiblingView:
    """The state of another subflow of the connection."""

    def __init__(self, **given: object) -> None: ...
    @property
    def id(self) -> int:
        """The subflow's number."""
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
        """The subflow can carry data: it is established, and neither closed nor closing."""
    @property
    def stale(self) -> bool:
        """Data waits on the subflow, and nothing was acknowledged for several timer periods."""
    @property
    def consecutive_timeouts(self) -> int:
        """Retransmission timeouts in a row without progress."""
    @property
    def since_loss_bytes(self) -> int:
        """Payload acknowledged since the last loss, bytes."""
    @property
    def between_losses_bytes(self) -> int:
        """Payload acknowledged between the last two losses, bytes."""
    @property
    def published_rate_mbps(self) -> float | None:
        """The rate that the subflow's controller publishes, Mb/s; None if it publishes none."""

@final
class AckSample:
    """The data of one acknowledgement."""

    def __init__(self, **given: object) -> None: ...
    @property
    def now_ms(self) -> float:
        """The time of arrival, ms."""
    @property
    def coarse_now_ms(self) -> float:
        """The time of arrival by the host's tick clock, ms."""
    @property
    def tick_ms(self) -> float:
        """The tick of that clock, ms; 0 if the clock is exact."""
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
        """Delivered segments whose acknowledgements reported a mark (ECN)."""
    @property
    def echo(self) -> bool:
        """The acknowledgement reports a mark."""
    @property
    def mss_bytes(self) -> int:
        """Payload of a full segment, bytes."""
    @property
    def next_departure_ms(self) -> float:
        """The time at which pacing permits the next segment, ms."""
    @property
    def prior_in_flight_segments(self) -> int:
        """Segments in flight before the acknowledgement."""
    @property
    def in_flight_segments(self) -> int:
        """Segments in flight after the acknowledgement."""
    @property
    def rtt_ms(self) -> float | None:
        """RTT of the most recently sent acknowledged segment, ms; None if it is ambiguous."""
    @property
    def maybe_delayed(self) -> bool:
        """The receiver may have delayed the acknowledgement: it is for a single segment that was not full."""
    @property
    def srtt_ms(self) -> float | None:
        """Smoothed RTT, ms; None before the first sample."""
    @property
    def min_rtt_ms(self) -> float | None:
        """Minimum RTT over the last 300 s, ms; None before the first sample."""
    @property
    def rate_delivered_segments(self) -> int:
        """Delivery-rate sample: segments delivered over the sample's interval."""
    @property
    def rate_prior_delivered_segments(self) -> int:
        """The delivered count when the sampled segment was sent."""
    @property
    def rate_interval_ms(self) -> float:
        """The sample's interval, ms; 0 if the sample is invalid."""
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
        """Segments delivered over the sample's interval whose acknowledgements reported a mark."""
    @property
    def snd_nxt(self) -> int:
        """The position of the next new byte in the subflow."""
    @property
    def snd_una(self) -> int:
        """The position up to which all bytes of the subflow are acknowledged."""
    @property
    def cwnd_limited(self) -> bool:
        """The window limited the sender. Otherwise loss-based controllers do not grow it."""
    @property
    def may_grow(self) -> bool:
        """The core permits growth."""
    @property
    def paced(self) -> bool:
        """The subflow's pacing rate is enforced."""
    @property
    def pacing_rate_mbps(self) -> float:
        """Pacing rate, Mb/s."""
    @property
    def id(self) -> int:
        """The subflow's number, by which a controller finds it among the siblings."""
    @property
    def siblings(self) -> list[SiblingView]:
        """All subflows of the connection, if the controller requests them."""

@final
class LostSegment:
    """A segment that was just marked as lost."""

    def __init__(self, **given: object) -> None: ...
    @property
    def now_ms(self) -> float:
        """The time, ms."""
    @property
    def from_byte(self) -> int:
        """The position of its first payload byte in the subflow."""
    @property
    def to_byte(self) -> int:
        """The position after its last payload byte."""
    @property
    def in_flight_at_send_segments(self) -> int:
        """Segments in flight when it was last sent, not counting itself."""
    @property
    def lost_since_send_segments(self) -> int:
        """Segments marked as lost since then, including itself."""
    @property
    def app_limited(self) -> bool:
        """The application had no more data when it was sent."""
    @property
    def delivered_segments(self) -> int:
        """Segments delivered since the subflow began."""
    @property
    def selective_acks(self) -> bool:
        """The peer reports which data it has received after a hole (SACK)."""

@final
class CongestionEvent:
    """A congestion event."""

    def __init__(self, **given: object) -> None: ...
    @property
    def now_ms(self) -> float:
        """The time, ms."""
    @property
    def kind(self) -> str:
        """The reason."""
    @property
    def in_flight_segments(self) -> int:
        """Segments in flight."""

@final
class TransmitStart:
    """The start of a transmission while nothing is in flight."""

    def __init__(self, **given: object) -> None: ...
    @property
    def now_ms(self) -> float:
        """The time, ms."""
    @property
    def coarse_now_ms(self) -> float:
        """The time by the host's tick clock, ms."""
    @property
    def last_sent_ms(self) -> float:
        """The time of the previous transmission by that clock, ms."""
    @property
    def app_limited(self) -> bool:
        """The application, not the window, had limited the subflow."""
    @property
    def min_rtt_ms(self) -> float | None:
        """Minimum RTT so far, ms."""

@final
class Window:
    """A subflow's window in segments, which a controller sets."""

    cwnd: int
    ssthresh: int

    def __init__(self, cwnd: int = 10, ssthresh: int = 4294967295) -> None: ...
    @property
    def base_pacing_rate_mbps(self) -> float | None:
        """The pacing rate of the base, Mb/s; None if there is no base or it does not pace."""
    @property
    def in_slow_start(self) -> bool:
        """True during slow start."""

_On: TypeAlias = SubflowView | int | Sequence[SubflowView | int]

@final
class Send:
    """The answer "send": the subflows, the number of bytes, and the position of the first byte."""

    def __init__(self, on: _On, *, burst_bytes: int | None = None, from_byte: int | None = None) -> None: ...
    @property
    def on(self) -> _On:
        """The subflows, as views or numbers. Several subflows get the same data."""
    @property
    def burst_bytes(self) -> int | None:
        """The most bytes to send before the next request; None means one segment."""
    @property
    def from_byte(self) -> int | None:
        """The first byte; None means the next one that is not scheduled."""

@final
class Penalise:
    """The answer "penalise": halve the windows of one or more subflows, then call the scheduler again."""

    def __init__(self, on: _On) -> None: ...
    @property
    def on(self) -> _On:
        """The subflows. Those in another state than Open are not changed."""

@final
class Wait:
    """The answer "wait": until the next event, or at most until a time."""

    def __init__(self, *, until_ms: float | None = None) -> None: ...
    @property
    def until_ms(self) -> float | None:
        """The latest time of the next request, ms; None to wait for an event."""

@final
class Rendition:
    """A rendition of the ladder."""

    def __init__(self, **given: object) -> None: ...
    @property
    def name(self) -> str:
        """The rendition's name."""
    @property
    def peak_mbps(self) -> float:
        """The declared peak rate, including audio, Mb/s."""
    @property
    def mean_mbps(self) -> float:
        """The declared mean rate, or the peak rate if none is declared, Mb/s."""
    @property
    def width(self) -> int:
        """Width of the picture, pixels; 0 if it is not declared."""
    @property
    def height(self) -> int:
        """Height of the picture, pixels; 0 if it is not declared."""
    @property
    def chunk_s(self) -> list[float]:
        """The playing time of each chunk, s."""
    @property
    def chunk_bytes(self) -> list[int]:
        """The size of each chunk, bytes."""

@final
class PlayerView:
    """The state of the player when a rendition is chosen."""

    def __init__(
        self,
        renditions: Sequence[Rendition],
        *,
        next_chunk: int = 0,
        last_rendition: int | None = None,
        buffer_s: float = 0.0,
        max_buffer_s: float = 30.0,
    ) -> None: ...
    @property
    def renditions(self) -> tuple[Rendition, ...]:
        """The renditions of the ladder, the lowest rate first."""
    @property
    def next_chunk(self) -> int:
        """The index of the chunk for which a rendition is chosen."""
    @property
    def last_rendition(self) -> int | None:
        """The rendition of the previous chunk; None for the first chunk."""
    @property
    def buffer_s(self) -> float:
        """The duration of the film that was received and not yet shown, s."""
    @property
    def max_buffer_s(self) -> float:
        """The largest buffer that the player allows, s."""
    def highest_within(self, mbps: float) -> int:
        """Return the highest rendition whose peak rate is at most `mbps`; if none is, the lowest."""

@final
class ChunkSample:
    """The measurements of a finished or abandoned download of a chunk."""

    def __init__(self, **given: object) -> None: ...
    @property
    def rendition(self) -> int:
        """The index of the rendition."""
    @property
    def received_bytes(self) -> int:
        """Bytes received."""
    @property
    def first_byte_s(self) -> float:
        """Time from the request to the first byte, s."""
    @property
    def fetch_s(self) -> float:
        """Time from the request to the last byte, or until the download was abandoned, s."""
    @property
    def duration_s(self) -> float:
        """The playing time of the chunk, s."""
    @property
    def throughput_mbps(self) -> float | None:
        """The rate since the request, Mb/s; None if the download took no time."""

@final
class Loading:
    """A chunk that is being downloaded."""

    def __init__(self, **given: object) -> None: ...
    @property
    def rendition(self) -> int:
        """The index of the rendition."""
    @property
    def duration_s(self) -> float:
        """The playing time of the chunk, s."""
    @property
    def size_bytes(self) -> int:
        """The size of the chunk, bytes."""
    @property
    def received_bytes(self) -> int:
        """Bytes received so far."""
    @property
    def since_s(self) -> float:
        """Time since the request, s."""
    @property
    def first_byte_s(self) -> float | None:
        """Time from the request to the first byte, s; None before that byte."""

@final
class Pause:
    """The answer "fetch nothing now"."""

    def __init__(self, wait_s: float) -> None: ...
    @property
    def wait_s(self) -> float:
        """The time until the next request to the rule, s."""

@final
class Column(Sequence[Any]):
    """A column of a trace: a sequence that also supports Arrow. Missing numbers are None."""

    def __init__(self, kind: str, values: Sequence[Any], /) -> None: ...
    @property
    def kind(self) -> str:
        """The kind of the values: `bool`, `float`, `int` or `text`."""
    def to_list(self) -> list[Any]:
        """Return the values as a list."""
    def __getitem__(self, place: Any, /) -> Any: ...  # noqa: ANN401 - the kind of the column decides
    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class Table(Mapping[str, Column]):
    """A table of a trace: a mapping of columns by name that also supports Arrow."""

    def __init__(self, columns: Sequence[tuple[str, Column]], /) -> None: ...
    def split(self, name: str, /) -> list[tuple[int, Table]]:
        """Split the rows by the whole numbers in a column, which are returned in ascending order."""
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
    at_server: bool = False,
    start_ns: int = 0,
) -> dict[str, Any]: ...
def read_capture(path: str, progress: Callable[[float, float], None] | None = None) -> dict[str, Any]: ...
def match_captures(first: str, second: str) -> dict[str, Any]: ...
def client_metrics(tables: Mapping[str, Any], paths: Sequence[str]) -> list[dict[str, Any]]: ...
def mean_metrics(each: Sequence[Mapping[str, Any]]) -> dict[str, Any]: ...
def whole_metrics(tables: Mapping[str, Any], clients: Mapping[str, Any]) -> dict[str, Any]: ...
def strips(tables: Mapping[str, Any]) -> list[list[dict[str, Any]]]: ...
def renditions(own: Mapping[str, Any]) -> list[dict[str, Any]]: ...
def standing_times(own: Mapping[str, Any]) -> list[tuple[float, float]]: ...
def stall_times(events: Sequence[tuple[float, str]], until_s: float) -> list[tuple[float, float]]: ...
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

    `watch` is called ten times a second with the exceptions that plug-ins raised. Each of them has ended
    its own connection. It returns a tuple of three values. The first is 0 to continue, 1 to refuse new
    connections and finish, or 2 to stop at once. The second is a list of lines for stderr. The third has
    settings with changed limits, or is None; with settings the log is opened again. After the end, `watch`
    is called once more, and its result is ignored.
    """

def record_link(
    plan_json: str, link: str, window_ns: int, windows: int, ping_ns: int
) -> tuple[list[float], list[float]]: ...
