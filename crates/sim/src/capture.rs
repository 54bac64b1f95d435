//! Writes the packets at the clients to a pcapng file, with one interface per path. Background flows are not
//! captured.

use std::io::Write;
use std::net::IpAddr;

use anabranch_units::Instant;
use anabranch_wire::{PcapngWriter, Segment};

/// A capture. It stores its first error and writes nothing after that.
pub(crate) struct Capture {
    writer: PcapngWriter<Box<dyn Write + Send>>,
    /// The time that is zero in the capture.
    begin: Instant,
    pub(crate) error: Option<std::io::Error>,
}

impl Capture {
    pub(crate) fn new(
        output: Box<dyn Write + Send>,
        paths: &[String],
        begin: Instant,
    ) -> std::io::Result<Self> {
        let writer = PcapngWriter::new(output, paths).map_err(std::io::Error::other)?;
        Ok(Self { writer, begin, error: None })
    }

    pub(crate) fn packet(
        &mut self,
        path: usize,
        now: Instant,
        source: IpAddr,
        destination: IpAddr,
        segment: &Segment,
    ) {
        if self.error.is_some() {
            return;
        }
        let at = Instant::ZERO + now.since(self.begin);
        if let Err(error) = self.writer.write(path, at, source, destination, segment) {
            self.error = Some(std::io::Error::other(error));
        }
    }
}
