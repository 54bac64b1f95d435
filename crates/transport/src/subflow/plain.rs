//! The short way of a segment in and out: new data, or an acknowledgement, of a subflow with nothing else to hear or
//! to say.

use anabranch_wire::Segment;

use super::{EmitContext, State, Subflow};
use crate::config::HostModel;

impl Subflow {
    /// It is open in every respect, and nothing of its end is known: it takes plain segments the short way.
    #[expect(
        clippy::needless_bitwise_bool,
        reason = "one branch for all of it instead of one for each"
    )]
    #[inline(always)]
    pub(crate) fn takes_plainly(&self) -> bool {
        (self.state == State::Established)
            & self.multipath
            & self.fully_established
            & !self.signals.has_wish()
            & !self.peer_closed
            & !self.receive.knows_end()
    }

    /// It may have more to say than [`Self::next_plain`] knows of: one look at all of it.
    #[inline(always)]
    pub(crate) fn emits_rarely(&self) -> bool {
        (self.state != State::Established)
            | self.reset.is_some()
            | self.handshake.third.is_some()
            | self.signals.has_options()
            | self.receive.reports.may_owe()
            | self.ecn.counts_marks()
            | self.send.is_urged()
            | self.send.intent.repairs()
            | self.final_mapping.is_some()
    }

    /// Writes the next segment of a subflow that does not [emit rarely](Self::emits_rarely): new data, else
    /// the acknowledgement (or window probe) that is due; false when there is neither.
    #[inline(always)]
    pub(crate) fn next_plain(
        &mut self,
        host: &HostModel,
        context: &EmitContext,
        segment: &mut Segment,
    ) -> bool {
        if !self.send_new(host, context, false, segment) {
            self.expand_buffer_behind_data(context.now);
            if !self.next_bare_ack(context, false, segment) {
                return false;
            }
        }
        self.add_reports(segment);
        true
    }
}
