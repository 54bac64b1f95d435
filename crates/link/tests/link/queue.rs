//! Tests of the rate and the drop-tail queue by arithmetic.

use anabranch_link::{
    ConfigError, DropReason::QueueFull, FixedLink, Link, LinkConfig, QueueLimit, Queued,
};
use anabranch_units::{ByteCount, Duration, Instant, Rate};

use crate::driver::{RATE, SEED, SIZE, assert_conserved, config, link, ms, poll, run, span, us};

#[test]
fn n_packets_leave_n_service_times_apart() {
    let mut link = link(QueueLimit::Unlimited);
    for packet in 0..100 {
        link.enqueue(ms(5), packet, SIZE);
    }
    let expected: Vec<_> = (0..100).map(|n| (n, ms(5 + (u64::from(n) + 1) + 20), None)).collect();
    assert_eq!(run(&mut link, Instant::FAR_FUTURE), expected);
    assert_eq!(link.stats().bytes_delivered, 100 * 1250);
}

#[test]
fn an_idle_link_serves_at_once_and_a_busy_one_in_turn() {
    let mut link = link(QueueLimit::Unlimited);
    link.enqueue(us(0), 0, SIZE);
    link.enqueue(us(400), 1, SIZE);
    link.enqueue(us(7_000), 2, SIZE);
    let at: Vec<_> = run(&mut link, ms(100)).iter().map(|told| told.1).collect();
    assert_eq!(at, [us(21_000), us(22_000), us(28_000)]);
}

#[test]
fn a_delivery_is_the_only_wake_up() {
    let mut link = link(QueueLimit::Unlimited);
    assert_eq!(link.poll_timeout(), None);
    for packet in 0..50 {
        link.enqueue(ms(0), packet, SIZE);
        assert_eq!(link.poll_timeout(), Some(ms(21)), "the head decides");
    }
    let mut wakes = 0;
    while let Some(at) = link.poll_timeout() {
        assert_eq!(poll(&mut link, at).len(), 1);
        wakes += 1;
    }
    assert_eq!(wakes, 50);
}

#[test]
fn a_link_is_quiet_until_its_head_arrives() {
    let mut link = link(QueueLimit::Packets(2));
    assert_eq!(link.quiet_until(ms(0)), Some(Instant::FAR_FUTURE));
    for packet in 0..3 {
        link.enqueue(ms(0), packet, SIZE);
    }
    assert_eq!(link.quiet_until(ms(0)), None, "the third was refused");
    assert_eq!(poll(&mut link, ms(0)), [(2, ms(0), Some(QueueFull))]);
    assert_eq!((link.quiet_until(ms(0)), link.quiet_until(ms(21))), (Some(ms(21)), None));
    assert_eq!(poll(&mut link, ms(21)), [(0, ms(21), None)]);
    assert_eq!((link.quiet_until(ms(21)), link.quiet_until(ms(22))), (Some(ms(22)), None));
}

#[test]
fn the_packet_in_service_counts_against_the_limit() {
    let mut link = link(QueueLimit::Packets(3));
    for packet in 0..5 {
        link.enqueue(us(0), packet, SIZE);
    }
    // The first packet leaves at 1 ms. From then on there is room for one packet.
    link.enqueue(us(999), 5, SIZE);
    link.enqueue(us(1_000), 6, SIZE);
    link.enqueue(us(1_000), 7, SIZE);
    let told = run(&mut link, ms(100));
    let dropped: Vec<_> =
        told.iter().filter(|t| t.2 == Some(QueueFull)).map(|t| (t.0, t.1)).collect();
    assert_eq!(dropped, [(3, us(0)), (4, us(0)), (5, us(999)), (7, us(1_000))]);
    let delivered: Vec<_> = told.iter().filter(|t| t.2.is_none()).map(|t| (t.0, t.1)).collect();
    assert_eq!(delivered, [(0, ms(21)), (1, ms(22)), (2, ms(23)), (6, ms(24))]);
    assert_eq!(link.stats().queue_max_packets, 3);
    assert_conserved(&link);
}

#[test]
fn byte_limit_admits_a_small_packet_into_the_remaining_space() {
    let mut link = link(QueueLimit::Bytes(3_000));
    link.enqueue(ms(0), 0, SIZE);
    link.enqueue(ms(0), 1, SIZE);
    link.enqueue(ms(0), 2, ByteCount(501));
    link.enqueue(ms(0), 3, ByteCount(500));
    assert_eq!(link.queued(ms(0)), Queued { packets: 3, bytes: ByteCount(3_000) });
    // The packet in service counts in full until its last bit has left.
    assert_eq!(link.queued(us(999)).bytes, ByteCount(3_000));
    assert_eq!(link.queued(us(1_000)).bytes, ByteCount(1_750));
    let told = run(&mut link, ms(100));
    assert_eq!(told[0], (2, ms(0), Some(QueueFull)));
    assert_eq!(told[3], (3, us(22_400), None));
    assert_eq!(link.stats().queue_max_bytes, 3_000);
}

#[test]
fn an_unlimited_rate_leaves_the_delay_alone() {
    let delay = Duration::from_micros(3_300);
    let config = LinkConfig::new("lte", Rate::UNLIMITED, QueueLimit::Packets(1), delay);
    let mut link = FixedLink::new(config, SEED);
    for packet in 0..10 {
        link.enqueue(ms(7), packet, SIZE);
    }
    let told = run(&mut link, ms(100));
    assert_eq!(told, (0..10).map(|n| (n, us(10_300), None)).collect::<Vec<_>>());
}

#[test]
fn drops_are_reported_with_the_next_delivery() {
    let mut link = link(QueueLimit::Packets(1));
    link.enqueue(ms(0), 0, SIZE);
    link.enqueue(ms(0), 1, SIZE);
    assert_eq!(link.poll_timeout(), Some(ms(21)));
    assert_eq!(link.stats().dropped_queue, 1, "counted at once");
    assert_eq!(poll(&mut link, ms(21)), [(1, ms(0), Some(QueueFull)), (0, ms(21), None)]);
    assert_eq!(link.poll_timeout(), None);
}

#[test]
fn a_drop_without_a_later_delivery_is_due_at_once() {
    let mut link = link(QueueLimit::Bytes(1_000));
    link.enqueue(ms(3), 0, SIZE);
    assert_eq!(link.poll_timeout(), Some(ms(3)));
    assert_eq!(poll(&mut link, ms(3)), [(0, ms(3), Some(QueueFull))]);
}

#[test]
fn a_queue_without_room_is_refused() {
    let config = LinkConfig::new("none", RATE, QueueLimit::Packets(0), span(1));
    assert_eq!(config.check(), Err(ConfigError::EmptyQueue));
}

#[test]
#[should_panic(expected = "link wifi.down: a queue of size 0")]
fn a_link_without_room_is_not_built() {
    let _ = FixedLink::<u32>::new(config(QueueLimit::Bytes(0)), SEED);
}
