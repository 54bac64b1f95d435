//! The faults of a run, and the limits of memory and work that follow from the configuration.

use anabranch_units::Instant;

/// The reason why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The name of the broken rule. A reduced case must break the same rule.
    pub rule: &'static str,
    /// The observed values.
    pub detail: String,
    /// The time of the fault.
    pub at: Instant,
}

/// The most segments sent per segment of data. They include retransmissions, acknowledgements, and
/// reinjections on three other paths.
const SEGMENTS_PER_SEGMENT: u64 = 40;
/// The most segments that do not depend on the data: handshakes, closing, responses to forged segments.
const SEGMENTS_BESIDE: u64 = 4_000;
/// The most segments per second without progress: challenge ACKs and probes.
const SEGMENTS_PER_SECOND: u64 = 100;
/// The most bytes retransmitted per second without progress, in both directions. Each connection-level
/// timeout of at least 200 ms resends a fragment of 32 KiB. Linux does not back off this timeout either.
const BYTES_PER_SECOND: u64 = 2 * 5 * 32_768;
/// The maximum number of timer firings per segment.
const FIRINGS_PER_SEGMENT: u64 = 10;
/// The maximum number of timer firings per second in which nothing is sent.
const FIRINGS_PER_SECOND: u64 = 1_000;
/// The maximum number of timer firings at one time without an effect.
pub(crate) const FIRINGS_AT_ONCE: u32 = 16;
/// The maximum number of segments in response to one event.
pub(crate) const SEGMENTS_AT_ONCE: u32 = 20_000;

/// The most memory of an idle endpoint, in bytes.
const ENDPOINT_MEMORY: u64 = 64 << 10;
/// The most memory per connection without buffers, in bytes.
const CONNECTION_MEMORY: u64 = 32 << 10;
/// The most memory per subflow without buffers, in bytes.
const SUBFLOW_MEMORY: u64 = 32 << 10;
/// The most memory per byte of a buffer, including packet headers and packet tables. The smallest segment has
/// a payload of 100 bytes, and takes about three times as much memory.
const MEMORY_PER_BYTE: u64 = 4;

/// The work of a run so far, and the values from which its limits follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) segments: u64,
    pub(crate) firings: u64,
    /// The bytes that the applications transfer in both directions.
    pub(crate) bytes: u64,
    /// The smallest segment size that can be negotiated.
    pub(crate) mss: u64,
}

impl Work {
    /// Returns a fault if a count exceeds its limit.
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

/// Returns the memory limit of an endpoint in bytes. `receive` and `send` are the limits of its buffers.
pub(crate) fn memory_cap(connections: u64, subflows: u64, receive: u64, send: u64) -> u64 {
    let buffers = connections * receive + subflows * send;
    ENDPOINT_MEMORY
        + connections * CONNECTION_MEMORY
        + subflows * SUBFLOW_MEMORY
        + MEMORY_PER_BYTE * buffers
}
