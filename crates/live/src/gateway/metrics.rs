//! The counters of the gateway, and their page in the text format of Prometheus, version 0.0.4.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::net::IpAddr;

use rustix::io::Errno;

use super::admission::{Admission, Refusal};
use super::log::LogCounts;
use super::record::{End, PathRecord, Record};
use super::shares::Shares;
use super::subflows::{Group, Groups, Sums};
use crate::errno::Named;

/// The totals of all subflows at one address of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AddressTotals {
    down: u64,
    up: u64,
    retransmitted: u64,
    retransmissions: u64,
}

impl AddressTotals {
    fn add(&mut self, path: &PathRecord) {
        self.down += path.down;
        self.up += path.up;
        self.retransmitted += path.retransmitted;
        self.retransmissions += path.retransmissions;
    }
}

/// The gateway's counters.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    /// The number of served connections: over MPTCP, and over TCP.
    pub(super) accepted: [u64; 2],
    ended: BTreeMap<End, u64>,
    /// Bytes relayed by ended connections: from clients, and from the origin.
    relayed: [u64; 2],
    by_address: BTreeMap<IpAddr, AddressTotals>,
    /// Payload bytes that clients acknowledged on subflows of ended connections.
    delivered: BTreeMap<Group, u64>,
    /// Connections that fell back to plain TCP.
    pub(super) fallbacks: u64,
    /// Subflows that joined a connection.
    pub(super) joined: u64,
    /// Packets read from the device, and packets written to it.
    pub(super) packets: [u64; 2],
    /// The number of errors of sockets to the origin, by errno.
    origin_errors: BTreeMap<i32, u64>,
}

/// The current state of the gateway, for the page.
pub(super) struct Moment<'a> {
    /// The number of connections served now: over MPTCP, and over TCP.
    pub(super) open: [u64; 2],
    /// The number of incomplete handshakes.
    pub(super) half_open: u64,
    /// The number of handshakes that were not completed in time.
    pub(super) half_open_expired: u64,
    /// Bytes relayed by open connections: from clients, and from the origin.
    pub(super) relayed: [u64; 2],
    /// The totals of each subflow of an open connection.
    pub(super) paths: Vec<PathRecord>,
    /// The present state of these subflows.
    pub(super) subflows: Groups,
    /// The slots, and the numbers of refusals.
    pub(super) admission: &'a Admission,
    /// The memory held for connections, and its division.
    pub(super) shares: &'a Shares,
    /// The number of packets that the kernel did not accept.
    pub(super) refused_packets: u64,
    /// Whether one system call writes many packets.
    pub(super) io_uring: bool,
    /// Whether the gateway accepts no further connections.
    pub(super) closing: bool,
    /// The numbers of written and dropped log lines.
    pub(super) log: LogCounts,
}

/// A metric's name, its help and its value.
type Summed = (&'static str, &'static str, fn(&Sums) -> u64);

const PROTOCOLS: [&str; 2] = ["mptcp", "tcp"];
const DIRECTIONS: [&str; 2] = ["from_client", "to_client"];

impl Metrics {
    /// Counts an ended connection.
    pub(super) fn note_end(&mut self, record: &Record) {
        *self.ended.entry(record.end).or_default() += 1;
        self.relayed[0] += record.up;
        self.relayed[1] += record.down;
        for path in &record.paths {
            self.by_address.entry(path.tuple.local.ip()).or_default().add(path);
            *self.delivered.entry(group(path)).or_default() += path.down;
        }
    }

    /// Counts an error of a socket to the origin.
    pub(super) fn note_origin_error(&mut self, error: Errno) {
        *self.origin_errors.entry(error.raw_os_error()).or_default() += 1;
    }

    /// Returns the page as text.
    pub(super) fn page(&self, moment: &Moment<'_>) -> String {
        let mut page = Page::default();
        page.gauge("connections", "Connections that are served.");
        page.rows("connections", "protocol", PROTOCOLS.into_iter().zip(moment.open));
        page.counter("connections_total", "Connections that were served since the start.");
        page.rows("connections_total", "protocol", PROTOCOLS.into_iter().zip(self.accepted));
        page.counter("connections_ended_total", "Connections that have ended, by reason.");
        let ended = End::ALL.map(|end| (end.name(), self.ended.get(&end).copied().unwrap_or(0)));
        page.rows("connections_ended_total", "reason", ended);
        page.counter("origin_errors_total", "Errors of sockets to the origin, by errno.");
        let errors = self.origin_errors.iter();
        let errors =
            errors.map(|(number, times)| (Named(Errno::from_raw_os_error(*number)), *times));
        page.rows("origin_errors_total", "errno", errors);
        page.counter("refused_total", "Connections and packets that were refused, by reason.");
        let refused = Refusal::ALL.map(|it| {
            let times = match it {
                Refusal::HalfOpen => moment.half_open_expired,
                _ => moment.admission.refused(it),
            };
            (it.name(), times)
        });
        page.rows("refused_total", "reason", refused);
        page.gauge("half_open_connections", "Handshakes that are not complete.");
        page.row("half_open_connections", moment.half_open);
        page.gauge("held_bytes", "Bytes that connections hold in their buffers.");
        page.row("held_bytes", moment.shares.held());
        page.gauge("memory_limit_bytes", "Bytes that connections may hold together.");
        page.row("memory_limit_bytes", moment.shares.limit());
        page.gauge("memory_short", "1 while memory is short and divided into shares.");
        page.row("memory_short", u64::from(moment.shares.is_short()));
        page.gauge(
            "paused_connections",
            "Connections above their share, whose origin is not read.",
        );
        page.row("paused_connections", moment.shares.paused() as u64);
        page.gauge("closing", "1 once the gateway accepts no further connections.");
        page.row("closing", u64::from(moment.closing));
        page.counter("relayed_bytes_total", "Bytes passed between clients and the origin.");
        let relayed = [0, 1].map(|way: usize| self.relayed[way] + moment.relayed[way]);
        page.rows("relayed_bytes_total", "direction", DIRECTIONS.into_iter().zip(relayed));
        page.counter("fallbacks_total", "Connections that fell back to plain TCP.");
        page.row("fallbacks_total", self.fallbacks);
        page.counter("joined_subflows_total", "Subflows that joined a connection.");
        page.row("joined_subflows_total", self.joined);
        page.counter("packets_total", "Packets of the device.");
        page.rows("packets_total", "direction", DIRECTIONS.into_iter().zip(self.packets));
        page.counter("packets_refused_total", "Packets that the kernel refused.");
        page.row("packets_refused_total", moment.refused_packets);
        page.gauge("io_uring", "1 while one system call (io_uring) writes many packets.");
        page.row("io_uring", u64::from(moment.io_uring));
        page.counter("log_lines_total", "Log lines, by outcome.");
        let LogCounts { written, dropped } = moment.log;
        page.rows("log_lines_total", "outcome", [("written", written), ("dropped", dropped)]);
        self.paths(moment, &mut page);
        page.text
    }

    fn paths(&self, moment: &Moment<'_>, page: &mut Page) {
        let mut totals = self.by_address.clone();
        for path in &moment.paths {
            totals.entry(path.tuple.local.ip()).or_default().add(path);
        }
        page.counter(
            "subflow_bytes_total",
            "Payload bytes of subflows, by address of the gateway.",
        );
        for (address, totals) in &totals {
            for (direction, bytes) in DIRECTIONS.into_iter().zip([totals.up, totals.down]) {
                let labels = format!("address=\"{address}\",direction=\"{direction}\"");
                page.labelled("subflow_bytes_total", &labels, bytes);
            }
        }
        page.counter("retransmissions_total", "Retransmitted segments, by address of the gateway.");
        let again = totals.iter().map(|(address, totals)| (address, totals.retransmissions));
        page.rows("retransmissions_total", "address", again);
        page.counter(
            "retransmitted_bytes_total",
            "Retransmitted payload bytes, by address of the gateway.",
        );
        let again = totals.iter().map(|(address, totals)| (address, totals.retransmitted));
        page.rows("retransmitted_bytes_total", "address", again);
        self.subflows(moment, page);
    }

    /// Writes the present state of subflows, by address of the gateway and by role.
    fn subflows(&self, moment: &Moment<'_>, page: &mut Page) {
        let mut delivered = self.delivered.clone();
        for path in &moment.paths {
            *delivered.entry(group(path)).or_default() += path.down;
        }
        page.counter(
            "delivered_bytes_total",
            "Payload bytes that clients acknowledged, by address and role (first or joined subflows).",
        );
        for (group, bytes) in &delivered {
            page.labelled("delivered_bytes_total", &group.to_string(), *bytes);
        }
        page.gauge("delivered_share", "Share of these bytes, from 0 to 1.");
        let all = delivered.values().sum::<u64>().max(1) as f64;
        for (group, bytes) in &delivered {
            page.labelled("delivered_share", &group.to_string(), *bytes as f64 / all);
        }
        let sums: [Summed; 4] = [
            ("subflows", "Established subflows.", |it| it.subflows),
            ("cwnd_segments", "Sum of the congestion windows.", |it| it.cwnd_segments),
            ("in_flight_segments", "Segments in flight.", |it| it.in_flight_segments),
            (
                "delivery_rate_bits_per_second",
                "Sum of the delivery rates that the gateway estimates.",
                |it| it.delivery_rate_bps,
            ),
        ];
        for (name, help, of) in sums {
            page.gauge(name, help);
            for (group, sums) in &moment.subflows {
                page.labelled(name, &group.to_string(), of(sums));
            }
        }
        page.gauge("srtt_seconds", "Mean of the smoothed RTTs of established subflows.");
        for (group, sums) in &moment.subflows {
            if let Some(srtt_s) = sums.srtt_s() {
                page.labelled("srtt_seconds", &group.to_string(), srtt_s);
            }
        }
    }
}

/// Returns the group of a subflow.
fn group(path: &PathRecord) -> Group {
    Group { address: path.tuple.local.ip(), joined: path.joined }
}

/// A page that is being written.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let name = format!("anabranch_gateway_{name}");
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn gauge(&mut self, name: &str, help: &str) {
        self.head(name, "gauge", help);
    }

    fn counter(&mut self, name: &str, help: &str) {
        self.head(name, "counter", help);
    }

    fn row(&mut self, name: &str, value: u64) {
        let _ = writeln!(self.text, "anabranch_gateway_{name} {value}");
    }

    fn labelled(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.text, "anabranch_gateway_{name}{{{labels}}} {value}");
    }

    fn rows<L: Display>(
        &mut self,
        name: &str,
        label: &str,
        rows: impl IntoIterator<Item = (L, u64)>,
    ) {
        for (value_of_label, value) in rows {
            self.labelled(name, &format!("{label}=\"{value_of_label}\""), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::admission::Limits;
    use super::super::record::example;
    use super::super::subflows;
    use super::*;

    #[test]
    fn ended_and_open_connections_are_counted_together() {
        let record = Record { end: End::Idle, ..example() };
        let mut metrics = Metrics {
            accepted: [2, 0],
            fallbacks: 11,
            joined: 12,
            packets: [13, 14],
            ..Metrics::default()
        };
        metrics.note_end(&record);
        metrics.note_origin_error(Errno::CONNREFUSED);
        metrics.note_origin_error(Errno::CONNREFUSED);
        let mut admission =
            Admission::new(Limits { connections: 1, per_source: 1, per_site: 1, memory: 7 });
        admission.refuse(Refusal::Source);
        let shares = Shares::new(7);
        let page = metrics.page(&Moment {
            open: [1, 0],
            half_open: 5,
            half_open_expired: 6,
            relayed: [100, 200],
            paths: record.paths.clone(),
            subflows: subflows::example(),
            admission: &admission,
            shares: &shares,
            refused_packets: 9,
            io_uring: true,
            closing: true,
            log: LogCounts { written: 3, dropped: 4 },
        });
        for line in [
            "# TYPE anabranch_gateway_connections gauge",
            "anabranch_gateway_connections{protocol=\"mptcp\"} 1",
            "anabranch_gateway_connections_total{protocol=\"mptcp\"} 2",
            "anabranch_gateway_connections_ended_total{reason=\"idle\"} 1",
            "anabranch_gateway_connections_ended_total{reason=\"finished\"} 0",
            "anabranch_gateway_refused_total{reason=\"source\"} 1",
            "anabranch_gateway_refused_total{reason=\"half-open\"} 6",
            "anabranch_gateway_half_open_connections 5",
            "anabranch_gateway_memory_limit_bytes 7",
            "anabranch_gateway_memory_short 0",
            "anabranch_gateway_paused_connections 0",
            "anabranch_gateway_io_uring 1",
            "anabranch_gateway_log_lines_total{outcome=\"written\"} 3",
            "anabranch_gateway_log_lines_total{outcome=\"dropped\"} 4",
            "anabranch_gateway_relayed_bytes_total{direction=\"from_client\"} 108",
            "anabranch_gateway_relayed_bytes_total{direction=\"to_client\"} 207",
            "anabranch_gateway_subflow_bytes_total{address=\"10.9.0.1\",direction=\"to_client\"} 14",
            "anabranch_gateway_subflow_bytes_total{address=\"10.9.0.1\",direction=\"from_client\"} 16",
            "anabranch_gateway_retransmissions_total{address=\"10.9.0.1\"} 2",
            // The ended connection's subflow has 2 bytes, and the open one's has 2 bytes.
            "anabranch_gateway_retransmitted_bytes_total{address=\"10.9.0.1\"} 4",
            // 7 bytes of the ended connection's first subflow, and 7 of the open one's.
            "anabranch_gateway_delivered_bytes_total{address=\"10.9.0.1\",role=\"first\"} 14",
            "anabranch_gateway_delivered_share{address=\"10.9.0.1\",role=\"first\"} 1",
            "anabranch_gateway_subflows{address=\"10.9.0.1\",role=\"first\"} 3",
            "anabranch_gateway_subflows{address=\"10.9.0.1\",role=\"joined\"} 1",
            "anabranch_gateway_cwnd_segments{address=\"10.9.0.1\",role=\"first\"} 30",
            "anabranch_gateway_in_flight_segments{address=\"10.9.0.1\",role=\"joined\"} 20",
            "anabranch_gateway_delivery_rate_bits_per_second{address=\"10.9.0.1\",role=\"joined\"} 8000000",
            // 60 ms over the two subflows that have a measurement.
            "anabranch_gateway_srtt_seconds{address=\"10.9.0.1\",role=\"first\"} 0.03",
            "anabranch_gateway_origin_errors_total{errno=\"ECONNREFUSED\"} 2",
            "anabranch_gateway_fallbacks_total 11",
            "anabranch_gateway_joined_subflows_total 12",
            "anabranch_gateway_packets_total{direction=\"from_client\"} 13",
            "anabranch_gateway_packets_total{direction=\"to_client\"} 14",
            "anabranch_gateway_packets_refused_total 9",
            "anabranch_gateway_closing 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
        }
        // The type of a metric precedes its first value.
        let mut known = Vec::new();
        for line in page.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(rest) => known.push(rest.split(' ').next().unwrap().to_owned()),
                None if line.starts_with('#') => {}
                None => assert!(line.starts_with(known.last().unwrap().as_str()), "{line}"),
            }
        }
    }
}
