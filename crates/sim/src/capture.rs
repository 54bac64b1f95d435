//! Writes the packets at the clients or at the server to a pcapng file, with one interface per path. Background flows are
//! not captured.

use std::io::Write;
use std::net::IpAddr;

use anabranch_units::{Duration, Instant};
use anabranch_wire::{PcapngWriter, Segment};

/// The host at which packets are captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CapturePoint {
    /// Every client.
    #[default]
    Client,
    /// The server.
    Server,
}

/// A capture file to write.
pub struct CaptureFile {
    /// The bytes of the file.
    pub output: Box<dyn Write + Send>,
    /// The host.
    pub point: CapturePoint,
    /// The start of the simulation since 1970.
    pub start: Duration,
}

impl CaptureFile {
    /// Returns a capture at the client whose time begins in 1970.
    pub fn new(output: Box<dyn Write + Send>) -> Self {
        Self { output, point: CapturePoint::Client, start: Duration::ZERO }
    }
}

/// A capture. It stores its first error and writes nothing after that.
pub(crate) struct Capture {
    writer: PcapngWriter<Box<dyn Write + Send>>,
    point: CapturePoint,
    /// The time that is zero in the capture.
    begin: Instant,
    start: Duration,
    pub(crate) error: Option<std::io::Error>,
}

impl Capture {
    pub(crate) fn new(
        file: CaptureFile,
        paths: &[String],
        begin: Instant,
    ) -> std::io::Result<Self> {
        let writer = PcapngWriter::new(file.output, paths).map_err(std::io::Error::other)?;
        Ok(Self { writer, point: file.point, begin, start: file.start, error: None })
    }

    /// Returns whether packets are captured that leave a host toward the client (`down`) or the server.
    pub(crate) fn sees_departure(&self, down: bool) -> bool {
        (self.point == CapturePoint::Server) == down
    }

    /// Returns whether packets are captured that arrive at the client (`down`) or at the server.
    pub(crate) fn sees_arrival(&self, down: bool) -> bool {
        !self.sees_departure(down)
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
        let at = Instant::ZERO + self.start + now.since(self.begin);
        if let Err(error) = self.writer.write(path, at, source, destination, segment) {
            self.error = Some(std::io::Error::other(error));
        }
    }
}
