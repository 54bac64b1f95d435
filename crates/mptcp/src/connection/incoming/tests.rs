//! Tests of the receiving side.

use anabranch_units::{Duration, Seed, SeqNumber};
use anabranch_wire::{Segment, Timestamps};

use super::window::is_news;
use super::*;
use crate::connection::Connection;
use crate::path_manager::Candidate;
use crate::{Config, Endpoint};
use anabranch_tcp::Space;
use anabranch_tcp::receive_buffer::Load;

#[test]
fn old_bytes_are_cut_off_also_before_the_first() {
    let base = u64::MAX - 1;
    let mut stream = ReceiveStream::default();
    let bytes = Bytes::from_static(&[1, 2, 3, 4]);
    // The payload begins at position -1, as in a probe of a window that was closed from the start.
    assert!(!stream.accept(base, base.wrapping_sub(1), (bytes.slice(..1), 8), 100));
    assert_eq!((stream.next, stream.unread), (0, 0));
    assert!(stream.accept(base, base.wrapping_sub(1), (bytes.clone(), 8), 100));
    assert_eq!(stream.readable.pop_front(), Some((bytes.slice(1..), 6)));
    assert!(!stream.accept(base, base.wrapping_add(4), (bytes.clone(), 8), 100));
    assert!(stream.accept(base, base.wrapping_add(2), (bytes, 8), 100));
    assert_eq!((stream.next, stream.unread), (8, 8));
}

#[test]
fn queued_data_keeps_its_original_memory_charge() {
    // mptcp_set_owner_r: data is charged whether it is readable or out of order. Bytes that arrived before
    // are not charged again.
    let mut stream = ReceiveStream::default();
    let bytes = Bytes::from_static(&[0; 1000]);
    stream.accept(0, 1000, (bytes.clone(), 1712), 10_000);
    assert_eq!(stream.memory(), 1712);
    stream.accept(0, 1000, (bytes.clone(), 1712), 10_000);
    assert_eq!(stream.memory(), 1712, "a repetition");
    stream.accept(0, 1500, (bytes.clone(), 2000), 10_000);
    assert_eq!(stream.memory(), 2712, "half of it is new");
    stream.accept(0, 0, (bytes.clone(), 1712), 10_000);
    assert_eq!((stream.memory(), stream.unread, stream.held()), (4424, 2500, 2500));
    stream.accept(0, 2400, (bytes, 2000), 10_000);
    assert_eq!(stream.memory(), 4424 + 1800);
}

/// Returns the memory limit for data that the initial subflow delivers.
fn room_for(connection: &Connection) -> u64 {
    connection.incoming.room_for(&connection.session, &connection.subflows, 0)
}

/// Delivers parked data of the initial subflow until the used memory exceeds `limit`.
fn take_parked(connection: &mut Connection, limit: u64) -> bool {
    connection.incoming.take_parked(&connection.session, &mut connection.subflows, 0, limit)
}

/// Gives the receiver an RTT of 1 ms. A segment echoes the timestamp of the SYN, on a subflow that is
/// established (`open`) or not.
fn measure_rtt(subflow: &mut Subflow, open: bool) {
    let (config, at) = (Config::default(), |ms| Instant::ZERO + Duration::from_millis(ms));
    let mut syn = Segment::default();
    assert!(subflow.next_handshake_segment(at(0), &config, &mut syn));
    let timestamps = syn.timestamps.map(|own| Timestamps { value: 1, echo: own.value });
    let answer = Segment { timestamps, ack: syn.seq.add(1), ..Segment::default() };
    subflow.tcp.on_peer_syn(&answer, &config.tcp());
    if open {
        subflow.take_syn_ack(&config.host, at(0), &answer);
    }
    let payload = Bytes::from_static(&[0; 1000]);
    let segment = Segment { seq: SeqNumber(1), payload, ..answer };
    let load = Load::of(&segment, None);
    subflow.tcp.handle_payload(at(1), (&segment, 1), load, Space::default(), &mut |_, _, _| {});
    assert_eq!(subflow.tcp.receive().rtt(), Some(Duration::from_millis(1)));
}

fn opening() -> (Endpoint, crate::ConnectionHandle) {
    let mut client = Endpoint::new("client", Seed { seed: 1, run: 0 });
    let remote = ([10, 0, 0, 2], 80).into();
    let candidates = vec![Candidate {
        address_id: 0,
        local: ([10, 0, 0, 1], 1024).into(),
        remote,
        backup: false,
        rate: None,
    }];
    let config = Config { candidates, ..Config::default() };
    let handle = client.connect(Instant::ZERO, config).expect("free addresses");
    (client, handle)
}

#[test]
fn a_packets_memory_is_given_back_when_all_of_it_was_read() {
    // __mptcp_recvmsg_mskq: `rmem_released += skb->truesize`, unless `count < data_len`. Out-of-order data is
    // charged and released in the same way.
    let (mut client, handle) = opening();
    let connection = client.connection_mut(handle);
    let bytes = Bytes::from_static(&[0; 1000]);
    let stream = &mut connection.incoming.stream;
    stream.accept(0, 1100, (bytes.clone(), 2304), 10_000);
    stream.accept(0, 0, (bytes.slice(..100), 768), 10_000);
    stream.accept(0, 100, (bytes.clone(), 1712), 10_000);
    assert_eq!((stream.memory(), stream.unread()), (768 + 1712 + 2304, 2100));
    for (limit, left) in [(99, 4784), (10, 4016), (999, 4016), (1000, 2304), (999, 2304), (1, 0)] {
        let read = connection.read(Instant::ZERO, limit).expect("bytes");
        assert!(read.len() <= limit);
        assert_eq!(connection.incoming.stream.memory(), left, "{limit}");
    }
}

#[test]
fn data_for_a_full_buffer_parks_on_its_subflow_until_it_grows() {
    // mptcp_data_ready: `if (__mptcp_rmem(sk) > sk_rbuf) return;`. tcp_prune_queue: tcp_clamp_window.
    let (mut client, handle) = opening();
    let connection = client.connection_mut(handle);
    connection.session.on_negotiated(1);
    let piece = |dsn| (dsn, Bytes::from_static(&[0; 1000]), 2304);
    let limit = room_for(connection);
    assert_eq!(limit, 131_072);
    let base = connection.incoming.receive_dsn(&connection.session);
    let mut position = 1000;
    while connection.incoming.stream.memory() <= limit {
        connection.incoming.stream.accept(base, base + position, (piece(0).1, 2304), u64::MAX);
        position += 1000;
    }
    assert!(!take_parked(connection, limit), "nothing waits");
    // The missing piece arrives repeatedly and fills the subflow's buffer.
    let mut times = 0;
    while room_for(connection) < connection.incoming.stream.memory() {
        connection.incoming.parked.push(0, piece(base), 1 << 20);
        assert!(!take_parked(connection, room_for(connection)), "the buffer is full");
        times += 1;
        assert!(times < 100, "it never grows");
    }
    assert_eq!(times, 131_072_u64.div_ceil(2304));
    assert_eq!(connection.incoming.parked.bytes(), 1000 * times);
    assert_eq!(connection.readable(), 0);
    assert!(take_parked(connection, room_for(connection)));
    assert_eq!(connection.readable(), position, "what waited behind it is there, too");
}

#[test]
fn reading_all_data_drains_the_parked_subflow_data() {
    // __mptcp_move_skbs runs when the connection's receive queue is empty.
    let (mut client, handle) = opening();
    let connection = client.connection_mut(handle);
    connection.session.on_negotiated(1);
    connection.session.on_negotiated(connection.session.local_key().value);
    let base = connection.incoming.receive_dsn(&connection.session);
    for (index, at) in [(1, 100), (0, 0), (1, 200)] {
        let piece = (base + at, Bytes::from_static(&[7; 100]), 768);
        connection.incoming.parked.push(index, piece, 1 << 20);
    }
    // A piece that would exceed the limit is dropped.
    connection.incoming.parked.push(1, (base + 300, Bytes::from_static(&[7; 100]), 768), 1535);
    assert_eq!(connection.incoming.parked.bytes(), 300);
    let read = std::iter::from_fn(|| connection.read(Instant::ZERO, usize::MAX));
    assert_eq!(read.map(|bytes| bytes.len()).sum::<usize>(), 300);
    assert!(connection.incoming.parked.is_empty());
}

#[test]
fn reads_do_not_grow_the_buffer_of_an_unopened_subflow() {
    // mptcp_rcv_space_adjust: `if (tcp_sk(ssk)->rcvq_space.space)`. This is 0 before tcp_init_transfer.
    for grows in [false, true] {
        let (mut client, handle) = opening();
        let connection = client.connection_mut(handle);
        connection.session.on_negotiated(1);
        let subflow = &mut connection.subflows[0];
        measure_rtt(subflow, grows);
        let before = (subflow.tcp.receive().buffer().window(), connection.incoming.budget.limit());
        connection.incoming.note_read(
            Instant::ZERO,
            &connection.session,
            &mut connection.subflows,
            100_000,
        );
        connection.incoming.note_reads_end(
            Instant::ZERO + Duration::from_millis(10),
            &connection.session,
            &mut connection.subflows,
        );
        assert!(connection.incoming.budget.limit() > before.1, "the connection's grows");
        assert_eq!(connection.subflows[0].tcp.receive().buffer().window() > before.0, grows);
    }
}

#[test]
fn bytes_that_come_one_by_one_and_are_not_read_cost_little_more_than_bytes() {
    let mut stream = ReceiveStream::default();
    let film: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    for (at, byte) in (0..).zip(&film) {
        assert!(stream.accept(0, at, (Bytes::copy_from_slice(&[*byte]), 8), 100_000));
    }
    assert!(stream.readable.len() < 500, "{} pieces", stream.readable.len());
    assert_eq!(stream.unread, 100_000);
    let pieces = std::mem::take(&mut stream.readable);
    assert!(pieces.into_iter().flat_map(|(piece, _)| piece).eq(film));
}

#[test]
fn out_of_order_data_beyond_the_window_is_dropped() {
    let mut stream = ReceiveStream::default();
    let bytes = Bytes::from_static(&[1, 2, 3, 4]);
    stream.accept(0, 7, (bytes.clone(), 8), 10);
    assert_eq!(stream.held(), 0);
    stream.accept(0, 6, (bytes.clone(), 8), 10);
    assert_eq!(stream.held(), 4);
    // In-order data is always accepted. __mptcp_move_skb compares only out-of-order data with `rcv_wnd_sent`.
    let mut stream = ReceiveStream::default();
    assert!(stream.accept(0, 0, (bytes, 8), 2));
    assert_eq!(stream.next, 4);
}

#[test]
fn mapping_with_only_received_data_is_not_new() {
    // subflow_check_data_avail: `before64(ack_seq, old_ack)`. The comparison works across the wrap.
    for next in [5000, 0, u64::MAX] {
        let from = |back: u64| next.wrapping_sub(back);
        assert!(!is_news(next, from(1000), 1000));
        assert!(is_news(next, from(999), 1000), "its last byte is new");
        assert!(is_news(next, next, 1) && is_news(next, next.wrapping_add(700), 1));
    }
}

#[test]
fn parked_data_is_delivered_when_mptcp_ends() {
    let (mut client, handle) = opening();
    let connection = client.connection_mut(handle);
    connection.session.on_negotiated(1);
    let base = connection.incoming.receive_dsn(&connection.session);
    connection.incoming.parked.push(0, (base, Bytes::from_static(&[7; 100]), 768), 1 << 20);
    let Connection { session, subflows, incoming, .. } = connection;
    incoming.deliver_parked(session, subflows);
    assert!(connection.incoming.parked.is_empty());
    assert_eq!(connection.readable(), 100);
}

#[test]
fn data_beyond_the_promised_window_is_not_accepted() {
    // mptcp_data_queue_ofo: `after64(end_seq, max_seq)` with `max_seq = atomic64_read(&msk->rcv_wnd_sent)`.
    let (mut client, handle) = opening();
    let connection = client.connection_mut(handle);
    connection.session.on_negotiated(1);
    let Connection { session, subflows, incoming, .. } = connection;
    assert_eq!(incoming.accepted_edge(session), u64::MAX, "nothing was promised yet");
    incoming.note_promise(subflows, 0);
    // No data was received, so the window begins at position 0.
    assert_eq!(incoming.accepted_edge(session), subflows[0].tcp.receive().window());
}

#[test]
fn stored_bytes_of_both_directions_are_added() {
    let (mut client, handle) = opening();
    let connection = client.connection_mut(handle);
    assert_eq!(connection.write(Instant::ZERO, Bytes::from_static(&[0; 700])), Ok(700));
    connection.incoming.stream.accept(0, 0, (Bytes::from_static(&[0; 1000]), 1712), 10_000);
    assert_eq!(connection.held(), 1700);
}
