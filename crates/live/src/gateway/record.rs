//! The record of a connection that has ended.

use std::fmt;
use std::net::SocketAddr;

use anabranch_mptcp::{FourTuple, SubflowSummary};
use anabranch_units::Duration;
use rustix::io::Errno;

use crate::errno::Named;

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Both sides closed, and each received all data.
    Finished,
    /// The client reset the connection or no longer answers.
    Client,
    /// No address of the origin accepted the connection.
    OriginRefused,
    /// The host had no port, descriptor or memory for a socket to the origin.
    NoSocket,
    /// The socket to the origin failed, or the client took too long to receive the rest of the response.
    OriginBroke,
    /// No byte left the gateway for the idle time.
    Idle,
    /// Memory was short. The connection held more than its share, and its bytes left too slowly.
    Memory,
    /// A new connection needed the slot. This client had sent nothing, had no progress, was slow, or was one
    /// of many clients of its source.
    GaveWay,
    /// The gateway ended before the connection did.
    Shutdown,
    /// The connection's scheduler or congestion controller failed.
    Plugin,
    /// The gateway produced a segment that cannot be encoded. This is a bug.
    Defect,
}

impl End {
    /// All reasons.
    pub(super) const ALL: [Self; 11] = [
        Self::Finished,
        Self::Client,
        Self::OriginRefused,
        Self::NoSocket,
        Self::OriginBroke,
        Self::Idle,
        Self::Memory,
        Self::GaveWay,
        Self::Shutdown,
        Self::Plugin,
        Self::Defect,
    ];

    /// Returns the name of the reason in the log and the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Client => "client-broke",
            Self::OriginRefused => "origin-refused",
            Self::NoSocket => "no-socket",
            Self::OriginBroke => "origin-broke",
            Self::Idle => "idle",
            Self::Memory => "memory",
            Self::GaveWay => "gave-way",
            Self::Shutdown => "shutdown",
            Self::Plugin => "plug-in-failed",
            Self::Defect => "defect",
        }
    }
}

/// The totals of one subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRecord {
    /// The addresses of the subflow.
    pub tuple: FourTuple,
    /// Whether the subflow joined the connection; false for its first subflow.
    pub joined: bool,
    /// Payload bytes that the client acknowledged.
    pub down: u64,
    /// Payload bytes that arrived from the client, including retransmissions.
    pub up: u64,
    /// Payload bytes that were retransmitted.
    pub retransmitted: u64,
    /// Segments that were retransmitted.
    pub retransmissions: u64,
}

impl PathRecord {
    /// Creates the record from the summary of a subflow and the bytes received on each subflow.
    pub(super) fn new(summary: &SubflowSummary, received: &[(FourTuple, u64)]) -> Self {
        let of_it = received.iter().filter(|(tuple, _)| *tuple == summary.tuple);
        Self {
            tuple: summary.tuple,
            joined: summary.ordinal > 0,
            down: summary.totals.bytes_acked,
            up: of_it.map(|(_, bytes)| bytes).sum(),
            retransmitted: summary.totals.bytes_retransmitted,
            retransmissions: summary.totals.retransmissions,
        }
    }
}

/// The record of an ended connection. `Display` formats it as a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The client's address on the first subflow.
    pub client: SocketAddr,
    /// The gateway's address on the first subflow.
    pub local: SocketAddr,
    /// Whether the connection began as MPTCP.
    pub multipath: bool,
    /// Whether the connection fell back to plain TCP.
    pub fell_back: bool,
    /// The duration of the connection.
    pub lasted: Duration,
    /// Bytes from the client that were passed to the origin.
    pub up: u64,
    /// Bytes from the origin that were passed to the client.
    pub down: u64,
    /// The reason for the end of the connection.
    pub end: End,
    /// The errno of the socket to the origin, if the socket failed.
    pub error: Option<i32>,
    /// The connection's subflows.
    pub paths: Vec<PathRecord>,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, local, end, up, down, error, .. } = self;
        let protocol = match (self.multipath, self.fell_back) {
            (true, true) => "mptcp-then-tcp",
            (true, false) => "mptcp",
            (false, true) => "tcp-after-fallback",
            (false, false) => "tcp",
        };
        let seconds = self.lasted.as_secs_f64();
        write!(f, "client={client} local={local} protocol={protocol} seconds={seconds:.3}")?;
        write!(f, " up={up} down={down} end={}", end.name())?;
        if let Some(number) = error {
            write!(f, " errno={}", Named(Errno::from_raw_os_error(*number)))?;
        }
        for path in &self.paths {
            let PathRecord { tuple, down, up, retransmitted, .. } = path;
            let FourTuple { local, remote } = tuple;
            write!(f, " path={local}-{remote},up={up},down={down},retransmitted={retransmitted}")?;
        }
        Ok(())
    }
}

/// Returns the record of a connection with one subflow.
#[cfg(test)]
pub(super) fn example() -> Record {
    let tuple =
        FourTuple { local: ([10, 9, 0, 1], 443).into(), remote: ([192, 0, 2, 7], 40_000).into() };
    let path =
        PathRecord { tuple, joined: false, down: 7, up: 8, retransmitted: 2, retransmissions: 1 };
    Record {
        client: tuple.remote,
        local: tuple.local,
        multipath: true,
        fell_back: false,
        lasted: Duration::from_millis(1234),
        up: 8,
        down: 7,
        end: End::Finished,
        error: None,
        paths: vec![path],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_all_fields_of_a_record() {
        let record = example();
        assert_eq!(
            record.to_string(),
            "client=192.0.2.7:40000 local=10.9.0.1:443 protocol=mptcp seconds=1.234 up=8 down=7 \
             end=finished path=10.9.0.1:443-192.0.2.7:40000,up=8,down=7,retransmitted=2"
        );
        let refused = Record { error: Some(111), end: End::OriginRefused, ..record.clone() };
        let text = refused.to_string();
        assert!(text.contains(" end=origin-refused errno=ECONNREFUSED path="), "{text}");
        let fell = Record { fell_back: true, multipath: false, paths: Vec::new(), ..record };
        assert!(fell.to_string().contains(" protocol=tcp-after-fallback "), "{fell}");
    }
}
