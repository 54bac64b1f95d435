//! Packets to a pcapng file, as they pass the client: one interface a path. Cross traffic passes no
//! client.

use std::io::Write;
use std::net::IpAddr;

use anabranch_units::Instant;
use anabranch_wire::{PcapngWriter, Segment};

/// A capture that remembers its first error.
pub(crate) struct Capture {
    writer: PcapngWriter<Box<dyn Write + Send>>,
    /// From when its times count.
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
