//! Listening: addresses, the backlog, and what a SYN beyond it gets (RFC 4987).

use std::net::SocketAddr;

use anabranch_transport::{ListenConfig, ListenError};
use anabranch_wire::Flags;

use crate::host::{Host, anywhere, at, plain, segment, syn};

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
    assert_eq!(host.endpoint.len(), 3);
    // One that comes again is no new one.
    assert_eq!(host.answer(&syn(2, 0)).flags, Flags::SYN.with(Flags::ACK));
    assert_eq!(host.endpoint.len(), 3);
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
fn who_never_sends_a_third_packet_is_forgotten_in_silence() {
    // tcp_synack_retries 5: 1 + 2 + 4 + 8 + 16 + 32 s.
    let mut host = Host::new(listening(2, false));
    host.answer(&syn(1, 0));
    host.answer(&syn(2, 0));
    assert_eq!(host.run_to(at(62_999)).len(), 10, "five repetitions each");
    assert_eq!(host.news(), []);
    assert_eq!(host.endpoint.len(), 2);
    assert_eq!(host.run_to(at(63_000)), []);
    assert_eq!(host.news(), [], "it never was a connection to the application");
    assert_eq!((host.endpoint.len(), host.endpoint.poll_timeout()), (0, None));
    assert_eq!(host.answer(&syn(3, 0)).flags, Flags::SYN.with(Flags::ACK));
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
    // Its own name goes before every name.
    let none = ListenConfig { connections: 0, ..plain().into() };
    assert_eq!(host.endpoint.listen(own, none), Ok(()));
    assert_eq!(host.hear(&syn(1, 0)), []);
    assert!(host.endpoint.stop_listening(own).is_some());
    let peer = host.open(1, 0, None);
    // RFC 9293 section 3.10.7.1: where nobody listens, a RST.
    let elsewhere = anabranch_wire::Segment { destination_port: 81, ..syn(2, 9) };
    let tuple = anabranch_transport::FourTuple {
        local: SocketAddr::from(([10, 0, 0, 1], 81)),
        remote: SocketAddr::from(([10, 0, 0, 2], 2)),
    };
    host.endpoint.handle_segment(host.now, tuple, &elsewhere);
    let said = host.said();
    assert_eq!((said.len(), said[0].flags, said[0].ack.0), (1, Flags::RST.with(Flags::ACK), 10));
    // Those that were accepted stay.
    assert!(host.endpoint.stop_listening(anywhere(80)).is_some());
    assert!(host.endpoint.get(peer.handle).is_some());
    assert_eq!(host.answer(&syn(3, 9)).flags, Flags::RST.with(Flags::ACK));
    host.endpoint.remove(peer.handle);
    assert!(host.endpoint.is_empty());
}
