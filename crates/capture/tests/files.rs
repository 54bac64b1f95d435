//! Capture files of every form, written by hand after their specifications
//! (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng).

use std::io::{Cursor, Write};

use anabranch_capture::{Analysis, FileError, Frames};
use anabranch_wire::{Flags, Segment, emit_packet};

/// An IPv4 packet with a SYN from 10.0.0.1:4000 to 10.0.0.2:80.
fn syn() -> Vec<u8> {
    let segment = Segment {
        source_port: 4000,
        destination_port: 80,
        flags: Flags::SYN,
        ..Segment::default()
    };
    let mut packet = Vec::new();
    emit_packet([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), &segment, &mut packet).expect("valid");
    packet
}

/// A pcap file with one packet at 1 s and `fraction` units. `big` is the byte order.
fn pcap(magic: u32, big: bool, link_type: u32, fraction: u32, frame: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut word = |value: u32| {
        file.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() });
    };
    word(magic);
    word(if big { 2 << 16 | 4 } else { 4 << 16 | 2 });
    word(0);
    word(0);
    word(65_535);
    word(link_type);
    word(1);
    word(fraction);
    word(frame.len() as u32);
    word(frame.len() as u32);
    file.extend(frame);
    file
}

/// A pcapng file with one packet of `ticks`, on an interface with this resolution.
fn pcapng(big: bool, resolution: Option<u8>, ticks: u64, packet: &[u8]) -> Vec<u8> {
    pcapng_with(big, resolution, ticks, packet, true)
}

/// The same. The end mark of the interface's options may be left out.
fn pcapng_with(
    big: bool,
    resolution: Option<u8>,
    ticks: u64,
    packet: &[u8],
    end_mark: bool,
) -> Vec<u8> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let block = |type_: u32, body: &[u8]| {
        let len = body.len() as u32 + 12;
        [&word(type_)[..], &word(len), body, &word(len)].concat()
    };
    let section = [&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
    let mut interface = [&half(101)[..], &half(0), &word(0)].concat();
    if let Some(resolution) = resolution {
        interface.extend([&half(9)[..], &half(1), &[resolution, 0, 0, 0]].concat());
        if end_mark {
            interface.extend([half(0), half(0)].concat());
        }
    }
    let mut enhanced = [
        word(0),
        word((ticks >> 32) as u32),
        word(ticks as u32),
        word(packet.len() as u32),
        word(packet.len() as u32),
    ]
    .concat();
    enhanced.extend(packet);
    enhanced.resize(enhanced.len().next_multiple_of(4), 0);
    // A block of an unknown kind lies between.
    [
        block(0x0a0d_0d0a, &section),
        block(1, &interface),
        block(0x0bad, &[1; 8]),
        block(6, &enhanced),
    ]
    .concat()
}

/// Returns the time and the number of TCP segments of a file.
fn read(file: Vec<u8>) -> (Vec<Option<i64>>, u64, Option<FileError>) {
    let mut frames = Frames::open(Cursor::new(file)).expect("a capture");
    let (mut analysis, mut times) = (Analysis::default(), Vec::new());
    let end = loop {
        match frames.next_frame() {
            Ok(Some(frame)) => {
                times.push(frame.time_ns);
                analysis.on_frame(&frame);
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    (times, analysis.counts().tcp_segments, end)
}

#[test]
fn pcap_has_two_byte_orders_and_two_units_of_time() {
    for big in [true, false] {
        let (micro, nano) = (0xa1b2_c3d4, 0xa1b2_3c4d);
        let (times, segments, _) = read(pcap(micro, big, 101, 250, &syn()));
        assert_eq!((times, segments), (vec![Some(1_000_250_000)], 1));
        let (times, segments, _) = read(pcap(nano, big, 101, 250, &syn()));
        assert_eq!((times, segments), (vec![Some(1_000_000_250)], 1));
    }
}

#[test]
fn pcapng_has_a_unit_of_time_for_each_interface() {
    // Without the option: microseconds. 9: nanoseconds. 0x8a: 2^-10 s, so 1,536 units are 1.5 s.
    let cases =
        [(None, 1_500_000), (Some(9), 1_500_000_000), (Some(6), 1_500_000), (Some(0x8a), 1_536)];
    for (resolution, ticks) in cases {
        for big in [true, false] {
            let (times, segments, end) = read(pcapng(big, resolution, ticks, &syn()));
            assert_eq!((times, segments), (vec![Some(1_500_000_000)], 1), "{resolution:?}");
            assert!(end.is_none());
        }
    }
}

#[test]
fn gzip_is_recognised_by_its_contents() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&pcap(0xa1b2_c3d4, false, 101, 0, &syn())).expect("memory");
    assert_eq!(read(encoder.finish().expect("memory")).1, 1);
}

#[test]
fn every_link_layer_is_removed() {
    let ip = syn();
    let ethernet = [&[0; 12][..], &[0x08, 0x00], &ip].concat();
    let two_tags = [&[0; 12][..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7, 0x08, 0x00], &ip].concat();
    let pppoe = [&[0; 12][..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0x00, 0x21], &ip].concat();
    let sll = [&[0; 14][..], &[0x08, 0x00], &ip].concat();
    let sll2 = [&[0x08, 0x00][..], &[0; 18], &ip].concat();
    let null = [&[2, 0, 0, 0][..], &ip].concat();
    let ppp = [&[0xff, 0x03, 0x00, 0x21][..], &ip].concat();
    let arp = [&[0; 12][..], &[0x08, 0x06], &ip].concat();
    let cases = [
        (1, ethernet, 1),
        (1, two_tags, 1),
        (1, pppoe, 1),
        (113, sll, 1),
        (276, sll2, 1),
        (0, null.clone(), 1),
        (108, null, 1),
        (9, ppp, 1),
        (101, ip.clone(), 1),
        (12, ip.clone(), 1),
        (228, ip, 1),
        (1, arp, 0),
    ];
    for (link_type, frame, segments) in cases {
        let file = pcap(0xa1b2_c3d4, false, link_type, 0, &frame);
        assert_eq!(read(file).1, segments, "link type {link_type}");
        // A frame may be cut anywhere, also within the link layer's header.
        for kept in 0..frame.len() {
            read(pcap(0xa1b2_c3d4, false, link_type, 0, &frame[..kept]));
        }
    }
}

#[test]
fn damaged_file_yields_the_segments_before_the_cut() {
    let whole = pcapng(false, None, 0, &syn());
    let twice = [&whole[..], &whole].concat();
    for cut in 1..whole.len() {
        let (_, segments, end) = read(twice[..whole.len() + cut].to_vec());
        assert_eq!(segments, 1, "cut after {cut} bytes");
        // Blocks of 28, 20 and 20 bytes come before that of the packet. Between two blocks the file is whole.
        let whole_blocks = [28, 48, 68].contains(&cut);
        assert_eq!(
            matches!(end, Some(FileError::Cut)),
            !whole_blocks,
            "cut after {cut} bytes: {end:?}"
        );
    }
    assert!(matches!(Frames::open(Cursor::new(Vec::new())), Err(FileError::Empty)));
    let text = b"#!/bin/sh\n".to_vec();
    assert!(matches!(Frames::open(Cursor::new(text)), Err(FileError::NotACapture(_))));
}

#[test]
fn options_need_no_end_mark() {
    // "opt_endofopt ... MUST NOT be relied on" (draft-ietf-opsawg-pcapng section 3.5).
    let file = pcapng_with(false, Some(9), 1_500_000_000, &syn(), false);
    let (times, segments, end) = read(file);
    assert_eq!((times, segments), (vec![Some(1_500_000_000)], 1));
    assert!(end.is_none());
}

#[test]
fn a_block_of_an_impossible_length_is_not_read() {
    let mut file = pcapng(false, None, 0, &syn());
    let block = [6u32.to_le_bytes(), 0x8000_0000u32.to_le_bytes()].concat();
    file.extend(block);
    assert!(matches!(read(file).2, Some(FileError::TooLong(0x8000_0000))));
}

#[test]
fn later_fragments_are_no_segments() {
    // IPv6 with a fragment header (RFC 8200 section 4.5): next header 6, offset 8 * 1, then 20 bytes.
    let mut packet = vec![0x60, 0, 0, 0, 0, 28, 44, 64];
    packet.extend([1; 32]);
    packet.extend([6, 0, 0, 8, 0, 0, 0, 1]);
    packet.extend([0x50; 20]);
    assert_eq!(read(pcap(0xa1b2_c3d4, false, 101, 0, &packet)).1, 0);
    packet[43] = 1;
    assert_eq!(
        read(pcap(0xa1b2_c3d4, false, 101, 0, &packet)).1,
        1,
        "the first one has the header"
    );
}
