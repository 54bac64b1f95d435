//! Penalisation and reinjection of the out-of-tree kernel on a connection.

use anabranch_mptcp::Config;
use anabranch_units::Duration;

use super::named;
use super::pair::{Pair, at, config, film};

/// Transfers data over paths of 20 and 300 ms into a small receive buffer. Returns the penalties of each
/// subflow, the reinjected bytes and the duration. `name` is the server's scheduler.
fn small_buffer(name: &str) -> (Vec<u64>, u64, Duration) {
    let small = Config { receive_buffer_initial: 65_536, receive_buffer_max: 65_536, ..config() };
    let server = Config { scheduler: named(name), ..config() };
    let mut pair = Pair::new(&[20, 300], small, server);
    pair.run_until(at(100));
    pair.serve(&film(1000));
    pair.run_until(at(1000));
    let film = film(5_000_000);
    pair.received.clear();
    pair.serve(&film);
    let begin = pair.now;
    while pair.received.len() < film.len() && pair.now < at(200_000) {
        let next = pair.now + Duration::from_millis(10);
        pair.run_until(next);
    }
    assert!(pair.got(&film), "{name}");
    let lasted = pair.now.since(begin);
    let penalties = pair.server().view().summaries().map(|s| s.totals.penalties).collect();
    (penalties, pair.server().view().reinjected_bytes(), lasted)
}

#[test]
fn penalties_speed_a_small_receive_buffer_up() {
    let (none, not_again, plain) = small_buffer("min-rtt");
    assert_eq!((none, not_again), (vec![0, 0], 0));
    let (penalties, again, relieved) = small_buffer("min-rtt-0.9x");
    assert_eq!(penalties[0], 0, "never the fast one");
    assert!(penalties[1] > 2 && again > 0, "{penalties:?}, {again} bytes");
    assert!(relieved < plain, "{relieved:?} against {plain:?}");
    let (penalties, again, over_lpc) = small_buffer("penalising(lpc)");
    assert!(penalties[1] > 2 && again > 0, "{penalties:?}, {again} bytes");
    assert!(over_lpc < small_buffer("lpc").2);
}
