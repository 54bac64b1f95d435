//! Reads any bytes as a capture file, and describes what was found.

#![no_main]

use std::io::Cursor;

use anabranch_capture::{Analysis, Frames};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(mut frames) = Frames::open(Cursor::new(data.to_vec())) else { return };
    let mut analysis = Analysis::default();
    while let Ok(Some(frame)) = frames.next_frame() {
        analysis.on_frame(&frame);
    }
    analysis.to_json();
    analysis.tables();
});
