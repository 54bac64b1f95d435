//! Writes the next segment of one subflow, with the values of the connection.

use anabranch_units::Instant;
use anabranch_wire::Segment;

use super::Connection;
use crate::subflow::EmitContext;
use anabranch_tcp::{self as tcp, State, Written};

impl Connection {
    /// Writes the next segment of a subflow, if it has one.
    #[inline(never)]
    pub(super) fn poll_subflow(
        &mut self,
        now: Instant,
        index: usize,
        most: u32,
        segment: &mut Segment,
    ) -> Option<Written> {
        self.subflows[index].note_change();
        let mut written = Written::default();
        let subflow = &mut self.subflows[index];
        if subflow.tcp.has_pending_reset() {
            return subflow.take_reset(segment).then_some(written);
        }
        match subflow.tcp.state() {
            // A closed subflow may still have to acknowledge the peer's FIN.
            State::Closed if !subflow.tcp.finished() => return None,
            State::SynSent | State::SynReceived => {
                let due = subflow.next_handshake_segment(now, self.session.config(), segment);
                return due.then_some(written);
            }
            State::Established | State::Closed => {}
        }
        let acknowledged = self.incoming.acknowledged();
        let promised = self.incoming.promised().saturating_sub(acknowledged);
        let context = EmitContext {
            tcp: tcp::EmitContext {
                now,
                space: self.incoming.space(&self.session, &self.subflows),
                promised: self.subflows[index].shared_window(promised),
            },
            data_ack: self.session.data_ack(acknowledged),
            dsn_base: self.session.local_base(),
            data_fin: self.closing.signals().then(|| self.outgoing.stream().end()),
            checksum: self.session.config().checksum && self.session.is_multipath(),
        };
        let (host, subflow) = (self.session.host(), &mut self.subflows[index]);
        let mut due = true;
        if subflow.signal_due() || subflow.tcp.receive().has_urgent_ack() {
            // Queued options would not fit on a data segment.
            subflow.next_pure_ack(&context, segment);
        } else if most > 1
            && let begin = subflow.tcp.sending().queue().next_data()
            && let most = if begin.is_some_and(|begin| self.outgoing.stream().keeps(begin)) {
                most
            } else {
                1
            }
            && let Some((burst, more)) = subflow.next_burst(host, &context, most, segment)
        {
            written = burst;
            if let (Some(begin), true) = (begin, more > 0) {
                self.outgoing.stream_mut().add_payload(begin, more, segment);
            }
        } else if most <= 1
            && subflow.tcp.has_data()
            && subflow.next_data_segment(host, &context, segment)
        {
            subflow.add_options(segment, false);
        } else {
            subflow.tcp.supply().grow_buffer_behind_data(now);
            due = subflow.next_pure_ack(&context, segment);
        }
        if self.subflows[index].tcp.supply().take_buffer_growth() {
            self.outgoing.note_growth(&mut self.session, &mut self.subflows);
        }
        if due {
            self.incoming.note_promise(&self.subflows, index);
        }
        due.then_some(written)
    }
}
