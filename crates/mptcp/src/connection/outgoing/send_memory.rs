//! Room in the send buffer, and the application that waits for it (`SOCK_NOSPACE`).

use super::{SendStream, Session, Subflows};
use crate::connection::Event;
use crate::subflow::Subflow;
use anabranch_tcp::State;

/// Bytes of send buffer that MPTCP has in addition to its subflows' (`__mptcp_sync_sndbuf`: `tcp_wmem[0]`).
const OWN_BUFFER: u64 = 4096;

impl SendStream {
    /// Bytes that the send buffer has room for (`__mptcp_sync_sndbuf`: the subflows' buffers together and a little).
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

    /// Memory charged to the connection for data to send.
    fn send_memory(&self, session: &Session, subflows: &Subflows) -> u64 {
        match subflows.first() {
            Some(only) if session.is_plain() => {
                only.tcp.sending().queue().memory() + (self.end - self.cursor)
            }
            _ => self.end - self.una + self.fragments.memory(),
        }
    }

    /// Whether a third of the send buffer is free, as poll(2) reports it. If not, `Event::Writable` follows when it
    /// is (`sk_stream_is_writeable`).
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

    /// The application waits for room, or no longer (`SOCK_NOSPACE`).
    pub(in crate::connection) fn set_blocked(&mut self, subflows: &mut Subflows, blocked: bool) {
        (self.blocked, self.releases) = (blocked, false);
        for subflow in subflows.iter_mut() {
            subflow.tcp.sending_mut().buffer_mut().set_blocked(blocked);
        }
    }

    /// Notifies the application when a third of the buffer is free again.
    #[inline]
    pub(in crate::connection) fn notify_writable(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
    ) {
        if self.blocked {
            self.notify_blocked(session, subflows, None);
        }
    }

    /// Like [`Self::notify_writable`], for an acknowledgement. Its subflow has checked its own buffer before
    /// (`tcp_new_space`), so it learns of the room afterwards.
    #[inline]
    pub(in crate::connection) fn notify_behind_ack(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
        index: usize,
    ) {
        if self.blocked {
            self.notify_blocked(session, subflows, Some(index));
        }
    }

    #[inline(never)]
    fn notify_blocked(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
        acknowledged: Option<usize>,
    ) {
        if self.is_writable(session, subflows) {
            self.set_blocked(subflows, false);
            if let Some(index) = acknowledged {
                subflows[index].tcp.sending_mut().buffer_mut().set_blocked(true);
                self.releases = true;
            }
            session.report(Event::Writable);
        }
    }

    /// The data that an acknowledgement released has been sent.
    #[inline]
    pub(in crate::connection) fn release_subflows(&mut self, subflows: &mut Subflows) {
        if self.releases {
            self.set_blocked(subflows, false);
        }
    }
}
