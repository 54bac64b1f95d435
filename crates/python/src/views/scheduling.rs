//! The values that a scheduler receives.

use anabranch_scheduler as scheduler;
use anabranch_units::{CongestionState, SubflowId};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::{Settle, State, at_ms, mbps, ms};

words! {
    /// The kind of a request to a scheduler.
    Ask { "new-data", "reinject", "window-blocked", "buffer-full", "idle", }
}
view! {
    /// The state of a subflow: a frozen copy.
    SubflowView {
        /// The subflow's number. Subflows are numbered from 0 in the order of their creation.
        id: u8 = 0,
        /// Smoothed RTT, ms; 0 before the first sample.
        srtt_ms: f64 = 50.0,
        /// RTT variation, ms.
        rttvar_ms: f64 = 5.0,
        /// Minimum RTT, ms.
        min_rtt_ms: f64 = 50.0,
        /// Congestion window, segments.
        cwnd_segments: u32 = 10,
        /// Slow-start threshold, segments.
        ssthresh_segments: u32 = u32::MAX,
        /// Segments in flight.
        in_flight_segments: u32 = 0,
        /// Bytes in the subflow's queue that have not been sent.
        queued_bytes: u64 = 0,
        /// Memory of all data that is written and not acknowledged, bytes.
        queued_memory_bytes: u64 = 0,
        /// The size of the send buffer, bytes.
        send_buffer_bytes: u64 = 1 << 20,
        /// Payload of a full segment, bytes.
        mss_bytes: u32 = 1424,
        /// Pacing rate, Mb/s.
        pacing_rate_mbps: f64 = 5.0,
        /// The last valid sample of the delivery rate, Mb/s.
        delivery_rate_mbps: f64 = 5.0,
        /// Congestion state.
        state: State = State("Open"),
        /// All losses are repaired. Without SACK, the congestion state lasts until newer data is acknowledged.
        repaired: bool = false,
        /// Either side has declared it a backup.
        backup: bool = false,
        /// The subflow has made no progress for several timer periods.
        stale: bool = false,
        /// The retransmission timer has fired, and nothing was acknowledged since.
        potentially_failed: bool = false,
        /// The subflow is established, so data may be sent.
        established: bool = true,
        /// The time of the last acknowledgement, ms.
        last_ack_ms: f64 = 0.0,
        /// The time of the first transmission of the oldest unacknowledged segment, ms; None without one.
        oldest_sent_ms: Option<f64> = None,
        /// The time of the next retransmission timeout, ms; None if nothing is outstanding.
        next_timeout_ms: Option<f64> = None,
        /// Segments that the window permits now.
        window_space_segments: u32 = 0,
        /// The subflow can send a segment now.
        can_send: bool = false,
        /// The send buffer has room.
        can_queue: bool = false,
    }
}

impl From<&scheduler::SubflowView> for SubflowView {
    fn from(view: &scheduler::SubflowView) -> Self {
        Self {
            id: view.id.0,
            srtt_ms: ms(view.srtt),
            rttvar_ms: ms(view.rttvar),
            min_rtt_ms: ms(view.min_rtt),
            cwnd_segments: view.cwnd,
            ssthresh_segments: view.ssthresh,
            in_flight_segments: view.in_flight,
            queued_bytes: view.queued_bytes,
            queued_memory_bytes: view.queued_memory,
            send_buffer_bytes: view.send_buffer,
            mss_bytes: view.mss,
            pacing_rate_mbps: mbps(view.pacing_rate),
            delivery_rate_mbps: mbps(view.delivery_rate),
            state: State(view.state.name()),
            repaired: view.repaired,
            backup: view.backup,
            stale: view.stale,
            potentially_failed: view.potentially_failed,
            established: view.established,
            last_ack_ms: at_ms(view.last_ack),
            oldest_sent_ms: view.oldest_sent.map(at_ms),
            next_timeout_ms: view.timeout_at.map(at_ms),
            window_space_segments: view.window_space(),
            can_send: view.can_send(),
            can_queue: view.can_queue(),
        }
    }
}

impl Settle for SubflowView {
    /// Computes the eligibility of views that Python code creates by the same rules as in the core.
    fn settle(&mut self) {
        let states = [
            CongestionState::Open,
            CongestionState::Disorder,
            CongestionState::Cwr,
            CongestionState::Recovery,
            CongestionState::Loss,
        ];
        let named = |state: &CongestionState| state.name() == self.state.0;
        let core = scheduler::SubflowView {
            id: SubflowId(self.id),
            cwnd: self.cwnd_segments,
            ssthresh: self.ssthresh_segments,
            in_flight: self.in_flight_segments,
            queued_bytes: self.queued_bytes,
            queued_memory: self.queued_memory_bytes,
            send_buffer: self.send_buffer_bytes,
            mss: self.mss_bytes.max(1),
            state: states.into_iter().find(named).unwrap_or_default(),
            repaired: self.repaired,
            backup: self.backup,
            stale: self.stale,
            potentially_failed: self.potentially_failed,
            established: self.established,
            ..scheduler::SubflowView::default()
        };
        self.window_space_segments = core.window_space();
        self.can_send = core.can_send();
        self.can_queue = core.can_queue();
    }
}

words! {
    /// The kind of an event of a subflow.
    Happening {
        "opened", "timeout", "delivered", "lost", "congestion", "stale", "active", "backup", "regular", "closed",
    }
}
view! {
    /// An event of a subflow.
    SubflowEvent {
        /// The kind.
        kind: Happening = Happening("delivered"),
        /// Segments acknowledged or marked lost; 0 in other events.
        segments: u64 = 0,
        /// Payload acknowledged cumulatively, bytes; 0 except in `delivered`.
        acked_bytes: u64 = 0,
        /// Retransmission timeouts in a row; 0 except in `timeout`.
        consecutive_timeouts: u32 = 0,
        /// The new congestion state; None except in `congestion`.
        state: Option<State> = None,
    }
}

impl From<scheduler::SubflowEvent> for SubflowEvent {
    fn from(event: scheduler::SubflowEvent) -> Self {
        use scheduler::SubflowEvent as Event;
        let kind = Happening(match event {
            Event::Opened => "opened",
            Event::Timeout { .. } => "timeout",
            Event::Delivered { .. } => "delivered",
            Event::Lost { .. } => "lost",
            Event::Congestion(_) => "congestion",
            Event::Stale(true) => "stale",
            Event::Stale(false) => "active",
            Event::Backup(true) => "backup",
            Event::Backup(false) => "regular",
            Event::Closed => "closed",
        });
        let mut view =
            Self { kind, segments: 0, acked_bytes: 0, consecutive_timeouts: 0, state: None };
        match event {
            Event::Delivered { segments, bytes } => {
                (view.segments, view.acked_bytes) = (segments, bytes);
            }
            Event::Lost { segments } => view.segments = segments,
            Event::Timeout { consecutive } => view.consecutive_timeouts = consecutive,
            Event::Congestion(state) => view.state = Some(State(state.name())),
            Event::Opened | Event::Stale(_) | Event::Backup(_) | Event::Closed => {}
        }
        view
    }
}

impl Settle for SubflowEvent {}

view! {
    /// A request to a scheduler. Positions count the bytes of the data stream from 0.
    SendRequest {
        /// The time, ms.
        now_ms: f64 = 0.0,
        /// The kind of the request.
        ask: Ask = Ask("new-data"),
        /// The first byte that is not acknowledged at data level.
        data_una: u64 = 0,
        /// The first byte that is not scheduled.
        data_next: u64 = 0,
        /// The position after the last byte that the application has written.
        data_end: u64 = 1 << 20,
        /// The position after the last byte that the connection-level window permits.
        window_end: u64 = 1 << 20,
        /// The largest length of the fragments in which written data is stored, bytes.
        fragment_bytes: u64 = 32_728,
        /// Bytes that are written and not scheduled.
        unscheduled_bytes: u64 = 0,
        /// Bytes that the connection-level window still permits.
        window_left_bytes: u64 = 0,
        /// The fragment that blocks or must be reinjected: its first byte, and the position after its last.
        piece: Option<(u64, u64)> = None,
        /// The subflows that have carried the fragment, including closed ones.
        carried_by: Vec<u32> = Vec::new(),
        /// Bytes that a full send buffer could still take, which are too few to wake the application.
        buffer_left_bytes: Option<u64> = None,
        /// The time at which the requested data is needed, ms; None if the request has none.
        deadline_ms: Option<f64> = None,
        /// The media that the player had buffered, ms; None if the player's request does not contain it.
        media_buffered_ms: Option<f64> = None,
        /// The time at which the request with these two values arrived, ms; None if it had neither.
        hinted_ms: Option<f64> = None,
    }
}

impl From<&scheduler::SendRequest> for SendRequest {
    fn from(request: &scheduler::SendRequest) -> Self {
        let (ask, piece) = match request.ask {
            scheduler::Ask::NewData => ("new-data", None),
            scheduler::Ask::Reinject(piece) => ("reinject", Some(piece)),
            scheduler::Ask::WindowBlocked { head } => ("window-blocked", Some(head)),
            scheduler::Ask::BufferFull { head, .. } => ("buffer-full", Some(head)),
            scheduler::Ask::Idle => ("idle", None),
        };
        let buffer_left_bytes = match request.ask {
            scheduler::Ask::BufferFull { left, .. } => Some(left),
            _ => None,
        };
        let carried_by = piece
            .map_or_else(Vec::new, |piece| piece.by.iter().map(|id| u32::from(id.0)).collect());
        Self {
            now_ms: at_ms(request.now),
            ask: Ask(ask),
            data_una: request.data_una,
            data_next: request.data_next,
            data_end: request.data_end,
            window_end: request.window_end,
            fragment_bytes: request.fragment,
            unscheduled_bytes: request.unscheduled(),
            window_left_bytes: request.window_left(),
            piece: piece.map(|piece| (piece.from, piece.to)),
            carried_by,
            buffer_left_bytes,
            deadline_ms: request.hint.deadline().map(at_ms),
            media_buffered_ms: request.hint.buffered().map(ms),
            hinted_ms: request.hint.received().map(at_ms),
        }
    }
}

impl Settle for SendRequest {
    fn settle(&mut self) {
        self.unscheduled_bytes = self.data_end.saturating_sub(self.data_next);
        self.window_left_bytes = self.window_end.saturating_sub(self.data_next);
    }
}
