//! The short way in ends where the long one does.

use std::collections::BTreeMap;

use anabranch_units::{Duration, Seed};
use anabranch_wire::Segment;
use bytes::Bytes;

use super::*;
use crate::config::FourTuple;
use crate::path_manager::Candidate;
use crate::{Config, Endpoint, ListenConfig};

/// What two endpoints say to each other over two paths, of 10 and 30 ms, that lose every 37th packet, while
/// 600 kB go one way and 60 kB the other; they take plain segments the short way or, as all others, the long one.
fn told(short: bool) -> (Vec<(Instant, Segment)>, usize) {
    let seed = Seed { seed: 7, run: 0 };
    let (mut client, mut server) = (Endpoint::new("client", seed), Endpoint::new("server", seed));
    let remote = |path: u8| ([10, path, 0, 2], 80).into();
    let candidate = |path: u8| Candidate {
        address_id: path,
        local: ([10, path, 0, 1], 1024).into(),
        remote: remote(path),
        backup: false,
        rate: None,
    };
    let candidates = vec![candidate(0), candidate(1)];
    let own = client.connect(Instant::ZERO, Config { candidates, ..Config::default() });
    let own = own.expect("free addresses");
    for path in [0, 1] {
        server.listen(remote(path), ListenConfig::from(Config::default())).expect("nobody listens");
    }
    let (mut now, mut log, mut plain) = (Instant::ZERO, Vec::new(), 0);
    let mut under_way: BTreeMap<(Instant, usize), (bool, FourTuple, Segment)> = BTreeMap::new();
    let (mut left, mut read) = ([60_000, 600_000], [0, 0]);
    for _ in 0..20_000 {
        for (side, endpoint) in [&mut client, &mut server].into_iter().enumerate() {
            let handle =
                if side == 0 { Some(own) } else { endpoint.connections().next().map(|it| it.0) };
            if let Some(handle) = handle {
                let connection = endpoint.connection_mut(handle);
                connection.plain_stack = short;
                while let Some(bytes) = connection.read(now, 3000) {
                    read[side] += bytes.len();
                }
                if left[side] > 0 && connection.connected_at.is_some() {
                    let bytes = Bytes::from(vec![0; left[side].min(20_000)]);
                    left[side] -= connection.write(now, bytes).unwrap_or(0);
                }
            }
            while let Some(out) = endpoint.poll_transmit(now) {
                let slow = out.local.to_string().starts_with("10.1.");
                let at = now + Duration::from_millis(if slow { 30 } else { 10 });
                let tuple = FourTuple { local: out.remote, remote: out.local };
                log.push((now, out.segment.clone()));
                if log.len() % 37 != 0 {
                    under_way.insert((at, log.len()), (side == 0, tuple, out.segment));
                }
            }
        }
        let timers = [client.poll_timeout(), server.poll_timeout()];
        let arrival = under_way.keys().next().map(|(at, _)| *at);
        let Some(next) = timers.into_iter().chain([arrival]).flatten().min() else { break };
        now = now.max(next);
        for endpoint in [&mut client, &mut server] {
            if endpoint.poll_timeout().is_some_and(|at| at <= now) {
                endpoint.handle_timeout(now);
            }
        }
        if let Some(entry) = under_way.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to_server, tuple, segment) = entry.remove();
            let endpoint = if to_server { &mut server } else { &mut client };
            let known = endpoint.connections().next().map(|(_, connection)| {
                connection
                    .subflow_of(tuple)
                    .is_some_and(|index| connection.takes_plainly(index, &segment, None))
            });
            plain += usize::from(known == Some(true));
            endpoint.handle_segment(now, tuple, &segment);
        }
        if read == [600_000, 60_000] {
            break;
        }
    }
    assert_eq!(read, [600_000, 60_000], "all of it came");
    (log, plain)
}

#[test]
fn a_plain_segment_is_answered_as_by_the_long_way() {
    let ((short, plain), (long, none)) = (told(true), told(false));
    assert!(plain > 400 && none == 0, "{plain} went the short way");
    assert_eq!(short.len(), long.len());
    for (one, other) in short.iter().zip(&long) {
        assert_eq!(one, other);
    }
}
