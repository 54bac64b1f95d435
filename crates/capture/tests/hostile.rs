//! No input makes the reader panic.

use std::{fs, io::Cursor, path::PathBuf};

use anabranch_capture::{Analysis, Frame, Frames};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_frame_is_read_or_skipped(
        link_type in prop::sample::select(vec![0, 1, 9, 12, 101, 108, 113, 228, 229, 276, 999]),
        frames in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..160)), 1..20),
    ) {
        let mut analysis = Analysis::default();
        for (number, (original_len, data)) in frames.iter().enumerate() {
            let time_ns = [None, Some(i64::MIN), Some(i64::MAX), Some(i64::from(*original_len))][number % 4];
            analysis.on_frame(&Frame { time_ns, link_type, original_len: *original_len, data });
        }
        analysis.to_json();
        analysis.tables();
    }

    /// Valid IPv4 and TCP headers with everything else at random: sequence numbers, options and payloads meet.
    #[test]
    fn any_segments_of_one_connection_are_taken(
        segments in prop::collection::vec(
            (any::<bool>(), any::<u8>(), any::<[u8; 8]>(), prop::collection::vec(any::<u8>(), 0..40), 0u16..2_000, 0u8..4),
            1..60,
        ),
    ) {
        let mut analysis = Analysis::default();
        for (number, (up, flags, numbers, options, payload, magnitude)) in segments.iter().enumerate() {
            let options_len = options.len() / 4 * 4;
            let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0];
            let (from, to) = if *up { (1, 2) } else { (2, 1) };
            packet.extend([10, 0, 0, from, 10, 0, 0, to, 0, from, 0, to]);
            // Sequence numbers are small, so that segments overlap, or arbitrary.
            let mut numbers = *numbers;
            if *magnitude > 0 {
                numbers[..2].fill(0);
                numbers[4..6].fill(0);
            }
            packet.extend(numbers);
            packet.extend([((20 + options_len) as u8 / 4) << 4, *flags, 0, 9, 0, 0, 0, 0]);
            packet.extend(&options[..options_len]);
            let total = packet.len() as u16 + payload;
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            let time_ns = Some(number as i64 * 7_000_000);
            analysis.on_frame(&Frame { time_ns, link_type: 101, original_len: u32::from(total), data: &packet });
        }
        prop_assert_eq!(analysis.counts().tcp_segments, segments.len() as u64);
        analysis.to_json();
    }

    #[test]
    fn any_file_ends(start in prop::sample::select(vec![0xa1b2_c3d4u32, 0x4d3c_b2a1, 0x0a0d_0d0a, 0x1f8b_0800]),
                     rest in prop::collection::vec(any::<u8>(), 0..400)) {
        let file = [&start.to_be_bytes()[..], &rest].concat();
        if let Ok(mut frames) = Frames::open(Cursor::new(file)) {
            let mut analysis = Analysis::default();
            while let Ok(Some(frame)) = frames.next_frame() {
                analysis.on_frame(&frame);
            }
        }
    }
}

#[test]
fn the_corpus_of_the_fuzz_target_is_read() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/capture");
    let mut with_segments = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        println!("{}", path.display());
        let Ok(mut frames) = Frames::open(Cursor::new(fs::read(&path).expect("a file"))) else {
            continue;
        };
        let mut analysis = Analysis::default();
        while let Ok(Some(frame)) = frames.next_frame() {
            analysis.on_frame(&frame);
        }
        analysis.to_json();
        analysis.tables();
        with_segments += usize::from(analysis.counts().tcp_segments > 0);
    }
    // The seeds alone (`fuzz/seeds.py`) are 27 files.
    assert!(with_segments >= 27, "{with_segments} files with segments");
}
