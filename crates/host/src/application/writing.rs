//! How servers write: until there is no room, and then not before the connection says that there is.

use anabranch_transport::Event;
use anabranch_units::Instant;

use super::Next;
use crate::pattern;
use crate::stream::Stream;

/// Takes a connection's news; true when there is room to write again.
#[inline]
pub(super) fn take_news(connection: &mut dyn Stream) -> bool {
    let mut room = false;
    while let Some(event) = connection.poll_event() {
        room |= event == Event::Writable;
    }
    room
}

/// Writes the next piece of the pattern from `written` up to `limit`, unless all is written or the writer is blocked,
/// which it is then where there is no room. A `polled` writer asks poll(2) before, and so writes only while a third of
/// the send buffer is free. Tells when it is to go on: what a call writes leaves as far as it may before the next call
/// (`__mptcp_push_pending`, `tcp_push` in sendmsg(2)).
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
