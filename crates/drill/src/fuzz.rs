//! Fuzzing.
