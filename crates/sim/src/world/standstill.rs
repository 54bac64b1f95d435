//! Detects a client that waits, and a world without further events.
//!
//! A timer that fires repeatedly without sending anything is not an event. For example, an endpoint whose scheduler
//! refuses every subflow restarts its retransmission timer for ever.

use anabranch_units::Duration;

use super::{RunError, STALL, World};
use crate::checks::Violation;

/// The largest amount for which a paced source waits before it writes, bytes. It writes at least 1,448.
const PACED_PIECE: u64 = 4096;

impl World<'_> {
    /// Ends the run if nothing has been sent or played for [`STALL`] and no change of the world is scheduled.
    pub(super) fn check_standstill(&mut self) -> Result<(), RunError> {
        let is_quiet = self.now.since(self.last_event) > self.patience();
        if !is_quiet || self.next_change().is_some() || self.is_played() {
            return Ok(());
        }
        // An endpoint that misreads changed data may wait for ever.
        if self.is_given_up() || self.plan.changes_payload() {
            // A client that only reads has no timer, so nothing would end its wait.
            if !self.waits_for_a_time() {
                self.unfinished = 0;
            }
            return Ok(());
        }
        let since = self.last_event.since(self.begin);
        let (open, states) = self.usable();
        Err(Violation::Stalled { at_ns: since.as_nanos(), open, states }.into())
    }

    /// Returns how long the world may be silent before it counts as stalled.
    fn patience(&self) -> Duration {
        let piece = |rate| Duration::from_secs_f64((8 * PACED_PIECE) as f64 / rate as f64);
        self.plan.application.rate_bps.map_or(STALL, |rate| STALL.max(piece(rate)))
    }

    /// Returns whether a film has advanced since the last call, or a client has not started yet.
    fn is_played(&mut self) -> bool {
        let clients = &self.stations[..self.plan.clients as usize];
        let begins = |session: &anabranch_host::Session| session.start > self.now;
        if clients.iter().any(|client| client.host.session().is_some_and(begins)) {
            return true;
        }
        let viewings = clients.iter().filter_map(|client| client.host.viewing(self.now));
        let position: f64 = viewings.map(|viewing| viewing.position_s).sum();
        let before = self.film_position.replace(position);
        before.is_none_or(|before| position > before)
    }

    /// Returns whether a client's player or connection has a timer. If so, the run continues until it fires.
    fn waits_for_a_time(&mut self) -> bool {
        let clients = self.plan.clients as usize;
        self.stations[..clients].iter_mut().any(|station| station.host.poll_timeout().is_some())
    }

    /// Returns whether a subflow of the clients' connections could send, and a description of each subflow's state.
    fn usable(&self) -> (bool, String) {
        let server = self.stations[self.station(0, true)].host.endpoint();
        let samples = server
            .connections()
            .filter(|(_, connection)| !connection.is_closed())
            .flat_map(|(_, connection)| connection.samples());
        let (mut open, mut states) = (false, Vec::new());
        for one in samples {
            let (in_flight, cwnd) = (one.in_flight_segments, one.cwnd_segments);
            open |= in_flight < cwnd && one.unsent_bytes == 0;
            states.push(format!(
                "{} {} with {in_flight} of {cwnd} segments in flight",
                one.ordinal,
                one.state.name()
            ));
        }
        (open, if states.is_empty() { "none".to_owned() } else { states.join(", ") })
    }
}
