//! Marks segments as lost.

use anabranch_units::Instant;

use super::Flight;
use anabranch_congestion::LostSegment;

impl Flight {
    /// Marks a segment as lost (`tcp_mark_skb_lost`). Returns the segment for the controller if it left the flight.
    pub(in crate::sending) fn on_lost(&mut self, now: Instant, number: u64) -> Option<LostSegment> {
        if !self.mark_lost(number) {
            return None;
        }
        let index = number.checked_sub(self.base)? as usize;
        let sent = self.entries.get(index)?;
        let lost_since_send = self.rate.on_lost(&sent.stamp);
        Some(LostSegment {
            now,
            start: sent.start,
            end: sent.end(),
            in_flight_at_send: sent.stamp.in_flight,
            lost_since_send,
            app_limited: sent.stamp.app_limited,
            delivered: self.rate.delivered(),
            selective_acks: self.selective,
        })
    }
}
