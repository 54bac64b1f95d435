//! Functions with which servers fill the send buffer.

use anabranch_mptcp::Event;
use anabranch_units::Instant;

use super::Next;
use crate::pattern;
use crate::stream::Stream;

/// Handles a connection's events. Returns true if it has become writable.
#[inline]
pub(super) fn take_news(connection: &mut dyn Stream) -> bool {
    let mut room = false;
    while let Some(event) = connection.poll_event() {
        room |= event == Event::Writable;
    }
    room
}

/// Writes the next part of the pattern from `written` up to `limit`, unless everything is written or the
/// writer is blocked. Sets `blocked` if the send buffer is full.
///
/// A `polled` writer calls poll(2) first. It therefore writes only while a third of the send buffer is free.
/// Returns the event after which to continue. The host sends the data of one write as far as possible before
/// the next write (`__mptcp_push_pending`, `tcp_push` in sendmsg(2)).
pub(super) fn write_piece(
    now: Instant,
    connection: &mut dyn Stream,
    polled: bool,
    blocked: &mut bool,
    written: &mut u64,
    limit: u64,
) -> Next {
    if *blocked || *written >= limit {
        return Next::AtNews;
    }
    let piece = pattern::piece(*written, limit - *written);
    let ready = !polled || connection.poll_writable();
    match ready.then(|| connection.write(now, piece)) {
        Some(Ok(taken)) => *written += taken as u64,
        _ => *blocked = true,
    }
    if *blocked || *written >= limit { Next::AtNews } else { Next::BehindOutput }
}
