//! How servers write: until there is no room, and then not before the connection says that there is.

use anabranch_transport::Event;
use anabranch_units::Instant;

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

/// Writes the pattern from `written` up to `limit` as a program does that asks poll(2) before each call: a
/// piece at a time, and only while a third of the send buffer is free. True when all is written.
pub(super) fn write_polled(
    now: Instant,
    connection: &mut dyn Stream,
    blocked: &mut bool,
    written: &mut u64,
    limit: u64,
) -> bool {
    while *written < limit && !*blocked {
        let piece = pattern::piece(*written, limit - *written);
        match connection.poll_writable().then(|| connection.write(now, piece)) {
            Some(Ok(taken)) => *written += taken as u64,
            _ => *blocked = true,
        }
    }
    *written >= limit
}

/// Writes the pattern from `written` up to `limit`, until the send buffer is full; true when all is written.
pub(super) fn write_pattern(
    now: Instant,
    connection: &mut dyn Stream,
    blocked: &mut bool,
    written: &mut u64,
    limit: u64,
) -> bool {
    while *written < limit && !*blocked {
        match connection.write(now, pattern::piece(*written, limit - *written)) {
            Ok(taken) => *written += taken as u64,
            Err(_) => *blocked = true,
        }
    }
    *written >= limit
}
