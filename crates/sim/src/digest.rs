//! The digest of a run: its event log folded, then every table.

use anabranch_trace::{Column, Table};
use sha2::{Digest, Sha256};

/// Which optional tables a run has, besides those of the clients and their links. Runs without them keep
/// the digests that they had before these tables existed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionalTables {
    /// Background flows.
    pub(crate) cross_traffic: bool,
    /// Chunks and renditions.
    pub(crate) adaptive_playback: bool,
}

impl OptionalTables {
    fn include(self, table: &Table) -> bool {
        match table.name {
            "cross_traffic" | "cross_samples" => self.cross_traffic,
            "chunks" | "renditions" => self.adaptive_playback,
            _ => table.digested,
        }
    }
}

/// SHA-256 over the folded log of every packet's fate, the number of steps, and the tables.
pub(crate) fn digest(log: u64, steps: u64, tables: &[Table], optional: OptionalTables) -> String {
    let mut hash = Sha256::new();
    hash.update(log.to_le_bytes());
    hash.update(steps.to_le_bytes());
    for table in tables.iter().filter(|table| optional.include(table)) {
        hash.update(table.name.as_bytes());
        for (name, column) in
            table.columns.iter().filter(|(name, _)| !table.undigested_columns.contains(name))
        {
            hash.update(name.as_bytes());
            hash.update(fold(column).to_le_bytes());
        }
    }
    hash.finalize().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Adds a word to a hash that depends on the order of its words.
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// A column folded to one word, each value and its place counting.
fn fold(column: &Column) -> u64 {
    match column {
        Column::Bool(values) => values.iter().fold(0, |hash, v| mix(hash, u64::from(*v))),
        Column::Float(values) => values.iter().fold(0, |hash, v| mix(hash, v.to_bits())),
        Column::Int(values) => values.iter().fold(0, |hash, v| mix(hash, *v as u64)),
        Column::Text(values) => values.iter().fold(0, |hash, text| {
            text.bytes().fold(mix(hash, text.len() as u64), |hash, byte| mix(hash, u64::from(byte)))
        }),
    }
}
