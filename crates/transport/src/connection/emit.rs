//! The next segment of one subflow, and what the connection adds to it.

use anabranch_units::Instant;
use anabranch_wire::{DataAck, Segment};

use super::{Connection, Mode};
use crate::subflow::{EmitContext, Space, State, Written};

impl Connection {
    /// The next segment of a subflow that may have one.
    // Apart, so that the look that finds nothing stays a short one.
    #[inline(never)]
    pub(super) fn poll_subflow(
        &mut self,
        now: Instant,
        index: usize,
        most: u32,
        segment: &mut Segment,
    ) -> Option<Written> {
        let subflow = &mut self.subflows[index];
        subflow.touched = true;
        if most > 1 || self.closing.signals() || self.config.checksum || subflow.emits_rarely() {
            return self.poll_rarely(now, index, most, segment);
        }
        // Most often it is new data or an acknowledgement, with nothing else to tell: what is known to be
        // absent is not looked for again.
        let context = EmitContext { data_fin: None, checksum: false, ..self.context(now) };
        let (host, subflow) = (&self.config.host, &mut self.subflows[index]);
        let due = subflow.next_plain(host, &context, segment);
        self.note_written(index, due);
        due.then(Written::default)
    }

    /// As [`Self::poll_subflow`], of a subflow that may have anything to say.
    #[inline(never)]
    fn poll_rarely(
        &mut self,
        now: Instant,
        index: usize,
        most: u32,
        segment: &mut Segment,
    ) -> Option<Written> {
        let mut written = Written::default();
        let (host, subflow) = (&self.config.host, &mut self.subflows[index]);
        if subflow.reset.is_some() {
            return subflow.take_reset(segment).then_some(written);
        }
        match subflow.state {
            // What is closed may still owe the acknowledgement of the peer's FIN.
            State::Closed if !subflow.finished() => return None,
            State::SynSent | State::SynReceived => {
                let due = subflow.next_handshake_segment(host, now, &self.config, segment);
                return due.then_some(written);
            }
            State::Established | State::Closed => {}
        }
        let context = self.context(now);
        let (host, subflow) = (&self.config.host, &mut self.subflows[index]);
        let mut due = true;
        if subflow.signal_due() || subflow.owes_first() {
            // Options that are waiting do not fit beside data.
            subflow.next_pure_ack(&context, segment);
        } else if most > 1
            && let begin = subflow.send.next_data()
            && let most = if begin.is_some_and(|begin| self.out.keeps(begin)) { most } else { 1 }
            && let Some((burst, more)) = subflow.next_burst(host, &context, most, segment)
        {
            written = burst;
            if let (Some(begin), true) = (begin, more > 0) {
                self.out.gather(begin, more, segment);
            }
        } else if most <= 1 && subflow.next_data_segment(host, &context, segment) {
            subflow.fill_options(segment, false);
        } else {
            subflow.expand_buffer_behind_data(now);
            due = subflow.next_pure_ack(&context, segment);
        }
        self.note_written(index, due);
        due.then_some(written)
    }

    /// A subflow was asked for a segment, and has written one if it was `due`.
    #[inline(always)]
    fn note_written(&mut self, index: usize, due: bool) {
        if std::mem::take(&mut self.subflows[index].send.grew) {
            self.note_growth();
        }
        if due {
            self.note_promise(index);
        }
    }

    /// What a subflow needs to know to emit a segment.
    #[inline(always)]
    fn context(&self, now: Instant) -> EmitContext {
        EmitContext {
            now,
            data_ack: (self.mode == Mode::Multipath).then(|| self.data_ack()),
            dsn_base: self.local_key.idsn.0.wrapping_add(1),
            data_received: self.input.acknowledged(),
            space: self.space(),
            promised_edge: self.budget.promised(),
            data_fin: self.signalled_fin(),
            checksum: self.config.checksum && self.mode == Mode::Multipath,
        }
    }

    /// Receive space, free and in all.
    #[inline(always)]
    pub(super) fn space(&self) -> Space {
        let allowed = self.budget.limit();
        let free = match self.budget.window_of_bytes(|| self.bytes_waiting()) {
            Some(used) => allowed.saturating_sub(used),
            None => self.budget.window_beside(self.memory_used()),
        };
        let open = self.budget.open();
        Space { free, allowed, open, opens: false }
    }

    pub(super) fn data_ack(&self) -> DataAck {
        let dsn = self.receive_dsn();
        if self.long_data_ack {
            DataAck::Long(anabranch_units::DataSeq(dsn))
        } else {
            DataAck::Short(dsn as u32)
        }
    }

    /// DSN of the next data byte expected.
    pub(super) fn receive_dsn(&self) -> u64 {
        let base = self.peer_base();
        base.wrapping_add(self.input.acknowledged())
    }
}
