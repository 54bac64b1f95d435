//! Detects clients and background flows for which nothing happens any more.
//!
//! A timer that fires repeatedly without sending anything is not an event. For example, an endpoint whose scheduler
//! refuses every subflow restarts its retransmission timer for ever. Each client is judged by its own packets, so that
//! other clients do not hide its standstill.

use anabranch_trace::Standstill;
use anabranch_units::{Duration, Instant};

use super::cross::Pair;
use super::{STALL, World};

/// The largest amount for which a paced source waits before it writes, bytes. It writes at least 1,448.
const PACED_PIECE: u64 = 4096;

/// The connections of a client that are open at its server.
#[derive(Clone, Copy, Debug, Default)]
struct AtServer {
    /// Whether the server has or had a connection of the client.
    known: bool,
    open: usize,
}

impl World<'_> {
    /// Stops waiting for each client to which nothing happened for [`STALL`] and nothing can happen.
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
            // An endpoint that misreads changed data may wait for ever.
            if !self.is_given_up(client, at_server) && !self.plan.changes_payload() {
                self.note_client(client, since);
            } else if self.stations[client].host.poll_timeout().is_some() {
                // The player or the connection has a timer, which may end the wait.
                continue;
            }
            self.stations[client].over = true;
            self.unfinished -= 1;
        }
    }

    /// Returns how long a client may be silent before it counts as stalled.
    fn patience(&self) -> Duration {
        let piece = |rate| Duration::from_secs_f64((8 * PACED_PIECE) as f64 / rate as f64);
        self.plan.application.rate_bps.map_or(STALL, |rate| STALL.max(piece(rate)))
    }

    /// Returns whether a client's film has advanced since the last call, or the client has not started yet.
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

    /// Returns for each client the connections that are open at the server.
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

    /// Returns whether the server has given up all connections of a client, or one that is still open at the client. It
    /// does so after retransmissions without an answer (`tcp_retries2`, `tcp_orphan_retries`), and a kernel does not
    /// inform the client.
    fn is_given_up(&self, client: usize, at_server: AtServer) -> bool {
        let own = self.stations[client].host.endpoint().connections();
        let open = own.filter(|(_, connection)| !connection.is_closed()).count();
        (at_server.known && at_server.open == 0) || at_server.open < open
    }

    /// Records a client's standstill.
    fn note_client(&mut self, client: usize, since: Instant) {
        let (could_send, states) = self.usable(client);
        let who = if self.plan.clients > 1 { format!("client {client}") } else { "the run".into() };
        let silent_s = self.patience().as_secs_f64();
        let detail =
            format!(": nothing was sent for {silent_s:.0} s; subflows of the server: {states}");
        self.note_standstill(&who, since, &detail, could_send);
    }

    /// Records a standstill, and adds it to the notes of the run's summary.
    fn note_standstill(&mut self, who: &str, since: Instant, detail: &str, could_send: bool) {
        let at_s = self.seconds(since);
        let message = format!("{who} stands still from {at_s:.3} s on{detail}");
        self.notes.push(format!("{}{}.", message[..1].to_uppercase(), &message[1..]));
        self.standstills.push(Standstill { message, at_s, could_send });
    }

    /// Returns whether a subflow of a client's connections could send, and a description of each subflow's state.
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

    /// Records each background flow that has data to transfer and for which nothing was sent for [`STALL`].
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
