//! A subflow: its TCP connection and its MPTCP state.

mod burst;
mod context;
mod data_segment;
pub(crate) mod deliver;
mod ending;
pub(crate) mod final_mapping;
mod handshake;
mod mapping;
mod options;
mod payload;
mod signals;
mod staleness;
mod standing;
mod third;
mod view;

use anabranch_congestion::{CongestionController, SiblingView};
use anabranch_units::{Instant, SeqNumber, SubflowId};
use anabranch_wire::{DataAck, Dss, Segment};

use crate::config::Config;
use anabranch_tcp::config::{FourTuple, HostModel};
use anabranch_tcp::stack::ReceiveSizing;
use anabranch_tcp::{self as tcp, Space, State, Tcp};

pub(crate) use ending::Reset;
pub(crate) use standing::Standing;

/// The connection's values that are needed to build a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmitContext {
    /// The values that TCP needs.
    pub(crate) tcp: tcp::EmitContext,
    /// The data-level acknowledgement. `None` on plain TCP.
    pub(crate) data_ack: Option<DataAck>,
    /// The DSN of stream position 0.
    pub(crate) dsn_base: u64,
    /// The stream position of the `DATA_FIN`, if it must be signalled.
    pub(crate) data_fin: Option<u64>,
    /// Whether mappings carry checksums.
    pub(crate) checksum: bool,
}

/// The mechanisms of the stack that a subflow uses.
#[derive(Debug)]
struct Mechanisms {
    receive: ReceiveSizing,
    short_data_numbers: bool,
}

/// One subflow.
#[derive(Debug)]
pub(crate) struct Subflow {
    /// The TCP connection.
    pub(crate) tcp: Tcp,
    /// The MPTCP state.
    pub(crate) context: context::Context,
    stack: Mechanisms,
    /// Whether values that a scheduler uses may have changed since the last view of the subflow.
    changed: bool,
    /// The time at which the subflow wants to be woken, if it had nothing to send and has not changed since
    /// ([`Self::end_rest`]). [`Instant::ZERO`] if it does not rest.
    rests_until: Instant,
}

impl Subflow {
    /// Creates a subflow that will send a SYN (`active`) or has received one.
    pub(crate) fn new(
        id: SubflowId,
        tuple: FourTuple,
        active: bool,
        iss: SeqNumber,
        controller: Box<dyn CongestionController>,
        config: &Config,
    ) -> Self {
        Self {
            tcp: Tcp::new(id, tuple, active, iss, controller, &config.tcp()),
            context: context::Context::default(),
            stack: Mechanisms {
                receive: config.stack.shared.receive,
                short_data_numbers: config.stack.mptcp.short_data_numbers,
            },
            changed: true,
            rests_until: Instant::ZERO,
        }
    }

    /// Returns whether the subflow uses MPTCP. Otherwise it is plain TCP.
    #[inline]
    pub(crate) fn is_multipath(&self) -> bool {
        self.tcp.is_tagged()
    }

    /// Starts MPTCP after `MP_CAPABLE` was negotiated.
    pub(crate) fn begin_multipath(&mut self) {
        self.context.complete();
        self.tcp.supply().begin_tags();
    }

    /// Ends MPTCP. The subflow continues as plain TCP.
    pub(crate) fn fall_back(&mut self) {
        self.context.fall_back();
        self.tcp.supply().end_tags();
        self.changed = true;
    }

    /// Returns whether new segments need space for a DSS: while MPTCP is in use, and until the infinite
    /// mapping was sent.
    pub(crate) fn reserves_dss(&self) -> bool {
        self.is_multipath() || self.context.holds_final_mapping()
    }

    /// Returns whether the subflow may send data. A join may only after the fourth packet of its handshake
    /// (RFC 8684 section 3.2).
    #[inline]
    pub(crate) fn usable(&self) -> bool {
        self.tcp.can_send() && (!self.is_multipath() || self.context.is_fully_established())
    }

    /// Records that values that a scheduler uses may have changed.
    #[inline]
    pub(crate) fn note_change(&mut self) {
        self.changed = true;
    }

    /// Returns whether values that a scheduler uses may have changed since the last call.
    #[inline]
    pub(crate) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns the values of the subflow that coupled controllers use.
    pub(crate) fn sibling_view(&self) -> SiblingView {
        let stale = self.context.staleness().is_stale();
        self.tcp.sending().sibling_view(self.tcp.id(), self.usable(), stale)
    }

    /// Handles the acknowledgement number of a segment. `siblings` is empty unless the controller is coupled.
    #[inline]
    pub(crate) fn handle_ack(
        &mut self,
        host: &HostModel,
        now: Instant,
        segment: &Segment,
        siblings: &mut [SiblingView],
    ) {
        // A DSS does not count as a signal, because most segments have one.
        let signal = !segment.mptcp.is_empty();
        self.changed |= self.tcp.handle_ack(host, now, segment, signal, siblings);
    }

    /// Returns the time at which the subflow wants to be woken. `FAR_FUTURE` if it does not.
    #[inline]
    pub(crate) fn wake(&self) -> Instant {
        if self.rests_until == Instant::ZERO { self.first_deadline() } else { self.rests_until }
    }

    #[inline]
    fn first_deadline(&self) -> Instant {
        let third = self.context.third().deadline();
        if third == Instant::FAR_FUTURE || self.tcp.state() == State::Closed {
            return self.tcp.wake();
        }
        self.tcp.wake().min(third)
    }

    /// Returns whether the subflow may have a segment to send. This check is cheap and comes before the full
    /// one. A subflow with nothing to send rests until it is changed, and is not checked again before.
    #[inline]
    pub(crate) fn poll_ready(&mut self) -> bool {
        if self.rests_until != Instant::ZERO {
            debug_assert!(!self.may_transmit() && self.rests_until == self.first_deadline());
            return false;
        }
        let ready = self.may_transmit();
        if !ready {
            self.rests_until = self.first_deadline();
        }
        ready
    }

    /// Ends the rest of a subflow that is about to be changed.
    #[inline]
    pub(crate) fn end_rest(&mut self) {
        self.rests_until = Instant::ZERO;
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        self.tcp.may_transmit() || self.signal_due()
    }

    /// Returns whether an acknowledgement must be sent now to carry MPTCP signals.
    #[inline]
    pub(crate) fn signal_due(&self) -> bool {
        self.context.has_pending_signals() && self.tcp.state() == State::Established
    }

    /// Handles a read of the application. `emptied`: all data was read. `opened`: the connection-level window
    /// is at least twice the last one advertised.
    pub(crate) fn on_read(&mut self, space: Space, opened: bool, emptied: bool) {
        if self.tcp.state() == State::Established && self.context.is_fully_established() {
            let held = self.is_multipath().then(|| self.context.delivery().held_bytes());
            self.tcp.receive_mut().on_read(space, opened, emptied, held);
        }
    }

    /// Returns whether segments advertise the subflow's own window instead of the connection's. This is the
    /// case for the third packet of a join, which has no DSS: the connection's window needs a `DATA_ACK`
    /// (`mptcp_set_rwin` in `mptcp_write_options`). In older stacks, all subflows always share one window.
    pub(crate) fn advertises_own_window(&self) -> bool {
        self.context.third().is_join() && self.stack.receive == ReceiveSizing::Ratio
    }

    /// Returns the window `promised` on any subflow, if it is also valid for this one.
    #[inline]
    pub(crate) fn shared_window(&self, promised: u64) -> Option<u64> {
        (self.is_multipath() && !self.advertises_own_window()).then_some(promised)
    }

    /// Adds the `DATA_ACK` to a segment with ACK.
    #[inline]
    fn add_data_ack(&self, context: &EmitContext, segment: &mut Segment) {
        if self.is_multipath() {
            segment.dss =
                context.data_ack.map(|data_ack| Dss { data_ack: Some(data_ack), ..Dss::default() });
        }
    }
}

#[cfg(test)]
mod fixture;
