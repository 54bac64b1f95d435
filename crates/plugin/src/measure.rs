//! Parameters that are whole numbers with a unit, such as bytes or nanoseconds.

/// A parameter that is a whole number. A plug-in declares it as a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The key.
    pub key: &'static str,
    /// The unit of the value.
    pub unit: Unit,
    /// The default value.
    pub default: u64,
    /// The smallest and the largest permitted value. Both are below 2^53.
    pub range: (u64, u64),
    /// The meaning in a few words.
    pub meaning: &'static str,
}

/// The unit of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of items.
    Count,
    /// Decibels.
    Decibels,
    /// A switch, 0 or 1.
    Flag,
    /// Bits per second, above zero.
    Rate,
    /// A fraction, from 0 to 1.
    Share,
    /// Bytes.
    Size,
    /// Nanoseconds.
    Time,
    /// Megahertz.
    Width,
}

impl Unit {
    /// Returns the name in JSON and in the scenario format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Decibels => "decibels",
            Self::Flag => "flag",
            Self::Rate => "rate",
            Self::Share => "share",
            Self::Size => "size",
            Self::Time => "time",
            Self::Width => "width",
        }
    }
}
