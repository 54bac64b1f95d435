//! Listening: addresses, the backlog, and the answer to a SYN beyond it (RFC 4987).

use std::net::SocketAddr;

use anabranch_mptcp::{Config, ListenConfig, ListenError};
use anabranch_units::Duration;
use anabranch_wire::{CapableKeys, Flags, MpCapable, MptcpOption, Segment, Timestamps};

use crate::host::{Host, anywhere, at, plain, segment, stamped, syn};

fn listening(backlog: u32, cookies: bool) -> ListenConfig {
    ListenConfig { backlog, cookies, ..plain().into() }
}

#[test]
fn a_syn_beyond_the_backlog_gets_nothing_without_cookies() {
    let mut host = Host::new(listening(3, false));
    for port in 1..=3 {
        assert_eq!(host.answer(&syn(port, 0)).flags, Flags::SYN.with(Flags::ACK));
    }
    assert_eq!(host.hear(&syn(4, 0)), [], "RFC 4987 section 2: dropped in silence");
    assert_eq!((host.endpoint.half_open(), host.endpoint.len()), (3, 0));
    // A retransmitted SYN does not open a new connection.
    assert_eq!(host.answer(&syn(2, 0)).flags, Flags::SYN.with(Flags::ACK));
    assert_eq!(host.endpoint.half_open(), 3);
}

#[test]
fn a_third_packet_makes_room_in_the_backlog() {
    let mut host = Host::new(listening(2, false));
    let answer = host.answer(&syn(1, 0));
    host.answer(&syn(2, 0));
    assert_eq!(host.hear(&syn(3, 0)), []);
    host.hear(&segment(1, Flags::ACK, 1, answer.seq.0.wrapping_add(1)));
    assert_eq!(host.answer(&syn(3, 0)).flags, Flags::SYN.with(Flags::ACK));
    assert_eq!(host.hear(&syn(4, 0)), []);
}

#[test]
fn a_reset_makes_room_in_the_backlog() {
    let mut host = Host::new(listening(1, false));
    host.answer(&syn(1, 0));
    host.hear(&segment(1, Flags::RST, 1, 0));
    assert_eq!(host.answer(&syn(2, 0)).flags, Flags::SYN.with(Flags::ACK));
}

#[test]
fn half_open_connection_expires_silently() {
    // tcp_synack_retries 5: 1 + 2 + 4 + 8 + 16 + 32 s.
    let mut host = Host::new(listening(2, false));
    host.answer(&syn(1, 0));
    host.answer(&syn(2, 0));
    assert_eq!(host.run_to(at(62_999)).len(), 10, "five repetitions each");
    assert_eq!(host.news(), []);
    assert_eq!(host.endpoint.half_open(), 2);
    assert_eq!(host.run_to(at(63_000)), []);
    assert_eq!(host.news(), [], "it never was a connection to the application");
    assert_eq!((host.endpoint.half_open(), host.endpoint.half_open_expired()), (0, 2));
    assert_eq!((host.endpoint.len(), host.endpoint.poll_timeout()), (0, None));
    assert_eq!(host.answer(&syn(3, 0)).flags, Flags::SYN.with(Flags::ACK));
}

#[test]
fn half_open_timeout_follows_the_listener_config() {
    let mut host = Host::new(ListenConfig { half_open: Duration::from_secs(10), ..plain().into() });
    let answer = host.answer(&syn(1, 0));
    // 1 + 2 + 4 s. The next repetition would be sent after 15 s.
    assert_eq!(host.run_to(at(9_999)).len(), 3);
    assert_eq!(host.endpoint.half_open(), 1);
    assert_eq!(host.run_to(at(10_000)), []);
    assert_eq!((host.endpoint.half_open(), host.endpoint.half_open_expired()), (0, 1));
    // RFC 9293 section 3.10.7.1: the segment now belongs to no connection.
    let third = segment(1, Flags::ACK, 1, answer.seq.0.wrapping_add(1));
    assert_eq!(host.answer(&third).flags, Flags::RST);
}

#[test]
fn a_syn_ack_is_repeated_as_it_was() {
    for multipath in [false, true] {
        let mut host = Host::new(Config { multipath, ..plain() });
        let mut asks = stamped(syn(1, 7), 5, 0);
        (asks.window_scale, asks.sack_permitted) = (Some(3), true);
        asks.mptcp.push(MptcpOption::Capable(MpCapable::with_keys(CapableKeys::None)));
        let first = host.answer(&asks);
        assert_eq!(first.mptcp.len(), usize::from(multipath));
        let again = host.answer(&asks);
        let later = host.run_to(at(2_000));
        // The second repetition follows two seconds later (RFC 6298 section 5.5). The timestamp counts
        // milliseconds (RFC 7323 section 5.4). Nothing else differs.
        let stamp = first.timestamps.map(|it| Timestamps { value: it.value + 2000, ..it });
        assert_eq!(again, first);
        assert_eq!(later, [Segment { timestamps: stamp, ..first }]);
    }
}

#[test]
fn invalid_third_packet_keeps_the_connection_half_open() {
    let mut host = Host::new(plain());
    let next = host.answer(&syn(1, 0)).seq.0.wrapping_add(1);
    // RFC 9293 section 3.10.7.4: a segment outside the window, one without ACK, and a RST with another number
    // are ignored. An acknowledgement of another number is answered with a RST with that number.
    let other = next.wrapping_add(1);
    for (wrong, answer) in [
        (segment(1, Flags::ACK, 1, other), Some(other)),
        (segment(1, Flags::ACK, 1 << 20, next), None),
        (segment(1, Flags::default(), 1, next), None),
        (segment(1, Flags::RST, 2, 0), None),
    ] {
        let heard = host.hear(&wrong);
        assert_eq!(heard.first().map(|it| (it.flags, it.seq.0)), answer.map(|at| (Flags::RST, at)));
        assert_eq!((host.endpoint.half_open(), host.endpoint.len()), (1, 0));
    }
    host.hear(&segment(1, Flags::ACK, 1, next));
    assert_eq!((host.endpoint.half_open(), host.endpoint.len()), (0, 1));
}

#[test]
fn closing_the_listener_drops_half_open_connections() {
    let mut host = Host::new(plain());
    let answer = host.answer(&syn(1, 0));
    host.endpoint.stop_listening(anywhere(80));
    assert_eq!((host.endpoint.half_open(), host.endpoint.poll_timeout()), (0, None));
    let third = segment(1, Flags::ACK, 1, answer.seq.0.wrapping_add(1));
    assert_eq!(host.answer(&third).flags, Flags::RST);
}

#[test]
fn beyond_the_most_connections_nothing_is_answered() {
    let listen = ListenConfig { connections: 2, ..plain().into() };
    let mut host = Host::new(listen);
    let first = host.open(1, 0, None);
    host.open(2, 0, None);
    assert_eq!(host.hear(&syn(3, 0)), []);
    host.endpoint.remove(first.handle);
    host.open(3, 0, None);
}

#[test]
fn a_listener_has_its_address_and_port() {
    let mut host = Host::new(plain());
    let own = SocketAddr::from(([10, 0, 0, 1], 80));
    assert_eq!(
        host.endpoint.listen(anywhere(80), plain()),
        Err(ListenError::AddressInUse(anywhere(80)))
    );
    // A listener with the exact address has priority over one with the unspecified address.
    let none = ListenConfig { connections: 0, ..plain().into() };
    assert_eq!(host.endpoint.listen(own, none), Ok(()));
    assert_eq!(host.hear(&syn(1, 0)), []);
    assert!(host.endpoint.stop_listening(own).is_some());
    let peer = host.open(1, 0, None);
    // RFC 9293 section 3.10.7.1: a SYN to a port without a listener gets a RST.
    let elsewhere = Segment { destination_port: 81, ..syn(2, 9) };
    let tuple = anabranch_mptcp::FourTuple {
        local: SocketAddr::from(([10, 0, 0, 1], 81)),
        remote: SocketAddr::from(([10, 0, 0, 2], 2)),
    };
    host.endpoint.handle_segment(host.now, tuple, &elsewhere);
    let said = host.said();
    assert_eq!((said.len(), said[0].flags, said[0].ack.0), (1, Flags::RST.with(Flags::ACK), 10));
    // Accepted connections stay.
    assert!(host.endpoint.stop_listening(anywhere(80)).is_some());
    assert!(host.endpoint.get(peer.handle).is_some());
    assert_eq!(host.answer(&syn(3, 9)).flags, Flags::RST.with(Flags::ACK));
    host.endpoint.remove(peer.handle);
    assert!(host.endpoint.is_empty());
}
