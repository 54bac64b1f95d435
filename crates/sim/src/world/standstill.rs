//! Detects clients and background flows for which no event will occur any longer.
//!
//! A timer that fires repeatedly and sends nothing is not an event. For example, an endpoint whose scheduler
//! refuses every subflow restarts its retransmission timer forever. For each client, only its own packets are
//! considered, so that other clients do not hide its standstill.

use anabranch_trace::Standstill;
use anabranch_units::{Duration, Instant};

use super::cross::Pair;
use super::{STALL, World};

/// The largest amount of data for which a paced source waits before it writes, bytes. It writes at least
/// 1,448 bytes.
const PACED_PIECE: u64 = 4096;

/// The state of a client's connections at the server.
#[derive(Clone, Copy, Debug, Default)]
struct AtServer {
    /// Whether the server has or had a connection of the client.
    known: bool,
    open: usize,
}

impl World<'_> {
    /// Stops waiting for each client that has had no event for [`STALL`] and cannot have another one.
    pub(super) fn check_standstill(&mut self) {
        if self.next_change().is_some() {
            return;
        }
        let patience = self.patience();
        let mut at_server = None;
        for client in 0..self.plan.clients as usize {
            let since = self.stations[client].last_event.max(self.last_change);
            let is_waited_for = !self.stations[client].over;
            if !is_waited_for || self.now.since(since) <= patience || self.is_played(client) {
                continue;
            }
            let at_server = at_server.get_or_insert_with(|| self.at_server())[client];
            // If the plan modifies payloads, an endpoint can misread the changed data and wait forever.
            if !self.is_given_up(client, at_server) && !self.plan.changes_payload() {
                self.note_client(client, since);
            } else if self.schedule.is_set(self.stations[client].node) {
                // The player or the connection has a timer, which may end the wait.
                continue;
            }
            self.stations[client].over = true;
            self.unfinished -= 1;
        }
    }

    /// Returns the time without an event after which a client counts as stalled.
    fn patience(&self) -> Duration {
        let piece = |rate| Duration::from_secs_f64((8 * PACED_PIECE) as f64 / rate as f64);
        self.plan.application.rate_bps.map_or(STALL, |rate| STALL.max(piece(rate)))
    }

    /// Returns whether the client's film has advanced since the last call, or the client has not started.
    fn is_played(&mut self, client: usize) -> bool {
        let now = self.now;
        let station = &mut self.stations[client];
        if station.host.session().is_some_and(|session| session.start > now) {
            return true;
        }
        let position = station.host.viewing(now).map_or(0.0, |viewing| viewing.position_s);
        let before = station.film_position.replace(position);
        before.is_none_or(|before| position > before)
    }

    /// Returns the state of each client's connections at the server.
    fn at_server(&self) -> Vec<AtServer> {
        let mut found = vec![AtServer::default(); self.plan.clients as usize];
        let server = self.stations[self.station(0, true)].host.endpoint();
        for ((_, connection), client) in server.connections().zip(&self.served) {
            let of = &mut found[*client as usize];
            of.known = true;
            of.open += usize::from(!connection.is_closed());
        }
        found
    }

    /// Returns whether the server has given up all connections of a client, or a connection that the client
    /// still regards as open. A server gives up after retransmissions without an acknowledgement
    /// (`tcp_retries2`, `tcp_orphan_retries`). As with a kernel, the client is not notified.
    fn is_given_up(&self, client: usize, at_server: AtServer) -> bool {
        let own = self.stations[client].host.endpoint().connections();
        let open = own.filter(|(_, connection)| !connection.is_closed()).count();
        (at_server.known && at_server.open == 0) || at_server.open < open
    }

    /// Records the standstill of a client.
    fn note_client(&mut self, client: usize, since: Instant) {
        let (could_send, states) = self.usable(client);
        let who = if self.plan.clients > 1 { format!("client {client}") } else { "the run".into() };
        let silent_s = self.patience().as_secs_f64();
        let detail =
            format!(": nothing was sent for {silent_s:.0} s; subflows of the server: {states}");
        self.note_standstill(&who, since, &detail, could_send);
    }

    /// Records a standstill in the results and in the notes.
    fn note_standstill(&mut self, who: &str, since: Instant, detail: &str, could_send: bool) {
        let at_s = self.seconds(since);
        let message = format!("{who} stands still from {at_s:.3} s on{detail}");
        self.notes.push(format!("{}{}.", message[..1].to_uppercase(), &message[1..]));
        self.standstills.push(Standstill { message, at_s, could_send });
    }

    /// Returns whether any subflow of a client could send, and a description of each subflow's state.
    fn usable(&self, client: usize) -> (bool, String) {
        let server = self.stations[self.station(0, true)].host.endpoint();
        let samples = server
            .connections()
            .zip(&self.served)
            .filter(|((_, connection), of)| **of as usize == client && !connection.is_closed())
            .flat_map(|((_, connection), _)| connection.view().samples());
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

    /// Records each background flow that has data to transfer and had no event for [`STALL`].
    pub(super) fn check_flows(&mut self) {
        if self.plan.changes_payload() {
            return;
        }
        for number in 0..self.flows.next_number() {
            let Some(station) = self.flows.ends(number).and_then(Pair::moving) else { continue };
            let life = self.flows.life(number);
            let since = self.stations[station].last_event.max(life.start);
            let session = self.stations[station].host.session();
            let is_quiet = self.now.since(since) > STALL;
            if !is_quiet || life.end(session, self.now).0 != "running" {
                continue;
            }
            self.note_standstill(&format!("background flow {number}"), since, "", false);
            if let Some(pair) = self.flows.ends_mut(number) {
                pair.note_standstill();
            }
        }
    }
}
