//! Tests of the order between an acknowledgement, the woken application and other subflows.

use anabranch_units::{Instant, Seed};

use crate::connection::Connection;
use crate::path_manager::Candidate;
use crate::profile::{LINUX_6_18, MPTCP_0_94, Stack};
use crate::{Config, Endpoint, Event, FourTuple};
use anabranch_scheduler::{Decision, PathScheduler, SendRequest, SubflowView};
use anabranch_tcp::State;

/// A scheduler that sends everything on the second subflow, 1000 bytes at a time.
#[derive(Debug)]
struct Second;

impl PathScheduler for Second {
    fn name(&self) -> &'static str {
        "second"
    }

    fn schedule(&mut self, _: &SendRequest, subflows: &[SubflowView]) -> Decision {
        subflows.get(1).map_or(Decision::WAIT, |second| Decision::next_on(second.id, 1000))
    }
}

/// The next segment of a connection.
fn poll(connection: &mut Connection, now: Instant) -> Option<anabranch_wire::Segment> {
    let mut segment = anabranch_wire::Segment::default();
    connection.next_segment(now, 1, &mut segment).is_some().then_some(segment)
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + anabranch_units::Duration::from_millis(ms)
}

/// Creates a server connection over two subflows, with 500 bytes to send and an application that waits for
/// send-buffer space.
fn waiting(stack: Stack, one_processor: bool, act: impl FnOnce(&mut Connection)) {
    let there = ([10, 0, 0, 2], 80).into();
    let candidate = |id: u8| Candidate {
        address_id: id,
        local: ([10, 0, id, 1], 1024 + u16::from(id)).into(),
        remote: there,
        backup: false,
        rate: None,
    };
    let config = Config { one_processor, stack, ..Config::default() };
    let mut client = Endpoint::new("client", Seed { seed: 1, run: 0 });
    let mut server = Endpoint::new("server", Seed { seed: 1, run: 0 });
    server.listen(there, config.clone()).expect("nobody listens");
    let candidates = vec![candidate(0), candidate(1)];
    let ours = client.connect(at(0), Config { candidates, ..config }).expect("free addresses");
    let carry = |from: &mut Endpoint, to: &mut Endpoint, ms: u64| {
        while let Some(told) = from.poll_transmit(at(ms)) {
            let tuple = FourTuple { local: told.remote, remote: told.local };
            to.handle_segment(at(ms), tuple, &told.segment);
        }
    };
    let mut now = 0;
    for _ in 0..4 {
        carry(&mut client, &mut server, now);
        carry(&mut server, &mut client, now + 20);
        now += 40;
        // Data in both directions completes the handshake, so that the other subflow may join.
        let _ = client.connection_mut(ours).write(at(now), vec![7; 10].into());
    }
    let handle = server.connections().next().expect("one").0;
    let connection = server.connection_mut(handle);
    let open = connection.subflows.iter().filter(|s| s.tcp.state() == State::Established);
    assert_eq!(open.count(), 2, "both subflows are open");
    connection.outgoing.scheduling.scheduler = Box::new(Second);
    while connection.poll_event().is_some() {}
    while poll(connection, at(now)).is_some() {}
    // The data was written while the peer's window was closed. An acknowledgement has opened the window since
    // then.
    let open_to = std::mem::replace(
        &mut connection.outgoing.stream.window_end,
        connection.outgoing.stream.cursor,
    );
    connection.write(at(now), vec![7; 500].into()).expect("room");
    connection.outgoing.stream.window_end = open_to;
    act(connection);
}

/// Schedules data as after an acknowledgement on a subflow.
fn answer(connection: &mut Connection, now: Instant, index: usize) {
    let id = connection.subflows[index].tcp.id();
    connection.outgoing.begin_answer(&connection.session, id);
    connection.push(now);
    connection.outgoing.end_answer();
}

/// Returns the number of bytes queued on the second subflow.
fn queued(connection: &Connection) -> u64 {
    connection.subflows[1].tcp.sending().queue().queued_bytes()
}

#[test]
fn write_of_the_woken_application_joins_the_segment() {
    waiting(LINUX_6_18, true, |connection| {
        connection.session.report(Event::Writable);
        answer(connection, at(200), 0);
        assert_eq!(queued(connection), 0, "the application comes first");
        while connection.poll_event().is_some() {}
        connection.write(at(200), vec![7; 500].into()).expect("room");
        assert_eq!(queued(connection), 1000);
        let segment = poll(connection, at(200)).expect("a segment");
        assert_eq!(segment.payload.len(), 1000);
    });
}

#[test]
fn push_is_delegated_only_for_a_woken_writer_on_another_subflow() {
    let goes = |stack: Stack, one_processor: bool, wakes: bool, index: usize| {
        let mut bytes = 0;
        waiting(stack, one_processor, |connection| {
            if wakes {
                connection.session.report(Event::Writable);
            }
            answer(connection, at(200), index);
            bytes = queued(connection);
        });
        bytes == 500
    };
    assert!(goes(LINUX_6_18, true, false, 0), "nobody was woken");
    assert!(goes(LINUX_6_18, true, true, 1), "the acknowledgement came on it");
    assert!(!goes(LINUX_6_18, true, true, 0));
    assert!(goes(LINUX_6_18, false, true, 0), "another processor does it meanwhile");
    assert!(goes(MPTCP_0_94, true, true, 0), "the older stack delegates nothing");
}

#[test]
fn it_goes_without_the_application_when_that_writes_nothing() {
    waiting(LINUX_6_18, true, |connection| {
        connection.session.report(Event::Writable);
        answer(connection, at(200), 0);
        assert!(poll(connection, at(200)).is_none());
        while connection.poll_event().is_some() {}
        let segment = poll(connection, at(200)).expect("a segment");
        assert_eq!(segment.payload.len(), 500);
    });
}

/// Grows the buffer of the first subflow while the application is woken, or not. Returns the growth that the
/// connection sees at once, and after the application has run.
fn grown(one_processor: bool, wakes: bool, writes: bool) -> (u64, u64) {
    let mut seen = (0, 0);
    waiting(LINUX_6_18, one_processor, |connection| {
        while poll(connection, at(200)).is_some() {}
        let before = connection.writable();
        assert!(connection.subflows[0].tcp.supply().grow_buffer(100));
        if wakes {
            connection.session.report(Event::Writable);
        }
        connection.outgoing.note_growth(&mut connection.session, &mut connection.subflows);
        let growth = |connection: &Connection| connection.writable() - before;
        seen.0 = growth(connection);
        while connection.poll_event().is_some() {}
        if writes {
            connection.write(at(200), vec![7; 1].into()).expect("room");
            seen.1 = connection.subflows[0].tcp.sending().buffer().told();
        } else {
            let _ = poll(connection, at(200));
            seen.1 = growth(connection);
        }
    });
    seen
}

#[test]
fn a_woken_application_finds_the_buffer_that_was_known_before() {
    // mptcp_propagate_sndbuf leaves the update to the later processing of the subflow. The buffer grows from
    // 46,080 to 2 * 100 * 2304.
    let by = 460_800 - 46_080;
    assert_eq!(grown(true, true, false), (0, by), "known behind the application's turn");
    assert_eq!(grown(true, true, true), (0, 460_800), "and behind its write");
    assert_eq!(grown(true, false, false), (by, by), "nobody was woken");
    assert_eq!(grown(false, true, false), (by, by), "another processor tells meanwhile");
}

#[test]
fn the_acknowledged_subflow_has_its_room_before_another_one_has_data() {
    // tcp_data_snd_check belongs to the processing of the acknowledgement. mptcp_napi_poll runs after it.
    let grows = |stack: Stack, waits: bool, index: usize| {
        let mut grew = false;
        waiting(stack, false, |connection| {
            connection.outgoing.stream_mut().set_blocked(&mut connection.subflows, waits);
            connection.subflows[0].tcp.supply().set_cwnd(500);
            let before = connection.subflows[0].tcp.sending().buffer().limit();
            answer(connection, at(200), index);
            assert_eq!(queued(connection), 500, "data goes to the second");
            grew = connection.subflows[0].tcp.sending().buffer().limit() > before;
        });
        grew
    };
    assert!(grows(LINUX_6_18, true, 0));
    assert!(!grows(LINUX_6_18, false, 0), "the application waits for nothing");
    assert!(!grows(LINUX_6_18, true, 1), "the acknowledgement came on the other one");
    assert!(!grows(MPTCP_0_94, true, 0), "the older stack delegates nothing");
}

#[test]
fn the_acknowledgement_that_wakes_the_application_has_made_its_buffer_larger_before() {
    // tcp_new_space calls `tcp_sndbuf_expand` first, and then `sk_write_space`, which clears `SOCK_NOSPACE`
    // on all subflows.
    waiting(LINUX_6_18, false, |connection| {
        connection.outgoing.stream_mut().set_blocked(&mut connection.subflows, true);
        connection.outgoing.stream_mut().report_behind_ack(
            &mut connection.session,
            &mut connection.subflows,
            0,
        );
        assert!(connection.session.wakes_application() && !connection.outgoing.stream.blocked);
        let knows: Vec<_> =
            connection.subflows.iter().map(|it| it.tcp.sending().wants_space()).collect();
        assert_eq!(knows, [true, false]);
        while poll(connection, at(200)).is_some() {}
        assert!(connection.subflows.iter().all(|subflow| !subflow.tcp.sending().wants_space()));
    });
}
