//! Two TCP connections without a layer above: handshake, a transfer with losses, and the end.

use anabranch_congestion::{AckSample, CongestionController, CongestionEvent, Window};
use anabranch_tcp::config::{FourTuple, HostModel, Moment, TcpConfig};
use anabranch_tcp::receive_buffer::Load;
use anabranch_tcp::{EmitContext, Space, State, Tcp};
use anabranch_units::{Duration, Instant, SeqNumber, SubflowId};
use anabranch_wire::{Flags, Segment};
use bytes::Bytes;

const ONE_WAY: Duration = Duration::from_millis(10);
/// The payload of a full segment: 1460 bytes less 12 of timestamps (RFC 7323 section 3.2).
const FULL: usize = 1448;
const SPACE: Space = Space { free: 1 << 20, allowed: 1 << 20, open: u64::MAX, opens: false };

/// Slow start, and half of the window after a loss (RFC 5681 sections 3.1 and 3.2).
#[derive(Debug)]
struct Halving;

impl CongestionController for Halving {
    fn name(&self) -> &'static str {
        "halving"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        if ack.may_grow && window.cwnd < window.ssthresh {
            window.cwnd += ack.acked;
        }
    }

    fn on_congestion(&mut self, _event: &CongestionEvent, window: &mut Window) {
        window.ssthresh = (window.cwnd / 2).max(2);
    }
}

/// One host: its connection, and the bytes that the connection has received.
struct End {
    tcp: Tcp,
    config: TcpConfig,
    received: Vec<u8>,
}

impl End {
    fn new(active: bool) -> Self {
        let [here, there] = [1, 2].map(|host| ([10, 0, 0, host], 80).into());
        let (local, remote) = if active { (here, there) } else { (there, here) };
        let config = TcpConfig::default();
        let (tuple, iss) = (FourTuple { local, remote }, SeqNumber(u32::MAX - 70_000));
        let tcp = Tcp::new(SubflowId(0), tuple, active, iss, Box::new(Halving), &config);
        Self { tcp, config, received: Vec::new() }
    }

    fn host(&self) -> HostModel {
        self.config.host
    }

    fn handle(&mut self, now: Instant, segment: &Segment) {
        let host = self.host();
        let syn = segment.flags.contains(Flags::SYN);
        match self.tcp.state() {
            State::SynSent if syn && self.tcp.sequence().is_acked_syn(segment) => {
                self.tcp.on_peer_syn(segment, &self.config);
                return self.tcp.take_syn_ack(&host, now, segment);
            }
            State::SynReceived if syn => return self.tcp.answer_syn(segment, &self.config, None),
            State::SynReceived
                if self.tcp.accept(now, segment) && self.tcp.take_third(&host, now, segment) => {}
            State::Established if self.tcp.accept(now, segment) => {}
            _ => return,
        }
        self.tcp.handle_ack(&host, now, segment, false, &mut []);
        if segment.payload.is_empty() && !segment.flags.contains(Flags::FIN) {
            self.tcp.handle_empty(now, segment);
        } else if let Some(start) = self.tcp.position_of(segment) {
            self.take(now, segment, start);
        }
        let srtt = self.tcp.sending().rtt().srtt();
        self.tcp.receive_mut().arm_delayed_ack(&host, now, srtt);
    }

    /// Takes the payload. The application reads it at once.
    fn take(&mut self, now: Instant, segment: &Segment, start: u64) {
        let before = self.received.len();
        let received = &mut self.received;
        let load = Load::of(segment, None);
        self.tcp.handle_payload(now, (segment, start), load, SPACE, &mut |at, bytes: Bytes, _| {
            // Positions count from the SYN, which is position 0.
            assert_eq!(at, received.len() as u64 + 1, "in order");
            received.extend_from_slice(&bytes);
        });
        let news = self.received.len() > before;
        self.tcp.check_ack_filed(now, SPACE, news);
        if news {
            self.tcp.receive_mut().on_read(SPACE, false, true, None);
        }
    }

    fn poll(&mut self, now: Instant) -> Option<Segment> {
        if !self.tcp.may_transmit() {
            return None;
        }
        let mut segment = Segment::default();
        if self.tcp.state() != State::Established {
            let due = self.tcp.next_handshake_segment(now, &self.config, &mut segment);
            return due.then_some(segment);
        }
        let context = EmitContext { now, space: SPACE, promised: None };
        let host = self.host();
        if let Some(first) = self.tcp.next_first_ack(&context, &mut segment) {
            self.tcp.add_reports(&mut segment);
            self.tcp.receive_mut().on_first_ack_sent(first);
            return Some(segment);
        }
        if self.tcp.next_data_segment(&host, &context, &mut segment).is_none()
            && !self.tcp.next_bare_ack(&context, false, &mut segment)
        {
            return None;
        }
        self.tcp.add_reports(&mut segment);
        Some(segment)
    }

    fn handle_timeout(&mut self, now: Instant) {
        let host = self.host();
        self.tcp.handle_handshake_timeout(now);
        assert!(self.tcp.handle_timeout(Moment { host: &host, now }), "the peer answers");
        let rto = self.tcp.sending().rtt().rto();
        self.tcp.receive_mut().handle_timeout(now, rto);
    }
}

/// Sends `film` from the client to the server, and closes both directions. `drops` receives the direction of each
/// segment (true for the client's), its payload and how many segments went that way before.
fn transfer(film: &[u8], drops: impl Fn(bool, usize, u32) -> bool) -> [End; 2] {
    let mut ends = [End::new(true), End::new(false)];
    ends[0].tcp.opening_mut().demand_syn();
    ends[0].tcp.supply().queue(Bytes::copy_from_slice(film), 0);
    ends[0].tcp.supply().queue_fin();
    let (mut now, mut flying, mut sent) = (Instant::ZERO, Vec::new(), [0, 0]);
    for _ in 0..100_000 {
        for from in [0, 1] {
            while let Some(segment) = ends[from].poll(now) {
                if !drops(from == 0, segment.payload.len(), sent[from]) {
                    flying.push((now + ONE_WAY, 1 - from, segment));
                }
                sent[from] += 1;
            }
        }
        if ends.iter().all(|end| end.tcp.finished()) {
            return ends;
        }
        let arrival = flying.first().map_or(Instant::FAR_FUTURE, |(at, _, _)| *at);
        let timer = ends[0].tcp.wake().min(ends[1].tcp.wake());
        now = arrival.min(timer).max(now);
        assert!(now < Instant::FAR_FUTURE, "nothing happens any more");
        if arrival <= now {
            let (_, to, segment) = flying.remove(0);
            ends[to].handle(now, &segment);
            if to == 1 && ends[1].tcp.receive().assembly().is_closed() {
                ends[1].tcp.supply().queue_fin();
            }
        } else {
            for end in &mut ends {
                end.handle_timeout(now);
            }
        }
    }
    panic!("no end")
}

fn film(segments: usize) -> Vec<u8> {
    (0..segments * FULL).map(|at| (at * 7 / 5) as u8).collect()
}

#[test]
fn each_lost_segment_is_retransmitted_once() {
    // The SYN and the third packet are the first two. Each loss has at least three segments behind it, so SACK shows
    // it without a timeout (RFC 6675 section 3, RFC 8985).
    let film = film(200);
    let lost = [20, 21, 40, 77];
    let [client, server] =
        transfer(&film, |client, payload, number| client && payload > 0 && lost.contains(&number));
    assert!(server.received == film);
    let totals = client.tcp.totals();
    assert_eq!((totals.retransmissions, totals.timeouts), (4, 0));
    assert_eq!(totals.bytes_sent, (200 + 4) * FULL as u64);
    // The FIN takes a position and no payload.
    assert_eq!(totals.bytes_acked, 200 * FULL as u64);
}

#[test]
fn lost_acknowledgements_need_no_retransmission() {
    // An acknowledgement covers everything before it (RFC 9293 section 3.4).
    let film = film(200);
    let [client, server] =
        transfer(&film, |client, _, number| !client && number > 3 && number % 3 == 0);
    assert!(server.received == film);
    assert_eq!(client.tcp.totals().retransmissions, 0);
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second() {
    // RFC 6298 section 2: the first timeout is one second. The timer fires at the next tick of 4 ms.
    let film = film(1);
    let [client, server] = transfer(&film, |client, _, number| client && number == 0);
    assert!(server.received == film);
    assert_eq!(client.tcp.totals().retransmissions, 0, "a SYN is no data");
    assert!(client.tcp.sending().last_ack_at() > Instant::ZERO + Duration::from_secs(1));
}
