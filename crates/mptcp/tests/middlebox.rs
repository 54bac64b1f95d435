//! Middleboxes that change options on any kind of segment, in both directions (RFC 8684 sections 3.7 and 6).
//! The stream must arrive byte by byte, over plain TCP or over the other path.

mod pair;

use anabranch_mptcp::{Config, Event};
use anabranch_units::Instant;
use anabranch_wire::{Flags, Segment};
use bytes::Bytes;

use pair::{Pair, Way, at, config, film};

/// The number of bytes that each side sends.
const LENGTH: usize = 200_000;

/// Which segments lose their MPTCP options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strip {
    Syn,
    SynAck,
    Third,
    /// Segments with payload.
    Data,
    /// Segments without payload, after the handshake.
    Acks,
    Everything,
}

const ALL: [Strip; 6] =
    [Strip::Syn, Strip::SynAck, Strip::Third, Strip::Data, Strip::Acks, Strip::Everything];

impl Strip {
    fn hits(self, segment: &Segment, number: usize) -> bool {
        let (syn, ack) = (segment.flags.contains(Flags::SYN), segment.flags.contains(Flags::ACK));
        let data = !segment.payload.is_empty();
        match self {
            Self::Syn => syn && !ack,
            Self::SynAck => syn && ack,
            Self::Third => !syn && number == 1,
            Self::Data => data,
            Self::Acks => !syn && !data && number > 1,
            Self::Everything => !syn,
        }
    }
}

/// One combination of the test.
#[derive(Clone, Copy, Debug)]
struct Cell {
    strip: Strip,
    /// The direction in which options are removed; both if `None`.
    way: Option<Way>,
    /// The time from which options are removed, ms.
    from: u64,
    /// The path on which options are removed.
    path: usize,
    paths: usize,
    checksum: bool,
    /// Whether the client sends too, so that acknowledgements are on data segments.
    both: bool,
}

/// The result of one combination.
struct Outcome {
    pair: Pair,
    stripped: usize,
    uploaded: Vec<u8>,
}

/// Both sides send and close, within at most a minute.
fn play(cell: Cell) -> Outcome {
    let sums = Config { checksum: cell.checksum, ..config() };
    let rtts: Vec<u64> = [20, 30].into_iter().take(cell.paths).collect();
    let mut pair = Pair::new(&rtts, sums.clone(), sums);
    let stripped = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = stripped.clone();
    let mut sent = [0; 2];
    pair.filter = Box::new(move |now: Instant, way, path, segment: &mut Segment| {
        let number = &mut sent[usize::from(way == Way::ToClient)];
        *number += usize::from(path == cell.path);
        let here = path == cell.path && cell.way.is_none_or(|only| only == way);
        if here && now >= at(cell.from) && cell.strip.hits(segment, *number - 1) {
            count
                .set(count.get() + usize::from(segment.dss.is_some() || !segment.mptcp.is_empty()));
            segment.dss = None;
            segment.mptcp.clear();
        }
        true
    });
    let (mut uploaded, up) = (Vec::new(), if cell.both { LENGTH } else { 0 });
    let mut left = Bytes::from(film(up));
    let mut shut = false;
    for ms in (20..60_000).step_by(20) {
        pair.run_until(at(ms));
        if ms == 100 {
            pair.serve(&film(LENGTH));
            pair.end();
        }
        let now = pair.now;
        if ms >= 100
            && let Ok(taken) = pair.client().write(now, left.clone())
        {
            let _ = left.split_to(taken);
        }
        let served = pair.received.len() >= LENGTH;
        if left.is_empty() && (cell.both || served) && !std::mem::replace(&mut shut, true) {
            pair.client().shutdown(now);
        }
        if !pair.server.is_empty() {
            while let Some(bytes) = pair.server().read(now, usize::MAX) {
                uploaded.extend_from_slice(&bytes);
            }
        }
        pair.settle();
        let ended = |events: &[_]| has(events, Event::PeerFinished);
        if ended(&pair.client_events) && ended(&pair.server_events) {
            break;
        }
    }
    Outcome { stripped: stripped.get(), pair, uploaded }
}

fn has(events: &[(Instant, Event)], wanted: Event) -> bool {
    events.iter().any(|(_, event)| *event == wanted)
}

/// Checks that both streams are complete and closed.
fn assert_whole(cell: Cell, outcome: &Outcome) {
    let Outcome { pair, stripped, uploaded } = outcome;
    let (down, up) = (pair.received.len(), uploaded.len());
    assert!(*stripped > 0, "{cell:?}: nothing was stripped");
    assert!(pair.got(&film(LENGTH)), "{cell:?}: {down} bytes down");
    let sent = if cell.both { LENGTH } else { 0 };
    assert!(*uploaded == film(sent), "{cell:?}: {up} bytes up");
    for events in [&pair.client_events, &pair.server_events] {
        assert!(has(events, Event::PeerFinished), "{cell:?}: no end: {events:?}");
    }
}

/// Returns the combinations with one path: kind of segment, direction, start, and whether both sides send.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for strip in ALL {
        let others = match strip {
            Strip::Syn | Strip::Third => vec![None, Some(Way::ToServer)],
            Strip::SynAck => vec![None, Some(Way::ToClient)],
            _ => vec![None, Some(Way::ToClient), Some(Way::ToServer)],
        };
        let handshake = matches!(strip, Strip::Syn | Strip::SynAck | Strip::Third);
        let moments: &[u64] = if handshake { &[0] } else { &[0, 130, 160] };
        for way in others {
            for from in moments {
                for (checksum, both) in [(false, true), (true, true), (false, false)] {
                    let one = Cell { strip, way, from: *from, path: 0, paths: 1, checksum, both };
                    cells.push(one);
                }
            }
        }
    }
    cells
}

#[test]
fn on_the_only_path_the_stream_goes_on_as_plain_tcp() {
    for cell in cells() {
        // A client that sends nothing has no data to strip.
        let nothing = cell.strip == Strip::Data && cell.way == Some(Way::ToServer);
        if nothing && !cell.both {
            continue;
        }
        let outcome = play(cell);
        // DATA_ACKs on data segments are not removed, so MPTCP continues.
        let rides = cell.strip == Strip::Acks && cell.both;
        assert_whole(cell, &outcome);
        let Pair { client_events, server_events, .. } = &outcome.pair;
        let plain = has(client_events, Event::FellBack) || has(server_events, Event::FellBack);
        assert!(plain || rides, "{cell:?}: MPTCP without options");
    }
}

#[test]
fn path_with_stripped_options_is_reset_and_data_moves_over() {
    for path in [0, 1] {
        for strip in [Strip::Data, Strip::Everything] {
            for way in [None, Some(Way::ToClient), Some(Way::ToServer)] {
                let cell =
                    Cell { strip, way, from: 160, path, paths: 2, checksum: false, both: true };
                let outcome = play(cell);
                assert_whole(cell, &outcome);
                for events in [&outcome.pair.client_events, &outcome.pair.server_events] {
                    assert!(!has(events, Event::FellBack), "{cell:?}");
                }
                // RFC 8684 section 3.7: a RST with reason 6.
                let resets = outcome.pair.log.iter().filter(|(_, _, on, segment)| {
                    *on == path && segment.flags.contains(Flags::RST)
                });
                assert!(resets.count() > 0, "{cell:?}: the path was not given up");
            }
        }
    }
}

#[test]
fn acknowledgements_without_options_beside_a_good_path_do_no_harm() {
    for path in [0, 1] {
        for way in [Way::ToClient, Way::ToServer] {
            let strip = Strip::Acks;
            let cell = Cell {
                strip,
                way: Some(way),
                from: 160,
                path,
                paths: 2,
                checksum: false,
                both: true,
            };
            assert_whole(cell, &play(cell));
        }
    }
}

#[test]
fn a_payload_that_is_changed_is_found_by_its_checksum_and_comes_by_the_other_path() {
    let sums = Config { checksum: true, ..config() };
    let mut pair = Pair::new(&[20, 30], sums.clone(), sums);
    let changed = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = changed.clone();
    pair.filter = Box::new(move |_, way, path, segment: &mut Segment| {
        if way == Way::ToClient && path == 1 && !segment.payload.is_empty() {
            segment.payload = segment.payload.iter().map(|byte| byte ^ 1).collect();
            count.set(count.get() + 1);
        }
        true
    });
    pair.run_until(at(100));
    pair.serve(&film(LENGTH));
    pair.run_until(at(10_000));
    assert!(changed.get() > 0, "nothing was changed");
    assert!(pair.got(&film(LENGTH)), "{} bytes", pair.received.len());
    assert!(pair.client().is_multipath());
    let told = pair.log.iter().any(|(_, _, path, segment)| {
        let failed = |option| matches!(option, &anabranch_wire::MptcpOption::Fail { .. });
        *path == 1 && segment.flags.contains(Flags::RST) && segment.mptcp.iter().any(failed)
    });
    assert!(told, "the reset says MP_FAIL");
}

#[test]
fn a_payload_that_is_changed_on_the_only_path_ends_mptcp() {
    // After that, the stream has the bytes that plain TCP would have delivered (RFC 8684 section 3.7).
    let sums = Config { checksum: true, ..config() };
    let mut pair = Pair::new(&[20], sums.clone(), sums);
    pair.filter = Box::new(move |now, way, _, segment: &mut Segment| {
        if way == Way::ToClient && now > at(120) && !segment.payload.is_empty() {
            segment.payload = segment.payload.iter().map(|byte| byte ^ 1).collect();
        }
        true
    });
    pair.run_until(at(100));
    pair.serve(&film(LENGTH));
    pair.run_until(at(10_000));
    assert!(!pair.client().is_multipath() && !pair.server().is_multipath());
    assert_eq!(pair.received.len(), LENGTH);
    let film = film(LENGTH);
    let first = pair.received.iter().zip(&film).position(|(got, sent)| got != sent);
    let first = first.expect("some bytes were changed");
    assert!(pair.received[first..].iter().zip(&film[first..]).all(|(got, sent)| *got == sent ^ 1));
}

/// A download of [`LENGTH`] bytes over two paths through a middlebox.
fn download(sums: bool, filter: pair::Filter) -> Pair {
    let config = Config { checksum: sums, ..config() };
    let mut pair = Pair::new(&[20, 30], config.clone(), config);
    pair.filter = filter;
    pair.run_until(at(100));
    pair.serve(&film(LENGTH));
    pair.run_until(at(15_000));
    pair
}

#[test]
fn sequence_numbers_may_be_rewritten() {
    // Some firewalls replace initial sequence numbers. Mappings are relative, so they stay valid (RFC 8684
    // section 3.3.1).
    for sums in [false, true] {
        let pair = download(
            sums,
            Box::new(|_, way, path, segment: &mut Segment| {
                let shift = 0xffff_f000 + path as u32;
                if way == Way::ToClient {
                    segment.seq = segment.seq.add(shift);
                } else if segment.flags.contains(Flags::ACK) {
                    segment.ack = segment.ack.add(shift.wrapping_neg());
                    let mut sack = anabranch_wire::SackBlocks::EMPTY;
                    for block in segment.sack.as_slice() {
                        let back = |seq: anabranch_units::SeqNumber| seq.add(shift.wrapping_neg());
                        let (left, right) = (back(block.left), back(block.right));
                        sack.push(anabranch_wire::SackBlock { left, right });
                    }
                    segment.sack = sack;
                }
                true
            }),
        );
        assert!(pair.got(&film(LENGTH)), "{} bytes", pair.received.len());
        assert!(!has(&pair.client_events, Event::FellBack), "nothing was wrong");
        let data = |path| pair.sent(Way::ToClient, path).any(|(_, _, _, s)| !s.payload.is_empty());
        assert!(data(0) && data(1));
    }
}

#[test]
fn middlebox_may_lower_the_mss() {
    let pair = download(
        false,
        Box::new(|_, _, _, segment: &mut Segment| {
            segment.mss = segment.mss.map(|mss| mss.min(536));
            true
        }),
    );
    assert!(pair.got(&film(LENGTH)), "{} bytes", pair.received.len());
    let largest = pair.log.iter().map(|(_, _, _, s)| s.payload.len() + s.options_len()).max();
    assert!(largest.is_some_and(|bytes| bytes <= 536), "{largest:?}");
    assert!(!has(&pair.client_events, Event::FellBack));
}

#[test]
fn where_unknown_options_are_dropped_with_their_segments_plain_tcp_is_left() {
    let pair = download(
        false,
        Box::new(|_, _, _, segment: &mut Segment| {
            segment.mptcp.is_empty() && segment.dss.is_none()
        }),
    );
    assert!(pair.got(&film(LENGTH)), "{} bytes", pair.received.len());
    assert!(has(&pair.client_events, Event::FellBack));
}
