//! The number of path changes with a load that needs more than one path and less than two.

use anabranch_mptcp::Config;
use anabranch_units::Duration;

use super::named;
use super::pair::{Pair, Way, at, config, film};

/// Returns the number of path changes from segment to segment, and the segments on each path. A
/// segment is written every 5 ms, the RTTs are 50 and 60 ms, and every 100th packet is lost.
fn switches(scheduler: &str) -> (usize, [usize; 2]) {
    let server = Config { scheduler: named(scheduler), nodelay: true, ..config() };
    let mut pair = Pair::new(&[50, 60], config(), server);
    pair.run_until(at(100));
    pair.serve(&film(1000));
    pair.run_until(at(1000));
    let mut count = [0u32; 2];
    pair.filter = Box::new(move |_, way, path, segment| {
        let counts = way == Way::ToClient && !segment.payload.is_empty();
        count[path] += u32::from(counts);
        !(counts && count[path].is_multiple_of(100))
    });
    let begin = pair.log.len();
    let film = film(5000 * 1424);
    for piece in film.chunks(1424) {
        pair.serve(piece);
        let next = pair.now + Duration::from_millis(5);
        pair.run_until(next);
    }
    let data = |(_, way, _, segment): &&(_, Way, usize, anabranch_wire::Segment)| {
        *way == Way::ToClient && !segment.payload.is_empty()
    };
    let paths: Vec<usize> = pair.log[begin..].iter().filter(data).map(|entry| entry.2).collect();
    let changes = paths.windows(2).filter(|two| two[0] != two[1]).count();
    let on = |path: usize| paths.iter().filter(|p| **p == path).count();
    (changes, [on(0), on(1)])
}

#[test]
fn sticky_switches_far_less_than_the_smallest_round_trip() {
    let (often, split) = switches("min-rtt");
    assert!(split[1] > 200, "one path is not enough: {split:?}");
    for name in ["gr-sty", "sticky(min-rtt-0.9x)"] {
        let (rarely, split) = switches(name);
        assert!(split.iter().all(|segments| *segments > 200), "{name}: {split:?}");
        assert!(rarely * 3 < often, "{name}: {rarely} switches against {often}");
    }
}
