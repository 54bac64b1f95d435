//! The segments in flight of each subflow, counted where packets enter and leave the links, and not taken
//! from the sender's own count.

use std::collections::VecDeque;

use anabranch_mptcp::{Assumed, Connection, WindowInUse};
use anabranch_units::{Duration, Instant};
use anabranch_wire::Segment;

use crate::checks::{Violation, WINDOW_SLACK};

/// The least time between two loss probes, each of which may go beyond the window (RFC 8985 section 7.2).
const PROBE_GAP: Duration = Duration::from_millis(2);

/// A stretch of the sequence space that was sent as one segment.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u32,
    /// Packets with it on the links.
    copies: u16,
    arrived: bool,
}

/// The segments in flight of one subflow.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// The number of the subflow in its connection. It detects that a later subflow has taken the
    /// same index.
    ordinal: u32,
    /// Number of the first entry; numbers never repeat.
    base: u32,
    sent: VecDeque<Sent>,
    /// Where the newest segment begins that ever departed.
    newest: Option<u32>,
    /// Segments that have not arrived and of which a packet is on the links.
    under_way: u32,
    /// Segments that went beyond the window one after another, and when the last of them did.
    beyond: u32,
    beyond_at: Instant,
}

impl Flight {
    /// The place now belongs to the subflow with this ordinal.
    #[inline]
    fn begin(&mut self, ordinal: u32) {
        if self.ordinal != ordinal {
            let base = self.base.wrapping_add(self.sent.len() as u32);
            *self = Self { ordinal, base, ..Self::default() };
        }
    }

    /// A data segment departs. Returns the number it will arrive under, or `None` if the data has already arrived.
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

    /// A link emits a copy of a packet now. Returns false if the original is no longer awaited.
    /// The copy may arrive, and be acknowledged, before the original.
    #[cold]
    fn copy(&mut self, number: u32) -> bool {
        let Some(sent) = self.sent.get_mut(number.wrapping_sub(self.base) as usize) else {
            return false;
        };
        sent.copies += 1;
        self.under_way += u32::from(sent.copies == 1 && !sent.arrived);
        true
    }

    /// A packet has left the links: it arrived, or was dropped.
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

/// The flights of a connection, by its subflows' numbers.
#[derive(Debug, Default)]
pub(crate) struct Flights(Vec<Flight>);

impl Flights {
    /// A segment of the connection departs: its subflow and number, if it is followed. Except for a probe and
    /// the head after a timeout, no segment, new or retransmitted, is sent beyond the window.
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

    /// A copy of a packet comes out of a link; false when it is not to be followed.
    pub(crate) fn copy(&mut self, subflow: u8, number: u32) -> bool {
        self.0[usize::from(subflow)].copy(number)
    }

    /// A packet has left the links.
    #[inline]
    pub(crate) fn settle(&mut self, subflow: u8, number: u32, arrived: bool) {
        self.0[usize::from(subflow)].settle(number, arrived);
    }
}

impl Flight {
    /// Segments under way that the sender does not count as in flight. It may, if it takes late segments for lost.
    /// Without SACK, each duplicate acknowledgement also counts as a delivered segment (`tcp_add_reno_sack`), although
    /// the copy of a packet or a needless retransmission causes one too (RFC 5681 section 3.2).
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
        // Across the wrap of sequence numbers.
        let numbers: Vec<u32> = (0..4u32)
            .map(|n| depart(&mut flight, (u32::MAX - 150).wrapping_add(100 * n)))
            .collect();
        assert_eq!((numbers, flight.under_way), (vec![0, 1, 2, 3], 4));
        flight.settle(0, true);
        flight.settle(1, false);
        flight.settle(3, true);
        assert_eq!(flight.under_way, 1);
        // The dropped one again, and one that is late: two packets of one segment.
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
    fn what_is_sent_once_more_after_it_arrived_is_not_under_way() {
        let mut flight = Flight::default();
        let numbers = [5000, 5100].map(|seq| depart(&mut flight, seq));
        for number in numbers {
            flight.settle(number, true);
        }
        // They were late and taken for lost; nothing else is on the links.
        let again = |flight: &mut Flight, seq| {
            flight.depart(&Segment { seq: SeqNumber(seq), ..Segment::default() })
        };
        assert_eq!((again(&mut flight, 5000), again(&mut flight, 5100)), (None, None));
        assert_eq!(flight.under_way, 0);
        depart(&mut flight, 5200);
        assert_eq!(flight.under_way, 1);
    }

    #[test]
    fn a_copy_may_arrive_before_what_it_was_made_of() {
        let mut flight = Flight::default();
        let number = depart(&mut flight, 5000);
        assert!(flight.copy(number));
        assert_eq!(flight.under_way, 1, "one segment");
        flight.settle(number, true);
        assert_eq!(flight.under_way, 0);
        flight.settle(number, true);
        assert!(flight.sent.is_empty() && !flight.copy(number), "both have arrived");
        // The copy of the dropped segment is in flight again.
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
        // Its sequence numbers are its own, before those of the other or behind them.
        let number = depart(&mut flight, 100);
        assert_eq!((number, flight.under_way), (2, 1));
        flight.begin(1);
        assert_eq!(flight.under_way, 1, "the same one");
        // A packet of the other arrives late.
        flight.settle(of_the_first, true);
        assert_eq!(flight.under_way, 1);
        flight.settle(number, true);
        assert_eq!(flight.under_way, 0);
    }

    #[test]
    fn needless_duplicates_are_uncounted_and_those_for_arrived_segments_are_not() {
        // Six segments from 5000 on; the first was acknowledged, the third and the fifth have arrived.
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
        // Another probe, later.
        assert!(flight.check(at(14), 0, 13, 10).is_ok());
    }
}
