//! A scheduler's request and its decision. Positions count bytes of the data stream from 0.

use anabranch_units::{Duration, Instant, SubflowId};

/// A piece of data that was sent and is not acknowledged at data level: bytes `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// First byte.
    pub from: u64,
    /// One past the last byte that the same subflows carried.
    pub to: u64,
    /// The subflows that carried it, including closed ones.
    pub by: SubflowSet,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Choose a subflow for the next unscheduled data.
    NewData,
    /// Choose a subflow to reinject data, because its subflow's retransmission timer has fired or its subflow is
    /// closed. This comes before new data, and only for schedulers that [reinject](super::PathScheduler::reinjects).
    Reinject(Carried),
    /// There is new data, but the connection-level window is full.
    WindowBlocked {
        /// The data that blocks the window: the oldest that is not acknowledged.
        head: Carried,
    },
    /// Everything is scheduled, and the application waits for room in the send buffer.
    BufferFull {
        /// The data that blocks the buffer: the oldest that is not acknowledged.
        head: Carried,
        /// Bytes that the send buffer could still take: more than none, but too few to wake the application.
        left: u64,
    },
    /// Nothing is unscheduled; a scheduler may still repeat data.
    Idle,
}

/// The report of a player's last request, as the application knows it. All of it is as old as that request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// `FAR_FUTURE` if there was no report.
    received: Instant,
    /// Milliseconds, as in CTA-5004.
    buffered: Option<u32>,
    /// Milliseconds from `received` on.
    deadline: Option<u32>,
}

impl Hint {
    /// No report.
    const NONE: Self = Self { received: Instant::FAR_FUTURE, buffered: None, deadline: None };

    /// Creates the hint of a request that was received then: the buffered media, and the time until the first of the
    /// requested data is needed. Both are kept in whole milliseconds.
    pub fn new(received: Instant, buffered: Option<Duration>, left: Option<Duration>) -> Self {
        let millis =
            |time: Duration| u32::try_from(time.as_nanos() / 1_000_000).unwrap_or(u32::MAX);
        Self { received, buffered: buffered.map(millis), deadline: left.map(millis) }
    }

    /// When the request arrived.
    pub fn received(&self) -> Option<Instant> {
        (self.received != Instant::FAR_FUTURE).then_some(self.received)
    }

    /// How much media the player had buffered when it sent the request.
    pub fn buffered(&self) -> Option<Duration> {
        self.buffered.map(|millis| Duration::from_millis(millis.into()))
    }

    /// When the first of the data is needed. It is late by the request's time on its way, which a server cannot know.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.map(|millis| self.received + Duration::from_millis(millis.into()))
    }
}

impl Default for Hint {
    fn default() -> Self {
        Self::NONE
    }
}

/// A request to the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest {
    /// The time of the request.
    pub now: Instant,
    /// The kind of the request.
    pub ask: Ask,
    /// First byte not acknowledged at data level.
    pub data_una: u64,
    /// First byte not scheduled yet.
    pub data_next: u64,
    /// One past the last byte written by the application.
    pub data_end: u64,
    /// One past the last byte that the connection-level window admits.
    pub window_end: u64,
    /// Length of the longest fragments that written data is kept in (`Config::send_fragment` of crate `mptcp`).
    pub fragment: u64,
    /// The end of the fragment with the first unscheduled byte. The following fragments have full length, except the
    /// last.
    pub piece_end: u64,
    /// The application's last report (`Connection::set_hint` of crate `mptcp`).
    pub hint: Hint,
}

impl SendRequest {
    /// A request with nothing to send, at the beginning of time.
    pub const fn blank(fragment: u64) -> Self {
        Self {
            now: Instant::ZERO,
            ask: Ask::Idle,
            data_una: 0,
            data_next: 0,
            data_end: 0,
            window_end: 0,
            fragment,
            piece_end: 0,
            hint: Hint::NONE,
        }
    }

    /// Bytes written and not scheduled.
    pub const fn unscheduled(&self) -> u64 {
        self.data_end - self.data_next
    }

    /// `burst` bytes from the next unscheduled one, extended to the end of their last fragment as far as the window
    /// admits. Upstream Linux checks its burst only between fragments (`__subflow_push_pending`).
    pub fn whole_fragments(&self, burst: u64) -> u64 {
        let beyond = (self.data_next + burst).saturating_sub(self.piece_end);
        let end = self.piece_end + beyond.next_multiple_of(self.fragment);
        (end - self.data_next).min(self.window_left())
    }

    /// Bytes that the connection-level window still admits.
    pub const fn window_left(&self) -> u64 {
        self.window_end.saturating_sub(self.data_next)
    }
}

/// A set of subflows; two members mean redundancy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubflowSet(u128);

impl SubflowSet {
    /// No subflow.
    pub const EMPTY: Self = Self(0);

    /// A set of one.
    pub const fn one(id: SubflowId) -> Self {
        Self(1 << id.0)
    }

    /// With `id` in it.
    #[must_use]
    pub const fn with(self, id: SubflowId) -> Self {
        Self(self.0 | 1 << id.0)
    }

    /// Without `id`.
    #[must_use]
    pub const fn without(self, id: SubflowId) -> Self {
        Self(self.0 & !(1 << id.0))
    }

    /// True when `id` is in it.
    pub const fn contains(self, id: SubflowId) -> bool {
        self.0 & (1 << id.0) != 0
    }

    /// True when nothing is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lowest member.
    pub fn first(self) -> Option<SubflowId> {
        (self.0 != 0).then(|| SubflowId(self.0.trailing_zeros() as u8))
    }

    /// The only member, or `None` if there are none or several.
    pub fn only(self) -> Option<SubflowId> {
        let others = self.0 & self.0.wrapping_sub(1);
        self.first().filter(|_| others == 0)
    }

    /// The members, ascending.
    pub fn iter(self) -> impl Iterator<Item = SubflowId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let id = (left != 0).then(|| SubflowId(left.trailing_zeros() as u8))?;
            left &= left - 1;
            Some(id)
        })
    }
}

impl FromIterator<SubflowId> for SubflowSet {
    fn from_iter<T: IntoIterator<Item = SubflowId>>(ids: T) -> Self {
        ids.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// The scheduler's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send nothing now. The scheduler is called again at the next event, or at `until`.
    Wait {
        /// The time of the next call at the latest; a time nearer than 50 us counts as 50 us from now.
        until: Option<Instant>,
    },
    /// Send up to `burst` bytes.
    Send {
        /// On these subflows; members that cannot take data are skipped.
        on: SubflowSet,
        /// The first byte in the data stream. If it was sent before, it is reinjected; if it was never sent, it is
        /// sent ahead of its turn. `None` is the data of the request: the next unscheduled byte, or the first one to
        /// reinject.
        from: Option<u64>,
        /// The most bytes to send before the next call.
        burst: u64,
    },
    /// Halve the windows of these subflows, if they are in the Open state, then call again; once a turn.
    Penalise(SubflowSet),
}

impl Decision {
    /// Wait until something happens.
    pub const WAIT: Self = Self::Wait { until: None };

    /// Send the data of the request on one subflow.
    pub const fn next_on(id: SubflowId, burst: u64) -> Self {
        Self::Send { on: SubflowSet::one(id), from: None, burst }
    }
}
