//! Captured frames, and the reasons why a file gives no more of them.

use std::io::{Chain, Cursor, Read};

use pcap_file::PcapError;

/// The reason why a file gives no more frames.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file does not begin like a capture.
    #[error("not a pcap or pcapng file: it begins with {0}")]
    NotACapture(String),
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file ends in the middle of a record.
    #[error("the file ends in the middle of a record")]
    Cut,
    /// A record states a length that none has.
    #[error("the file is damaged: a record of {0} bytes")]
    TooLong(u64),
    /// A part of the file is not valid.
    #[error("the file is damaged: {0}")]
    Damaged(String),
    /// The file cannot be read.
    #[error("{0}")]
    Read(std::io::Error),
}

impl From<PcapError> for FileError {
    fn from(error: PcapError) -> Self {
        match error {
            PcapError::IoError(error) => error.into(),
            PcapError::IncompleteBuffer => Self::Cut,
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<std::io::Error> for FileError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::Cut,
            // The decoder of gzip reports wrong bytes with these kinds.
            std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidData => {
                Self::Damaged(error.to_string())
            }
            _ => Self::Read(error),
        }
    }
}

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Time of the capture in nanoseconds since 1970, or `None` if the file has none.
    pub time_ns: Option<i64>,
    /// The link type, as registered for pcap (`LINKTYPE_...`).
    pub link_type: u32,
    /// Length on the wire in bytes.
    pub original_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// The source of a file's bytes, with the first four again, which were read to recognise the format.
pub(crate) type Source = Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>;
