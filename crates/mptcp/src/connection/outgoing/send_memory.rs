//! The free space in the send buffer, and an application that waits for it (`SOCK_NOSPACE`).

use super::{SendStream, Session, Subflows};
use crate::connection::Event;
use crate::subflow::Subflow;
use anabranch_tcp::State;

/// The size of MPTCP's own send buffer, in addition to those of its subflows, in bytes
/// (`__mptcp_sync_sndbuf`: `tcp_wmem[0]`).
const OWN_BUFFER: u64 = 4096;

impl SendStream {
    /// Returns the free space in the send buffer, in bytes. The buffer is the sum of the subflows' buffers
    /// and [`OWN_BUFFER`] (`__mptcp_sync_sndbuf`).
    pub(in crate::connection) fn writable(&self, session: &Session, subflows: &Subflows) -> u64 {
        let told = session.is_multipath();
        let buffer_of = |s: &Subflow| {
            if told { s.tcp.sending().buffer().told() } else { s.tcp.sending().buffer().limit() }
        };
        let live = subflows.iter().filter(|s| s.tcp.state() != State::Closed);
        let buffer: u64 = live.map(buffer_of).sum();
        let stack = session.stack();
        let most = if stack.mptcp.bounds_send_buffer {
            session.config().send_buffer_max
        } else {
            u64::MAX
        };
        let plain = session.is_plain() || stack.mptcp.bounds_send_buffer;
        let own = if plain { 0 } else { OWN_BUFFER };
        (own + buffer).min(most).saturating_sub(self.send_memory(session, subflows))
    }

    /// Returns the memory that is charged for data to send.
    fn send_memory(&self, session: &Session, subflows: &Subflows) -> u64 {
        match subflows.first() {
            Some(only) if session.is_plain() => {
                only.tcp.sending().queue().memory() + (self.end - self.cursor)
            }
            _ => self.end - self.una + self.fragments.memory(),
        }
    }

    /// Returns whether a third of the send buffer is free, like poll(2) (`sk_stream_is_writeable`). If not,
    /// `Event::Writable` follows when it is.
    pub(in crate::connection) fn poll_writable(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
    ) -> bool {
        let ready = self.is_writable(session, subflows);
        if !ready {
            self.set_blocked(subflows, true);
        }
        ready
    }

    #[inline]
    pub(super) fn is_writable(&self, session: &Session, subflows: &Subflows) -> bool {
        let room = self.writable(session, subflows);
        room > 0 && room >= self.send_memory(session, subflows) / 2
    }

    /// Sets whether the application waits for free space (`SOCK_NOSPACE`).
    pub(in crate::connection) fn set_blocked(&mut self, subflows: &mut Subflows, blocked: bool) {
        (self.blocked, self.releases) = (blocked, false);
        for subflow in subflows.iter_mut() {
            subflow.tcp.supply().set_blocked(blocked);
        }
    }

    /// Notifies the application if it waits and a third of the buffer is free.
    #[inline]
    pub(in crate::connection) fn report_writable(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
    ) {
        if self.blocked {
            self.report_blocked(session, subflows, None);
        }
    }

    /// Like [`Self::report_writable`], after an acknowledgement. Its subflow checked its own buffer before
    /// the application was notified (`tcp_new_space`), so the subflow's flag is cleared later.
    #[inline]
    pub(in crate::connection) fn report_behind_ack(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
        index: usize,
    ) {
        if self.blocked {
            self.report_blocked(session, subflows, Some(index));
        }
    }

    #[inline(never)]
    fn report_blocked(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
        acknowledged: Option<usize>,
    ) {
        if self.is_writable(session, subflows) {
            self.set_blocked(subflows, false);
            if let Some(index) = acknowledged {
                subflows[index].tcp.supply().set_blocked(true);
                self.releases = true;
            }
            session.report(Event::Writable);
        }
    }

    /// Clears the flags of the subflows after data that the acknowledgement permitted has been sent.
    #[inline]
    pub(in crate::connection) fn clear_subflows(&mut self, subflows: &mut Subflows) {
        if self.releases {
            self.set_blocked(subflows, false);
        }
    }
}
