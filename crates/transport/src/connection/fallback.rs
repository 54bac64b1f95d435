//! Falling back to plain TCP (RFC 8684 section 3.7).

use super::{Connection, Event, Mode};

impl Connection {
    /// The connection goes on as plain TCP on its initial subflow.
    pub(super) fn fall_back(&mut self) {
        if self.mode == Mode::Plain {
            return;
        }
        self.mode = Mode::Plain;
        if let Some(initial) = self.subflows.first_mut() {
            initial.multipath = false;
            initial.fully_established = true;
            initial.hello.confirm_third();
            initial.update_mss(0);
        }
        self.events.push_back(Event::FellBack);
    }
}
