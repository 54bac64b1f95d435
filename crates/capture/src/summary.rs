//! The contents of a capture as JSON. docs/guide/capture.md describes the keys.

use serde_json::{Map, Value, json};

use crate::analysis::{Analysis, Counts, Role};
use crate::connection::{Connection, Fallback, Signal, Signalled};
use crate::course::Course;
use crate::data_stream::DataStream;
use crate::half::Half;
use crate::round_trips::RoundTrips;
use crate::stream::{Direction, Side, Stream};

/// The most MPTCP connections, and the most TCP connections without MPTCP, that are described one by one. The others
/// are counted.
const MOST_DESCRIBED: usize = 1_000;

impl Analysis {
    /// Returns everything that was found, as JSON.
    pub fn to_json(&self) -> Value {
        let described = self.described();
        let streams: Vec<_> = described.iter().map(|number| self.stream_json(*number)).collect();
        let connections: Vec<_> = self
            .connections()
            .iter()
            .enumerate()
            .take(MOST_DESCRIBED)
            .map(|(number, one)| self.connection_json(number, one))
            .collect();
        let orphans: Map<_, _> = self
            .orphans()
            .iter()
            .take(MOST_DESCRIBED)
            .map(|(token, joins)| (format!("{token:08x}"), json!(joins)))
            .collect();
        json!({
            "counts": counts_json(self.counts()),
            "tcp_streams": self.streams().len(),
            "streams_not_described": self.streams().len() - described.len() - orphans_of(self.roles()),
            "mptcp_connections": self.connections().iter().filter(|one| !one.guessed).count(),
            "orphan_joins": self.orphans().values().sum::<u64>(),
            "orphan_tokens": orphans,
            "streams": streams,
            "connections": connections,
        })
    }

    /// Returns the numbers of the streams that are described, in ascending order: those of the first connections, and
    /// the first without MPTCP. Joins to unknown connections are only counted, so a flood of them hides nothing.
    pub(crate) fn described(&self) -> Vec<usize> {
        let mut plain = 0;
        (0..self.streams().len())
            .filter(|number| match self.roles()[*number] {
                Role::Orphan(_) => false,
                Role::Subflow { connection, .. } => connection < MOST_DESCRIBED,
                Role::Tcp => {
                    plain += 1;
                    plain <= MOST_DESCRIBED
                }
            })
            .collect()
    }

    fn stream_json(&self, number: usize) -> Value {
        let stream = &self.streams()[number];
        let (role, token) = match self.roles()[number] {
            Role::Tcp => (None, None),
            Role::Subflow { connection, .. } => (Some(connection), None),
            Role::Orphan(token) => (None, Some(format!("{token:08x}"))),
        };
        let first = self.oldest_ns();
        json!({
            "stream": number,
            "client": stream.client.to_string(),
            "server": stream.server.to_string(),
            "connection": role,
            "orphan_token": token,
            "syn_seen": stream.syns > 0,
            "syns": stream.syns,
            "syn_acks": stream.syn_acks,
            "syn_to_syn_ack_ms": stream.syn_to_syn_ack_ns.map(milliseconds),
            "syn_ack_to_ack_ms": stream.syn_ack_to_ack_ns.map(milliseconds),
            "syn_ack_s": stream.syn_ack_at.map(|time| seconds(time - first)),
            "begin_s": seconds(stream.first_ns - first),
            "duration_s": seconds(stream.last_ns - stream.first_ns),
            "idle_s": seconds(stream.idle_ns),
            "captured_at": stream.side().map(side_name),
            "to_server": half_json(first, stream, Direction::ToServer),
            "to_client": half_json(first, stream, Direction::ToClient),
        })
    }

    fn connection_json(&self, number: usize, connection: &Connection) -> Value {
        let first = self.oldest_ns();
        let token = |sender| connection.token(sender).map(|token| format!("{token:08x}"));
        let subflows: Vec<_> = connection
            .subflows
            .iter()
            .map(|subflow| {
                json!({
                    "stream": subflow.stream,
                    "from_server": subflow.from_server,
                    "backup": subflow.backup,
                    "syn_ack_hmac_valid": subflow.syn_ack_hmac_valid,
                    "ack_hmac_valid": subflow.ack_hmac_valid,
                })
            })
            .collect();
        let signals: Vec<_> =
            connection.signals.iter().map(|signalled| signal_json(signalled, first)).collect();
        json!({
            "connection": number,
            "version": connection.version,
            "client_token": token(Direction::ToServer),
            "server_token": token(Direction::ToClient),
            "both_keys_seen": connection.keys.iter().all(Option::is_some),
            "guessed": connection.guessed,
            "fallback": connection.fallback.map(fallback_name),
            "subflows": subflows,
            "signals": signals,
            "more_signals": connection.more_signals,
            "to_server": data_json(first, &connection.data[0], connection),
            "to_client": data_json(first, &connection.data[1], connection),
        })
    }
}

/// Returns the number of joins to unknown connections.
fn orphans_of(roles: &[Role]) -> usize {
    roles.iter().filter(|role| matches!(role, Role::Orphan(_))).count()
}

fn milliseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e6
}

fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn side_name(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

pub(crate) fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::ToServer => "to_server",
        Direction::ToClient => "to_client",
    }
}

fn fallback_name(fallback: Fallback) -> &'static str {
    match fallback {
        Fallback::NotInSynAck => "no MP_CAPABLE in the SYN/ACK",
        Fallback::NotInThirdPacket => "no MP_CAPABLE in the third packet",
        Fallback::InfiniteMapping => "infinite mapping",
        Fallback::Fail => "MP_FAIL",
    }
}

fn counts_json(counts: &Counts) -> Value {
    let duration = counts.first_ns.zip(counts.last_ns).map(|(first, last)| seconds(last - first));
    json!({
        "records": counts.records,
        "tcp_segments": counts.tcp_segments,
        "mptcp_segments": counts.mptcp_segments,
        "truncated_records": counts.truncated_records,
        "frames_over_1600": counts.long_frames,
        "link_types": counts.link_types,
        "mptcp_options": counts.options,
        "not_ip": counts.not_ip,
        "not_tcp": counts.not_tcp,
        "no_tcp_header": counts.no_header,
        "unknown_link_type": counts.unknown_link_type,
        "left_out": counts.left_out,
        "not_in_time_order": counts.out_of_time_order,
        "first_unix_s": counts.first_ns.map(seconds),
        "duration_s": duration,
    })
}

fn round_trips_json(round_trips: &RoundTrips) -> Value {
    json!({
        "count": round_trips.count,
        "min_ms": round_trips.min_ms(),
        "mean_ms": round_trips.mean_ms(),
        "median_ms": round_trips.quantile_ms(0.5),
        "p95_ms": round_trips.quantile_ms(0.95),
    })
}

fn course_json(course: &Course, first: i64) -> Value {
    json!({
        "bytes": course.bytes,
        "first_s": course.first_ns.map(|time| seconds(time - first)),
        "last_s": course.last_ns.map(|time| seconds(time - first)),
        "longest_pause_s": seconds(course.longest_pause_ns),
    })
}

fn half_json(first: i64, stream: &Stream, direction: Direction) -> Value {
    let half: &Half = &stream.halves[direction as usize];
    json!({
        "frames": half.frames,
        "data_frames": half.data_frames,
        "payload_bytes": half.payload_bytes,
        "unique_bytes": half.unique_bytes,
        "resent_bytes": half.resent_bytes,
        "skipped_bytes": half.skipped_bytes,
        "resent_frames": half.resent_frames,
        "longest_payload": half.longest_payload,
        "out_of_order_frames": half.out_of_order_frames,
        "unseen_bytes": half.unseen_bytes,
        "duplicate_sack_bytes": half.duplicate_sack_bytes,
        "zero_windows": half.zero_windows,
        "max_window_bytes": half.max_window_bytes,
        "ack_rtt": round_trips_json(&half.ack_round_trips),
        "echo_rtt": round_trips_json(&half.echo_round_trips),
        "in_order": course_json(&half.in_order, first),
        "acknowledged": course_json(&half.acknowledged, first),
        "fin": half.fin,
        "reset": half.reset,
    })
}

fn data_json(first: i64, data: &DataStream, connection: &Connection) -> Value {
    let by_stream: Map<_, _> = data
        .head_of_line_ns_by_stream
        .iter()
        .map(|(stream, &ns)| (stream.to_string(), json!(ns as f64 / 1e9)))
        .collect();
    let carried: Map<_, _> = connection
        .subflows
        .iter()
        .map(|subflow| (subflow.stream.to_string(), json!(data.bytes_of(subflow.stream))))
        .collect();
    json!({
        "mapped_bytes": data.mapped_bytes,
        "unmapped_bytes": data.unmapped_bytes,
        "unique_bytes": data.unique_bytes,
        "again_same_subflow_bytes": data.again_same_subflow_bytes,
        "reinjected_bytes": data.reinjected_bytes,
        "reinjected_frames": data.reinjected_frames,
        "out_of_order_frames": data.out_of_order_frames,
        "out_of_order_after_subflow": data.out_of_order_after_subflow,
        "duplicates_after_subflow": data.duplicates_after_subflow,
        "in_order_bytes": data.in_order_bytes,
        "unseen_bytes": data.unseen_bytes,
        "head_of_line_waits": data.head_of_line_waits,
        "head_of_line_s": data.head_of_line_ns as f64 / 1e9,
        "longest_head_of_line_s": data.longest_head_of_line_ns as f64 / 1e9,
        "head_of_line_s_by_stream": by_stream,
        "bytes_by_stream": carried,
        "in_order": course_json(&data.in_order, first),
        "acknowledged": course_json(&data.acknowledged, first),
        "data_fin": data.data_fin,
    })
}

fn signal_json(signalled: &Signalled, first: i64) -> Value {
    let mut value = match &signalled.signal {
        Signal::AddAddress { id, address, port } => {
            json!({"signal": "ADD_ADDR", "id": id, "address": address.to_string(), "port": port})
        }
        Signal::AddAddressEcho { id } => json!({"signal": "ADD_ADDR echo", "id": id}),
        Signal::RemoveAddress { ids } => json!({"signal": "REMOVE_ADDR", "ids": ids}),
        Signal::Priority { backup } => json!({"signal": "MP_PRIO", "backup": backup}),
        Signal::Fail => json!({"signal": "MP_FAIL"}),
        Signal::FastClose => json!({"signal": "MP_FASTCLOSE"}),
        Signal::Reset { reason } => json!({"signal": "MP_TCPRST", "reason": reason}),
    };
    value["t_s"] = json!(seconds(signalled.time_ns - first));
    value["stream"] = json!(signalled.stream);
    value["direction"] = json!(direction_name(signalled.direction));
    value
}
