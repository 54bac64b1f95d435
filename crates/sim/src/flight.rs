//! The segments in flight on each subflow. They are counted where packets enter and leave the links,
//! independently of the sender's own count.

use std::collections::VecDeque;

use anabranch_mptcp::{Assumed, Connection, WindowInUse};
use anabranch_units::{Duration, Instant};
use anabranch_wire::Segment;

use crate::checks::{Violation, WINDOW_SLACK};

/// The shortest time between two loss probes. Each of them may be sent beyond the window (RFC 8985 section
/// 7.2).
const PROBE_GAP: Duration = Duration::from_millis(2);

/// A range of the sequence space that was sent as one segment.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u32,
    /// The number of packets on the links that contain this segment.
    copies: u16,
    arrived: bool,
}

/// The segments in flight of one subflow.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// The ordinal of the subflow. Another subflow can get the same identity later.
    ordinal: u32,
    /// The number of the first segment in `sent`. Numbers are not reused.
    base: u32,
    sent: VecDeque<Sent>,
    /// The first sequence number of the newest segment that was sent.
    newest: Option<u32>,
    /// The number of segments that are on the links and have not arrived.
    under_way: u32,
    /// The number of consecutive segments sent beyond the window, and the time of the last one.
    beyond: u32,
    beyond_at: Instant,
}

impl Flight {
    /// Restarts the state if the identity now belongs to a subflow with another ordinal.
    #[inline]
    fn begin(&mut self, ordinal: u32) {
        if self.ordinal != ordinal {
            let base = self.base.wrapping_add(self.sent.len() as u32);
            *self = Self { ordinal, base, ..Self::default() };
        }
    }

    /// Records that a data segment is sent. Returns the number under which its arrival is recorded, or `None`
    /// if its data has already arrived.
    #[inline]
    fn depart(&mut self, segment: &Segment) -> Option<u32> {
        let start = segment.seq.0;
        if self.newest.is_none_or(|newest| start.wrapping_sub(newest) as i32 > 0) {
            self.newest = Some(start);
            self.sent.push_back(Sent { start, copies: 1, arrived: false });
            self.under_way += 1;
            return Some(self.base.wrapping_add(self.sent.len() as u32 - 1));
        }
        self.depart_again(start)
    }

    #[cold]
    fn depart_again(&mut self, start: u32) -> Option<u32> {
        let behind = self.sent.partition_point(|s| s.start.wrapping_sub(start) as i32 <= 0);
        let index = behind.checked_sub(1)?;
        let sent = &mut self.sent[index];
        sent.copies += 1;
        self.under_way += u32::from(sent.copies == 1 && !sent.arrived);
        Some(self.base.wrapping_add(index as u32))
    }

    /// Records that a link duplicates a packet. Returns false if the segment has already arrived and all its
    /// packets have left the links.
    #[cold]
    fn copy(&mut self, number: u32) -> bool {
        let Some(sent) = self.sent.get_mut(number.wrapping_sub(self.base) as usize) else {
            return false;
        };
        sent.copies += 1;
        self.under_way += u32::from(sent.copies == 1 && !sent.arrived);
        true
    }

    /// Records that a packet has arrived or was dropped.
    #[inline]
    pub(crate) fn settle(&mut self, number: u32, arrived: bool) {
        let Some(sent) = self.sent.get_mut(number.wrapping_sub(self.base) as usize) else { return };
        sent.copies -= 1;
        if !sent.arrived && (arrived || sent.copies == 0) {
            self.under_way -= 1;
        }
        sent.arrived |= arrived;
        while self.sent.front().is_some_and(|first| first.arrived && first.copies == 0) {
            self.sent.pop_front();
            self.base = self.base.wrapping_add(1);
        }
    }
}

/// The segments in flight of a connection, by subflow.
#[derive(Debug, Default)]
pub(crate) struct Flights(Vec<Flight>);

impl Flights {
    /// Records that a segment of the connection is sent. Returns the subflow and the number of the segment,
    /// if it is counted. No segment may be sent beyond the window, except for a loss probe and the first
    /// segment after a timeout.
    #[inline]
    pub(crate) fn depart(
        &mut self,
        now: Instant,
        connection: &Connection,
        segment: &Segment,
    ) -> Result<Option<(u8, u32)>, Violation> {
        if segment.payload.is_empty() {
            return Ok(None);
        }
        let Some(window) = connection.view().last_window() else { return Ok(None) };
        let WindowInUse { id, ordinal, in_flight, cwnd } = window;
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, Flight::default);
        }
        let flight = &mut self.0[id.index()];
        flight.begin(ordinal);
        let number = flight.depart(segment);
        if in_flight.max(flight.under_way) > cwnd {
            let uncounted =
                connection.view().assumed_on(id).map_or(0, |assumed| flight.uncounted(assumed));
            let most = in_flight.max(flight.under_way.saturating_sub(uncounted));
            flight.check(now, id.0, most, cwnd)?;
        }
        Ok(number.map(|number| (id.0, number)))
    }

    /// Records that a link duplicates a packet. Returns false if the copy is not counted.
    pub(crate) fn copy(&mut self, subflow: u8, number: u32) -> bool {
        self.0[usize::from(subflow)].copy(number)
    }

    /// Records that a packet has arrived or was dropped.
    #[inline]
    pub(crate) fn settle(&mut self, subflow: u8, number: u32, arrived: bool) {
        self.0[usize::from(subflow)].settle(number, arrived);
    }
}

impl Flight {
    /// Returns the number of segments on the links that the sender does not count as in flight. The sender
    /// may regard late segments as lost. Without SACK, the sender also counts every duplicate acknowledgement
    /// as a delivered segment (`tcp_add_reno_sack`). A duplicated packet or a needless retransmission causes
    /// duplicate acknowledgements, too (RFC 5681 section 3.2).
    #[cold]
    fn uncounted(&self, assumed: Assumed) -> u32 {
        let is_missing =
            |sent: &&Sent| !sent.arrived && sent.start.wrapping_sub(assumed.una.0) as i32 >= 0;
        let missing = self.sent.iter().filter(is_missing).count() as u32;
        let arrived = assumed.outstanding.saturating_sub(missing);
        assumed.lost + assumed.delivered.saturating_sub(arrived)
    }

    #[cold]
    fn check(&mut self, now: Instant, subflow: u8, most: u32, cwnd: u32) -> Result<(), Violation> {
        if most <= cwnd {
            return Ok(());
        }
        if now.since(self.beyond_at) >= PROBE_GAP {
            self.beyond = 0;
        }
        self.beyond += 1;
        self.beyond_at = now;
        if self.beyond > WINDOW_SLACK {
            return Err(Violation::InFlight { subflow, in_flight: most, cwnd });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::SeqNumber;

    fn depart(flight: &mut Flight, seq: u32) -> u32 {
        let segment = Segment { seq: SeqNumber(seq), ..Segment::default() };
        flight.depart(&segment).expect("it has not arrived")
    }

    #[test]
    fn every_packet_counts_until_its_segment_has_arrived_or_it_is_dropped() {
        let mut flight = Flight::default();
        // The sequence numbers wrap around here.
        let numbers: Vec<u32> = (0..4u32)
            .map(|n| depart(&mut flight, (u32::MAX - 150).wrapping_add(100 * n)))
            .collect();
        assert_eq!((numbers, flight.under_way), (vec![0, 1, 2, 3], 4));
        flight.settle(0, true);
        flight.settle(1, false);
        flight.settle(3, true);
        assert_eq!(flight.under_way, 1);
        // The dropped segment and a late segment are sent again. The late segment is then in two packets.
        assert_eq!(depart(&mut flight, u32::MAX - 50), 1);
        assert_eq!(depart(&mut flight, 49), 2);
        assert_eq!(flight.under_way, 2);
        flight.settle(2, true);
        assert_eq!(flight.under_way, 1);
        flight.settle(2, true);
        flight.settle(1, true);
        assert_eq!((flight.under_way, flight.sent.len()), (0, 0));
        assert_eq!(depart(&mut flight, 249), 4);
    }

    #[test]
    fn retransmission_of_delivered_data_is_not_in_flight() {
        let mut flight = Flight::default();
        let numbers = [5000, 5100].map(|seq| depart(&mut flight, seq));
        for number in numbers {
            flight.settle(number, true);
        }
        // These segments were late and regarded as lost. No other segment is on the links.
        let again = |flight: &mut Flight, seq| {
            flight.depart(&Segment { seq: SeqNumber(seq), ..Segment::default() })
        };
        assert_eq!((again(&mut flight, 5000), again(&mut flight, 5100)), (None, None));
        assert_eq!(flight.under_way, 0);
        depart(&mut flight, 5200);
        assert_eq!(flight.under_way, 1);
    }

    #[test]
    fn duplicate_may_arrive_before_its_original() {
        let mut flight = Flight::default();
        let number = depart(&mut flight, 5000);
        assert!(flight.copy(number));
        assert_eq!(flight.under_way, 1, "one segment");
        flight.settle(number, true);
        assert_eq!(flight.under_way, 0);
        flight.settle(number, true);
        assert!(flight.sent.is_empty() && !flight.copy(number), "both have arrived");
        // A copy of the dropped segment puts it in flight again.
        let number = depart(&mut flight, 6000);
        flight.settle(number, false);
        assert!(flight.copy(number));
        assert_eq!(flight.under_way, 1);
        flight.settle(number, true);
        assert_eq!((flight.under_way, flight.sent.len()), (0, 0));
    }

    #[test]
    fn another_subflow_in_the_same_place_begins_with_nothing_under_way() {
        let mut flight = Flight::default();
        let of_the_first = depart(&mut flight, 5000);
        depart(&mut flight, 5100);
        flight.begin(1);
        // The new subflow has other sequence numbers. They may be before or after those of the old subflow.
        let number = depart(&mut flight, 100);
        assert_eq!((number, flight.under_way), (2, 1));
        flight.begin(1);
        assert_eq!(flight.under_way, 1, "the same one");
        // A late packet of the old subflow has no effect.
        flight.settle(of_the_first, true);
        assert_eq!(flight.under_way, 1);
        flight.settle(number, true);
        assert_eq!(flight.under_way, 0);
    }

    #[test]
    fn needless_duplicates_are_uncounted_and_those_for_arrived_segments_are_not() {
        // Six segments begin at 5000. The first was acknowledged, and the third and the fifth have arrived.
        let mut flight = Flight::default();
        for n in 0..6 {
            depart(&mut flight, 5000 + 100 * n);
        }
        flight.settle(2, true);
        flight.settle(4, true);
        let uncounted = |lost, delivered| {
            let una = SeqNumber(5100);
            flight.uncounted(Assumed { una, outstanding: 5, lost, delivered })
        };
        assert_eq!((uncounted(0, 0), uncounted(1, 0)), (0, 1));
        assert_eq!((uncounted(0, 2), uncounted(0, 3), uncounted(1, 4)), (0, 1, 3));
    }

    #[test]
    fn two_segments_may_go_beyond_the_window_and_not_a_third() {
        let mut flight = Flight::default();
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        assert!(flight.check(at(10), 0, 10, 10).is_ok());
        assert!(flight.check(at(10), 0, 11, 10).is_ok());
        assert!(flight.check(at(11), 0, 12, 10).is_ok());
        let third = flight.check(at(12), 0, 13, 10);
        assert_eq!(third, Err(Violation::InFlight { subflow: 0, in_flight: 13, cwnd: 10 }));
        // Another probe is sent later.
        assert!(flight.check(at(14), 0, 13, 10).is_ok());
    }
}
