//! Writes a data segment with its DSS, or with the option that replaces it.

use anabranch_wire::Segment;

use super::{EmitContext, Subflow};
use anabranch_tcp::Departed;
use anabranch_tcp::config::HostModel;

impl Subflow {
    /// Writes the next data segment. Retransmissions come first. Returns false if no data may be sent now.
    #[inline]
    pub(crate) fn next_data_segment(
        &mut self,
        host: &HostModel,
        context: &EmitContext,
        segment: &mut Segment,
    ) -> bool {
        let departed = self.tcp.next_data_segment(host, &context.tcp, segment);
        let Some(departed) = departed else { return false };
        self.add_data_ack(context, segment);
        self.add_mapping(departed, context, segment);
        true
    }

    /// Adds the mapping, the `MP_CAPABLE` that replaces it, or the infinite mapping.
    #[inline]
    fn add_mapping(&mut self, departed: Departed, context: &EmitContext, segment: &mut Segment) {
        let Departed { start, tag } = departed;
        let short = self.stack.short_data_numbers;
        match tag.filter(|_| self.is_multipath()) {
            Some(tag) => self.context.add_mapping(segment, start, tag, context, short),
            None => self.context.add_final_mapping(segment, start, context, short),
        }
    }
}
