//! What is told of a connection that is over.

use std::fmt;
use std::net::SocketAddr;

use anabranch_transport::{FourTuple, SubflowSummary};
use anabranch_units::Duration;
use rustix::io::Errno;

use crate::errno::Named;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Both sides had finished, and had all of each other's bytes.
    Finished,
    /// The client broke off, or is not heard of any more.
    Client,
    /// No address of the origin could be connected.
    OriginRefused,
    /// The host had no port or descriptor for a socket to the origin.
    NoSocket,
    /// The origin broke off.
    OriginBroke,
    /// Nothing moved for as long as the idle time.
    Idle,
    /// Memory was short, the connection held more than its share, and its bytes did not leave.
    Memory,
    /// Another client needed the slot, and this client had sent nothing or the connection stood still.
    GaveWay,
    /// The gateway ended before it did.
    Shutdown,
    /// Its scheduler or controller failed.
    Plugin,
    /// A defect of the gateway: it wanted to send what cannot stand on the wire.
    Defect,
}

impl End {
    /// Every reason.
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

    /// Its name in the log and the metrics.
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

/// What a subflow carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRecord {
    /// Its addresses.
    pub tuple: FourTuple,
    /// Bytes of payload that its client acknowledged.
    pub down: u64,
    /// Bytes of payload that came from its client, repetitions included.
    pub up: u64,
    /// Bytes of payload that were sent again.
    pub retransmitted: u64,
    /// Segments that were sent again.
    pub retransmissions: u64,
}

impl PathRecord {
    /// What a subflow tells of itself, and what was counted of what it brought.
    pub(super) fn new(summary: &SubflowSummary, received: &[(FourTuple, u64)]) -> Self {
        let of_it = received.iter().filter(|(tuple, _)| *tuple == summary.tuple);
        Self {
            tuple: summary.tuple,
            down: summary.totals.bytes_acked,
            up: of_it.map(|(_, bytes)| bytes).sum(),
            retransmitted: summary.totals.bytes_retransmitted,
            retransmissions: summary.totals.retransmissions,
        }
    }
}

/// A connection that is over; its text is a line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The client's address, of the subflow that it began with.
    pub client: SocketAddr,
    /// Ours.
    pub local: SocketAddr,
    /// It began as MPTCP.
    pub multipath: bool,
    /// It went on as plain TCP.
    pub fell_back: bool,
    /// How long it lasted.
    pub lasted: Duration,
    /// Bytes of the client that the origin was given.
    pub up: u64,
    /// Bytes of the origin that the client was given.
    pub down: u64,
    /// Why it ended.
    pub end: End,
    /// The error (errno) of the socket to the origin, if it failed.
    pub error: Option<i32>,
    /// Its subflows.
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

/// A connection that one subflow carried.
#[cfg(test)]
pub(super) fn example() -> Record {
    let tuple =
        FourTuple { local: ([10, 9, 0, 1], 443).into(), remote: ([192, 0, 2, 7], 40_000).into() };
    let path = PathRecord { tuple, down: 7, up: 8, retransmitted: 2, retransmissions: 1 };
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
    fn a_line_has_all_that_a_connection_was() {
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
