//! A request to a scheduler, and the scheduler's decision. Positions are byte offsets in the data stream,
//! from 0.

use anabranch_units::{Duration, Instant, SubflowId};

/// A range of data, `[from, to)`, that was sent and is not acknowledged at data level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The first byte.
    pub from: u64,
    /// One past the last byte. The same subflows sent all bytes of the range.
    pub to: u64,
    /// The subflows that sent the data, including closed ones.
    pub by: SubflowSet,
}

/// The event or data for which the scheduler is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Choose a subflow for the next unscheduled data.
    NewData,
    /// Choose a subflow to reinject data, because its subflow is closed or its subflow's retransmission timer
    /// has fired. Such requests come before new data. Only schedulers that
    /// [reinject](super::PathScheduler::reinjects) get them.
    Reinject(Carried),
    /// New data is waiting, but the connection-level window is full.
    WindowBlocked {
        /// The oldest data that is not acknowledged. It blocks the window.
        head: Carried,
    },
    /// All data is scheduled, and the application waits for room in the send buffer.
    BufferFull {
        /// The oldest data that is not acknowledged. It blocks the buffer.
        head: Carried,
        /// The bytes that the send buffer could still take: possibly 0, and too few to wake the application.
        left: u64,
    },
    /// No data is unscheduled. A scheduler may send data again.
    Idle,
}

/// A media player's status, as reported with its last request (CTA-5004). The application sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The time of the request; `FAR_FUTURE` if there was none.
    received: Instant,
    /// The buffered media, milliseconds.
    buffered: Option<u32>,
    /// The time until the requested data is needed, milliseconds from `received` on.
    deadline: Option<u32>,
}

impl Hint {
    /// No status.
    const NONE: Self = Self { received: Instant::FAR_FUTURE, buffered: None, deadline: None };

    /// Creates the status from a request that arrived at `received`: the buffered media, and the time left
    /// until the first requested data is needed. Both are stored in whole milliseconds.
    pub fn new(received: Instant, buffered: Option<Duration>, left: Option<Duration>) -> Self {
        let millis =
            |time: Duration| u32::try_from(time.as_nanos() / 1_000_000).unwrap_or(u32::MAX);
        Self { received, buffered: buffered.map(millis), deadline: left.map(millis) }
    }

    /// Returns the time at which the request arrived.
    pub fn received(&self) -> Option<Instant> {
        (self.received != Instant::FAR_FUTURE).then_some(self.received)
    }

    /// Returns the media that the player had buffered when it sent the request.
    pub fn buffered(&self) -> Option<Duration> {
        self.buffered.map(|millis| Duration::from_millis(millis.into()))
    }

    /// Returns the time at which the first requested data is needed. The request's unknown transit time makes
    /// it late.
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
    /// The first byte that is not acknowledged at data level.
    pub data_una: u64,
    /// The first byte that is not scheduled yet.
    pub data_next: u64,
    /// One past the last byte written by the application.
    pub data_end: u64,
    /// One past the last byte that the connection-level window admits.
    pub window_end: u64,
    /// The largest length of a fragment. Written data is stored in fragments (`Config::send_fragment` of
    /// crate `mptcp`).
    pub fragment: u64,
    /// The end of the fragment that contains the first unscheduled byte. The following fragments have full
    /// length, except the last.
    pub piece_end: u64,
    /// The player's last status (`Connection::set_hint` of crate `mptcp`).
    pub hint: Hint,
}

impl SendRequest {
    /// Creates a request at time 0 with nothing to send.
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

    /// Returns the number of bytes that are written but not scheduled.
    pub const fn unscheduled(&self) -> u64 {
        self.data_end - self.data_next
    }

    /// Extends a burst of `burst` bytes to the end of its last fragment, as far as the window admits.
    /// Upstream Linux checks its burst only between fragments (`__subflow_push_pending`).
    pub fn whole_fragments(&self, burst: u64) -> u64 {
        let beyond = (self.data_next + burst).saturating_sub(self.piece_end);
        let end = self.piece_end + beyond.next_multiple_of(self.fragment);
        (end - self.data_next).min(self.window_left())
    }

    /// Returns the number of bytes that the connection-level window still admits.
    pub const fn window_left(&self) -> u64 {
        self.window_end.saturating_sub(self.data_next)
    }
}

/// A set of subflows. Data sent on several of them is redundant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubflowSet(u128);

impl SubflowSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// Creates a set of one subflow.
    pub const fn one(id: SubflowId) -> Self {
        Self(1 << id.0)
    }

    /// Returns the set with `id` added.
    #[must_use]
    pub const fn with(self, id: SubflowId) -> Self {
        Self(self.0 | 1 << id.0)
    }

    /// Returns the set with `id` removed.
    #[must_use]
    pub const fn without(self, id: SubflowId) -> Self {
        Self(self.0 & !(1 << id.0))
    }

    /// Returns whether the set contains `id`.
    pub const fn contains(self, id: SubflowId) -> bool {
        self.0 & (1 << id.0) != 0
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the lowest member.
    pub fn first(self) -> Option<SubflowId> {
        (self.0 != 0).then(|| SubflowId(self.0.trailing_zeros() as u8))
    }

    /// Returns the member of a set of one; `None` for any other set.
    pub fn only(self) -> Option<SubflowId> {
        let others = self.0 & self.0.wrapping_sub(1);
        self.first().filter(|_| others == 0)
    }

    /// Returns the members in ascending order.
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
        /// The latest time of the next call. A time less than 50 us away is moved to 50 us from now.
        until: Option<Instant>,
    },
    /// Send up to `burst` bytes.
    Send {
        /// The subflows to send on. Subflows that cannot take data are skipped.
        on: SubflowSet,
        /// The first byte in the data stream. Data that was sent before is reinjected. Data that was not sent
        /// yet is sent out of order. `None` selects the data of the request: the next unscheduled byte, or
        /// the first byte to reinject.
        from: Option<u64>,
        /// The most bytes to send before the next call.
        burst: u64,
    },
    /// Halve the windows of those subflows that are in the Open state, and call again. Only one penalty is
    /// allowed until the scheduler returns `Wait`.
    Penalise(SubflowSet),
}

impl Decision {
    /// Wait for the next event.
    pub const WAIT: Self = Self::Wait { until: None };

    /// Send the data of the request on one subflow.
    pub const fn next_on(id: SubflowId, burst: u64) -> Self {
        Self::Send { on: SubflowSet::one(id), from: None, burst }
    }
}
