//! The digest of a run: a hash of its event log and of its tables.

use anabranch_trace::{Column, Table};
use sha2::{Digest, Sha256};

/// The optional tables of a run, which not every run has. A run without them keeps the digest that it had
/// before these tables existed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionalTables {
    /// The tables of background flows.
    pub(crate) cross_traffic: bool,
    /// The tables of chunks and renditions.
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

/// Returns the SHA-256 of the log's hash, the number of steps, and the tables. The log contains the fate of
/// every packet.
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

/// Adds a word to a hash. The hash depends on the order of the words.
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// Hashes a column to one word. The hash depends on the order of the values.
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
