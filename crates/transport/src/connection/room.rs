//! Room in the send buffer, and who waits for it (`SOCK_NOSPACE`).

use super::{Connection, Event, Mode};
use crate::subflow::{State, Subflow};

/// Bytes of send buffer that MPTCP has beside those of its subflows (`__mptcp_sync_sndbuf`: `tcp_wmem[0]`).
const OWN_BUFFER: u64 = 4096;

impl Connection {
    /// Bytes the send buffer can still take (`__mptcp_sync_sndbuf`: the subflows' buffers together and a little).
    pub fn writable(&self) -> u64 {
        let told = self.mode == Mode::Multipath;
        let buffer_of = |s: &Subflow| {
            if told { s.send.buffer_told() } else { s.send.buffer_limit() }
        };
        let live = self.subflows.iter().filter(|s| s.state != State::Closed);
        let buffer: u64 = live.map(buffer_of).sum();
        let stack = &self.config.stack;
        let most =
            if stack.mptcp.bounds_send_buffer { self.config.send_buffer_max } else { u64::MAX };
        let plain = self.mode == Mode::Plain || stack.mptcp.bounds_send_buffer;
        let own = if plain { 0 } else { OWN_BUFFER };
        (own + buffer).min(most).saturating_sub(self.send_memory())
    }

    /// Memory charged to the connection for what it holds to send.
    fn send_memory(&self) -> u64 {
        match (self.mode, self.subflows.first()) {
            (Mode::Plain, Some(only)) => only.send.memory() + (self.out.end - self.out.cursor),
            _ => self.out.end - self.out.una + self.out.pieces.memory(),
        }
    }

    /// Whether a third of the send buffer is free, as poll(2) tells a writer; where it is not,
    /// `Event::Writable` follows when it is (`sk_stream_is_writeable`).
    pub fn poll_writable(&mut self) -> bool {
        let ready = self.is_writable();
        if !ready {
            self.set_blocked(true);
        }
        ready
    }

    #[inline(always)]
    pub(super) fn is_writable(&self) -> bool {
        let room = self.writable();
        room > 0 && room >= self.send_memory() / 2
    }

    /// The application waits for room, or does so no more (`SOCK_NOSPACE`).
    pub(super) fn set_blocked(&mut self, blocked: bool) {
        (self.out.blocked, self.out.releases) = (blocked, false);
        for subflow in &mut self.subflows {
            subflow.send.blocked_on_buffer = blocked;
        }
    }

    /// Tells the application when a third of the buffer is free again.
    #[inline(always)]
    pub(super) fn notify_writable(&mut self) {
        if self.out.blocked {
            self.notify_blocked(None);
        }
    }

    /// As [`Self::notify_writable`], for an acknowledgement: the subflow that it came on has looked at its own buffer
    /// before (`tcp_new_space`), so that it hears of it when that is done.
    #[inline(always)]
    pub(super) fn notify_behind_ack(&mut self, index: usize) {
        if self.out.blocked {
            self.notify_blocked(Some(index));
        }
    }

    #[inline(never)]
    fn notify_blocked(&mut self, acknowledged: Option<usize>) {
        if self.is_writable() {
            self.set_blocked(false);
            if let Some(index) = acknowledged {
                self.subflows[index].send.blocked_on_buffer = true;
                self.out.releases = true;
            }
            self.events.push_back(Event::Writable);
        }
    }

    /// What an acknowledgement let out has left.
    #[inline(always)]
    pub(super) fn release_subflows(&mut self) {
        if self.out.releases {
            self.set_blocked(false);
        }
    }
}
