//! Reads of the application with limited sizes, and the event that it may write.

use anabranch_mptcp::Event;

use crate::dialect::{Script, config, film, tcp, thousands};

#[test]
fn partial_read_leaves_the_remaining_data() {
    // RFC 9293 section 3.9.1.3: RECEIVE returns the data that has arrived, for any buffer size.
    let mut s = Script::plain_with(tcp(), 50);
    s.reading = false;
    s.peer(100, ". 1:101");
    s.peer(110, ". 101:201");
    assert_eq!(s.connection().readable(), 200);
    let now = s.now;
    for (limit, from, length) in [(100, 0, 100), (60, 100, 60), (60, 160, 40)] {
        let piece = s.connection().read(now, limit);
        assert_eq!(piece, Some(film(from, length)), "{limit} from {from}");
    }
    assert_eq!((s.connection().readable(), s.connection().read(now, 1)), (0, None));
}

#[test]
fn writable_event_requires_an_earlier_poll() {
    // sk_stream_is_writeable: a third of the buffer must be free. The buffer has 2 * 10 * 2304 = 46,080
    // bytes. 40,000 bytes of data with their overhead leave less than a third.
    for asks in [true, false] {
        let mut s = Script::plain_with(thousands(), 50);
        assert!(s.connection().poll_writable(), "nothing is held");
        // The event that a connection is writable is reported once, at the beginning.
        s.events.clear();
        s.write(100, 40_000);
        if asks {
            assert!(!s.connection().poll_writable());
        }
        for (ms, ack) in [(150, 10_001), (200, 30_001), (250, 40_001)] {
            s.peer(ms, &format!(". ack={ack}"));
        }
        assert!(s.connection().writable() > 0);
        assert_eq!(s.has(Event::Writable), asks);
    }
}

#[test]
fn join_makes_a_blocked_connection_writable() {
    // __mptcp_sync_sndbuf, mptcp_write_space: the buffer has 50,176 bytes and 40,000 are used. With a join it
    // has 96,256.
    let mut s = Script::multipath(config(), 50);
    s.write(100, 40_000);
    s.rest();
    assert!(!s.connection().poll_writable());
    s.events.clear();
    s.join(1, 200, 100);
    assert!(s.has(Event::Writable));
}
