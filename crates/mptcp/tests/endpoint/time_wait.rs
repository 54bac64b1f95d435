//! TIME-WAIT: RFC 9293 section 3.6, RFC 6191, RFC 7323 section 5, and the behaviour of Linux
//! (`tcp_timewait_state_process`).

use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Config, ConnectError, Event, FourTuple};
use anabranch_units::SeqNumber;
use anabranch_wire::Flags;

use crate::host::{Host, Peer, at, plain, segment, stamped, syn, tuple};

/// A host with one connection in TIME-WAIT since 0 s, freed by its application. The peer's sequence numbers
/// began at `seq`, and its last timestamp was 500.
fn waiting(seq: u32, stamp: bool) -> (Host, Peer) {
    let mut host = Host::new(plain());
    let mut peer = host.open(1000, seq, stamp.then_some(400));
    host.close(&mut peer, stamp.then_some(500));
    host.news();
    assert!(host.endpoint.is_empty(), "the connection is forgotten");
    (host, peer)
}

fn opens(flags: Flags) -> bool {
    flags == Flags::SYN.with(Flags::ACK)
}

#[test]
fn a_syn_with_a_newer_timestamp_opens_whatever_its_sequence_number() {
    // `(s32)(tw_ts_recent - rcv_tsval) < 0` suffices; RFC 6191 section 2, first case.
    for seq in [0u32, 5000, 100_000] {
        let (mut host, peer) = waiting(5000, true);
        let answer = host.answer(&stamped(syn(1000, seq), 501, 0));
        assert!(opens(answer.flags), "{answer:?}");
        assert_eq!(answer.ack, SeqNumber(seq + 1));
        // `isn = tw_snd_nxt + 65535 + 2`.
        assert_eq!(answer.seq, SeqNumber(peer.ack.wrapping_add(65_537)));
        assert_eq!(host.endpoint.half_open(), 1);
    }
}

#[test]
fn syn_with_an_older_timestamp_is_acknowledged_in_time_wait() {
    // `paws_reject`: a higher sequence number does not help. The answer is an acknowledgement.
    let (mut host, peer) = waiting(5000, true);
    let answer = host.answer(&stamped(syn(1000, 100_000), 499, 0));
    assert_eq!(answer.flags, Flags::ACK);
    assert_eq!((answer.seq, answer.ack), (SeqNumber(peer.ack), SeqNumber(peer.seq)));
    assert_eq!(answer.timestamps.expect("they are in use").echo, 500);
    assert!(host.endpoint.is_empty());
}

#[test]
fn sequence_number_decides_on_a_syn_with_an_equal_timestamp() {
    // RFC 6191 section 2, second case: `after(seq, tw_rcv_nxt)`. SYN and FIN used 5000 and 5001.
    for (seq, accepted) in [(5003, true), (5002, false), (5001, false)] {
        let (mut host, _) = waiting(5000, true);
        assert_eq!(opens(host.answer(&stamped(syn(1000, seq), 500, 0)).flags), accepted, "{seq}");
    }
}

#[test]
fn without_timestamps_the_sequence_number_decides() {
    for (seq, accepted) in [(5003, true), (5002, false), (4000, false), (5002 + (1 << 30), true)] {
        let (mut host, _) = waiting(5000, false);
        assert_eq!(opens(host.answer(&syn(1000, seq)).flags), accepted, "{seq}");
    }
    // The number is higher across the wrap.
    let (mut host, _) = waiting(u32::MAX - 3, false);
    assert!(opens(host.answer(&syn(1000, 10)).flags));
}

#[test]
fn retransmitted_fin_is_acknowledged_and_restarts_time_wait() {
    // `inet_twsk_reschedule(tw, TCP_TIMEWAIT_LEN)`: TIME-WAIT lasts 60 s from this FIN.
    let (mut host, peer) = waiting(5000, false);
    let fin = segment(1000, Flags::FIN.with(Flags::ACK), peer.seq - 1, peer.ack);
    host.run_to(at(50_000));
    assert_eq!(host.answer(&fin).flags, Flags::ACK);
    host.run_to(at(109_999));
    assert_eq!(host.endpoint.poll_timeout(), Some(at(110_000)));
    host.run_to(at(110_000));
    assert_eq!(host.endpoint.poll_timeout(), None);
    assert_eq!(host.answer(&fin).flags, Flags::RST, "nobody is there");
}

#[test]
fn the_wait_ends_after_sixty_seconds() {
    // TCP_TIMEWAIT_LEN.
    let old = syn(1000, 1);
    let (mut host, _) = waiting(5000, false);
    host.run_to(at(59_999));
    assert_eq!(host.answer(&old).flags, Flags::ACK);
    let (mut host, _) = waiting(5000, false);
    host.run_to(at(60_000));
    assert!(opens(host.answer(&old).flags));
}

#[test]
fn a_reset_in_its_place_ends_the_wait_and_another_does_not() {
    // RFC 1337 advises against this. Linux does it by default (`tcp_rfc1337` is 0).
    let (mut host, peer) = waiting(5000, false);
    assert_eq!(host.hear(&segment(1000, Flags::RST, peer.seq + 1, 0)), []);
    assert_eq!(host.answer(&syn(1000, 1)).flags, Flags::ACK, "it waits on");
    assert_eq!(host.hear(&segment(1000, Flags::RST, peer.seq, 0)), []);
    assert!(opens(host.answer(&syn(1000, 1)).flags));
}

#[test]
fn empty_acknowledgements_are_not_answered_without_end() {
    // tcp_oow_rate_limited: 500 ms. An ACK with the expected sequence number gets no answer.
    let (mut host, peer) = waiting(5000, false);
    assert_eq!(host.hear(&segment(1000, Flags::ACK, peer.seq, peer.ack)), []);
    let early = segment(1000, Flags::ACK, peer.seq - 1, peer.ack);
    assert_eq!(host.hear(&early).len(), 1);
    host.run_to(at(499));
    assert_eq!(host.hear(&early).len(), 0);
    host.run_to(at(500));
    assert_eq!(host.hear(&early).len(), 1);
}

#[test]
fn passive_closer_skips_time_wait() {
    // RFC 9293 section 3.6: LAST-ACK ends in CLOSED.
    let mut host = Host::new(plain());
    let peer = host.open(1000, 5000, None);
    host.answer(&segment(1000, Flags::FIN.with(Flags::ACK), peer.seq, peer.ack));
    let now = host.now;
    host.connection(peer.handle).shutdown(now);
    assert!(host.said()[0].flags.contains(Flags::FIN));
    assert_eq!(host.hear(&segment(1000, Flags::ACK, peer.seq + 1, peer.ack + 1)), []);
    assert!(host.news().iter().any(|(_, event)| *event == Event::Drained));
    assert_eq!((host.endpoint.len(), host.endpoint.poll_timeout()), (0, None));
    let late = segment(1000, Flags::ACK, peer.seq + 1, peer.ack + 1);
    assert_eq!(host.answer(&late).flags, Flags::RST);
    assert!(opens(host.answer(&syn(1000, 1)).flags), "the lowest number opens");
}

#[test]
fn both_that_close_at_once_wait() {
    // RFC 9293 section 3.6, figure 13: CLOSING, then TIME-WAIT.
    let mut host = Host::new(plain());
    let mut peer = host.open(1000, 5000, None);
    let now = host.now;
    host.connection(peer.handle).shutdown(now);
    assert!(host.said()[0].flags.contains(Flags::FIN));
    host.answer(&segment(1000, Flags::FIN.with(Flags::ACK), peer.seq, peer.ack));
    peer.seq += 1;
    assert_eq!(host.hear(&segment(1000, Flags::ACK, peer.seq, peer.ack + 1)), []);
    host.news();
    assert!(host.endpoint.is_empty());
    assert_eq!(host.endpoint.poll_timeout(), Some(at(60_000)));
}

#[test]
fn we_do_not_open_between_addresses_that_wait() {
    let (mut host, _) = waiting(5000, false);
    let FourTuple { local, remote } = tuple(1000);
    let candidate = Candidate { address_id: 0, local, remote, backup: false, rate: None };
    let config = Config { candidates: vec![candidate], ..plain() };
    let opened = host.endpoint.connect(host.now, config.clone());
    assert_eq!(opened, Err(ConnectError::AddressInUse));
    host.run_to(at(60_000));
    assert!(host.endpoint.connect(host.now, config.clone()).is_ok());
    assert_eq!(host.endpoint.connect(host.now, config), Err(ConnectError::AddressInUse));
}
