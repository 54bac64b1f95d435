//! Tests of the connection-level retransmission timer.

use anabranch_units::Seed;

use super::*;
use crate::connection::Connection;
use crate::path_manager::Candidate;
use crate::profile::{LINUX_6_18, MPTCP_0_94, Stack};
use crate::{Config, Endpoint, FourTuple, HostModel};

/// Returns the next segment of a connection.
fn poll(connection: &mut Connection, now: Instant) -> Option<anabranch_wire::Segment> {
    let mut segment = anabranch_wire::Segment::default();
    connection.next_segment(now, 1, &mut segment).is_some().then_some(segment)
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Creates a server connection over one subflow with a megabyte to send. Some of it is already queued on the
/// subflow.
fn busy(stack: Stack, act: impl FnOnce(&mut Connection)) {
    let (here, there) = (([10, 0, 0, 1], 1024).into(), ([10, 0, 0, 2], 80).into());
    let first = Candidate { address_id: 0, local: here, remote: there, backup: false, rate: None };
    let host = HostModel { timer_tick: Duration::ZERO, ..HostModel::default() };
    let config = Config { host, stack, ..Config::default() };
    let mut client = Endpoint::new("client", Seed { seed: 1, run: 0 });
    let mut server = Endpoint::new("server", Seed { seed: 1, run: 0 });
    server.listen(there, config.clone()).expect("nobody listens");
    client.connect(at(0), Config { candidates: vec![first], ..config }).expect("free addresses");
    let carry = |from: &mut Endpoint, to: &mut Endpoint, ms: u64| {
        while let Some(told) = from.poll_transmit(at(ms)) {
            let tuple = FourTuple { local: told.remote, remote: told.local };
            to.handle_segment(at(ms), tuple, &told.segment);
        }
    };
    carry(&mut client, &mut server, 0);
    carry(&mut server, &mut client, 50);
    carry(&mut client, &mut server, 100);
    let handle = server.connections().next().expect("one").0;
    let connection = server.connection_mut(handle);
    for _ in 0..20 {
        let _ = connection.write(at(100), vec![7; 50_000].into());
    }
    while poll(connection, at(100)).is_some() {}
    assert!(
        connection.outgoing.stream.cursor < connection.outgoing.stream.end
            && connection.session.is_multipath()
    );
    act(connection);
}

#[test]
fn retransmit_timer_uses_the_interval_of_the_latest_scheduling() {
    // ack_update_msk calls __mptcp_check_push, where mptcp_subflow_get_send sets `timer_ival`, and then
    // __mptcp_data_acked.
    let deadline = |stack: Stack, room: bool| {
        let mut found = Duration::ZERO;
        busy(stack, |connection| {
            // The timeout of the earlier scheduling, and the remaining time of the subflow's timer.
            connection.outgoing.retransmission.interval = Some(Duration::from_millis(777));
            let due = connection.subflows[0].tcp.sending().timer_due().expect("data is out");
            let now = due - Duration::from_millis(33);
            if !room {
                connection.outgoing.stream.window_end = connection.outgoing.stream.next;
            }
            connection.outgoing.on_data_progress(
                now,
                &mut connection.session,
                &mut connection.subflows,
            );
            found = connection.outgoing.retransmission.deadline().expect("data is out").since(now);
        });
        found.as_millis()
    };
    assert_eq!(deadline(LINUX_6_18, true), 33);
    assert_eq!(deadline(LINUX_6_18, false), 777, "nothing can be scheduled");
    assert_eq!(deadline(MPTCP_0_94, true), 777);
}

#[test]
fn deferred_data_is_sent_when_the_connection_window_is_closed() {
    // __mptcp_retrans: mptcp_check_and_set_pending; __mptcp_push_pending: mptcp_push_release, tcp_push.
    let goes = |change: &dyn Fn(&mut Connection)| {
        let mut goes = false;
        busy(LINUX_6_18, |connection| {
            connection.outgoing.stream.window_end = connection.outgoing.stream.cursor;
            connection.subflows[0].tcp.supply().set_deferred(true);
            change(connection);
            connection.outgoing.push_what_waits(&mut connection.session, &mut connection.subflows);
            goes = !connection.subflows[0].tcp.sending().queue().is_deferred();
        });
        goes
    };
    let with_room = |connection: &mut Connection| {
        connection.subflows[0].tcp.supply().grow_buffer(1000);
    };
    assert!(goes(&with_room));
    assert!(!goes(&|_| {}), "its buffer is full (`sk_stream_memory_free`)");
    assert!(!goes(&|connection| {
        with_room(connection);
        connection.outgoing.stream.window_end += 1;
    }));
    assert!(!goes(&|connection| {
        with_room(connection);
        connection.outgoing.stream.end = connection.outgoing.stream.cursor;
    }));
}
