//! The fuzz target of `anabranch_drill::fuzz::endpoint`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| anabranch_drill::fuzz::endpoint(data));
