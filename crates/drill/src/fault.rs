//! What is wrong with a run, and the bounds on memory and work that follow from its configuration.

use anabranch_units::Instant;

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rule that was broken, in a word or two: what shrinking keeps.
    pub rule: &'static str,
    /// What was seen.
    pub detail: String,
    /// When.
    pub at: Instant,
}

/// The most segments that a connection may send for each one it needs: retransmissions, acknowledgements,
/// reinjections on three other paths.
const SEGMENTS_PER_SEGMENT: u64 = 40;
/// The most segments besides those for data: handshakes, closing, answers to what was forged.
const SEGMENTS_BESIDE: u64 = 4_000;
/// The most segments in a second of a connection that makes no progress: challenge acknowledgements, probes.
const SEGMENTS_PER_SECOND: u64 = 100;
/// The most bytes sent again in a second in which no data is acknowledged: a fragment of 32 KiB at every
/// connection-level timeout of at least 200 ms, which Linux does not back off either; both ways.
const BYTES_PER_SECOND: u64 = 2 * 5 * 32_768;
/// The most timer firings for each segment.
const FIRINGS_PER_SEGMENT: u64 = 10;
/// The most timer firings in a second in which nothing is sent.
const FIRINGS_PER_SECOND: u64 = 1_000;
/// The most timer firings at one instant that change nothing.
pub(crate) const FIRINGS_AT_ONCE: u32 = 16;
/// The most segments in answer to one event.
pub(crate) const SEGMENTS_AT_ONCE: u32 = 20_000;

/// The most memory of an endpoint with nothing to do, and of a connection with one subflow, bytes.
const ENDPOINT_MEMORY: u64 = 64 << 10;
/// The most memory of each connection besides buffers, bytes.
const CONNECTION_MEMORY: u64 = 32 << 10;
/// The most memory of each subflow besides buffers, bytes.
const SUBFLOW_MEMORY: u64 = 32 << 10;
/// The most memory for each byte of a buffer: packet headers and the tables of packets count too. A
/// hundred bytes of payload, the smallest segment drawn, take about three times as much.
const MEMORY_PER_BYTE: u64 = 4;

/// How much work the run may have caused so far: the bytes it moves, in segments of `mss`, and its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) segments: u64,
    pub(crate) firings: u64,
    /// Bytes that the applications want to move, both ways.
    pub(crate) bytes: u64,
    /// The least segment that may be negotiated.
    pub(crate) mss: u64,
}

impl Work {
    /// Returns the fault of a count above its bound.
    pub(crate) fn fault(&self, now: Instant) -> Option<Fault> {
        let seconds = now.as_micros() / 1_000_000 + 1;
        let needed = self.bytes / self.mss.max(1) + 1;
        let idle = SEGMENTS_PER_SECOND + BYTES_PER_SECOND / self.mss.max(1);
        let most = SEGMENTS_BESIDE + SEGMENTS_PER_SEGMENT * needed + idle * seconds;
        let most_firings = FIRINGS_PER_SEGMENT * self.segments + FIRINGS_PER_SECOND * seconds;
        let (rule, seen, most) = if self.segments > most {
            ("segments", self.segments, most)
        } else if self.firings > most_firings {
            ("firings", self.firings, most_firings)
        } else {
            return None;
        };
        Some(Fault { rule, detail: format!("{seen} in {seconds} s, at most {most}"), at: now })
    }
}

/// The most memory that an endpoint with these connections, subflows and buffers may hold, bytes.
pub(crate) fn memory_cap(connections: u64, subflows: u64, receive: u64, send: u64) -> u64 {
    let buffers = connections * receive + subflows * send;
    ENDPOINT_MEMORY
        + connections * CONNECTION_MEMORY
        + subflows * SUBFLOW_MEMORY
        + MEMORY_PER_BYTE * buffers
}
