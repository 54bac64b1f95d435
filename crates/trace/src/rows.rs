//! The tables of a trace, one row struct each. docs/reference/trace.md describes the columns.

use crate::{Column, Table, Words};

/// Declares a table: its row struct, its columns while rows are added, and the finished table.
///
/// The mark `@undigested` before a column or before a table's name excludes it from a run's digest. Columns
/// and tables that were added after a release carry this mark, so that earlier runs keep their digests.
macro_rules! rows {
    ($(#[$doc:meta])* $row:ident $(<$life:lifetime>)?, $rows:ident, $(@$table_mark:ident)? $table:literal {
        $($(@$mark:ident)? $field:ident : $kind:ident ($cell:ty)),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[expect(missing_docs, reason = "docs/reference/trace.md says what each column means")]
        pub struct $row $(<$life>)? {
            $(pub $field: $cell,)*
        }

        #[doc = concat!("The rows of table `", $table, "`, by column.")]
        #[derive(Debug, Default)]
        pub struct $rows {
            $($field: rows!(@values $kind),)*
        }

        impl $rows {
            /// Adds a row.
            pub fn push(&mut self, row: $row) {
                $(self.$field.push(row.$field);)*
            }

            fn into_table(self) -> Table {
                Table {
                    name: $table,
                    digested: rows!(@digested $($table_mark)?),
                    undigested_columns: [$((stringify!($field), rows!(@digested $($mark)?))),*]
                        .into_iter()
                        .filter_map(|(name, digested)| (!digested).then_some(name))
                        .collect(),
                    columns: vec![$((stringify!($field), Column::$kind(self.$field))),*],
                }
            }
        }
    };
    (@digested) => { true };
    (@digested undigested) => { false };
    (@values Bool) => { Vec<bool> };
    (@values Float) => { Vec<f64> };
    (@values Int) => { Vec<i64> };
    (@values Text) => { Words };
}

rows!(
    /// One client.
    ConnectionRow, ConnectionRows, "connections" {
        client: Int(i64), connect_s: Float(f64), duration_s: Float(f64), bytes_read: Int(i64),
        reinjected_bytes: Int(i64), max_read_gap_s: Float(f64), refused_packets: Int(i64),
        fallback: Bool(bool), finished: Bool(bool), @undigested planned_s: Float(f64),
    }
);

rows!(
    /// A subflow at the server.
    SubflowRow<'a>, SubflowRows, "subflows" {
        client: Int(i64), subflow: Int(i64), path: Text(&'a str), established: Bool(bool),
        bytes: Int(i64), bytes_sent: Int(i64), retransmissions: Int(i64),
        bytes_retransmitted: Int(i64), data_segments: Int(i64), timeouts: Int(i64), undos: Int(i64),
        @undigested penalties: Int(i64), @undigested delivered_ce: Int(i64), @undigested ecn_reductions: Int(i64),
    }
);

rows!(
    /// The state of a subflow at the server, every 100 ms.
    SampleRow<'a>, SampleRows, "samples" {
        t_s: Float(f64), client: Int(i64), subflow: Int(i64), path: Text(&'a str),
        cwnd_segments: Int(i64), ssthresh_segments: Float(f64), in_flight_segments: Int(i64),
        srtt_ms: Float(f64), min_rtt_ms: Float(f64), delivery_rate_mbps: Float(f64),
        pacing_rate_mbps: Float(f64), bytes_acked: Int(i64), unsent_bytes: Int(i64),
        retransmissions: Int(i64), state: Text(&'a str),
    }
);

rows!(
    /// The state of a client, every 100 ms.
    PlayerRow, PlayerRows, "player" {
        t_s: Float(f64), client: Int(i64), bytes_read: Int(i64), buffer_s: Float(f64),
        buffer_bytes: Int(i64),
    }
);

rows!(
    /// A pause between two reads of a client.
    GapRow, GapRows, "gaps" {
        client: Int(i64), t_s: Float(f64), gap_s: Float(f64),
    }
);

rows!(
    /// A read of a client that returned bytes different from those sent.
    WrongReadRow, WrongReadRows, @undigested "wrong_reads" {
        client: Int(i64), t_s: Float(f64), position: Int(i64), wrong_bytes: Int(i64),
    }
);

rows!(
    /// A picture of the film.
    FrameRow<'a>, FrameRows, "frames" {
        client: Int(i64), index: Int(i64), pts_s: Float(f64), kind: Text(&'a str), size: Int(i64),
        fate: Text(&'a str), why: Text(&'a str), due_s: Float(f64), shown_s: Float(f64),
    }
);

rows!(
    /// A playback event.
    PlaybackRow<'a>, PlaybackRows, "playback" {
        client: Int(i64), t_s: Float(f64), event: Text(&'a str), pts_s: Float(f64),
        delay_ms: Float(f64),
    }
);

rows!(
    /// An HTTP request.
    RequestRow<'a>, RequestRows, "requests" {
        client: Int(i64), id: Int(i64), t_s: Float(f64), resource: Text(&'a str),
        first_byte_s: Float(f64), done_s: Float(f64), bytes: Int(i64),
    }
);

rows!(
    /// A chunk that an adaptive player requested.
    ChunkRow<'a>, ChunkRows, "chunks" {
        client: Int(i64), track: Text(&'a str), index: Int(i64), rendition: Int(i64),
        duration_s: Float(f64), bytes: Int(i64), t_s: Float(f64), first_byte_s: Float(f64),
        done_s: Float(f64), throughput_mbps: Float(f64), buffer_before_s: Float(f64),
        buffer_after_s: Float(f64), abandoned: Bool(bool),
    }
);

rows!(
    /// A rendition of the ladder.
    RenditionRow<'a>, RenditionRows, "renditions" {
        track: Text(&'a str), rendition: Int(i64), name: Text(&'a str), bandwidth_bps: Int(i64),
        average_bps: Float(f64), width: Int(i64), height: Int(i64), frame_rate: Float(f64),
        codecs: Text(&'a str), duration_s: Float(f64),
    }
);

rows!(
    /// A one-way link.
    LinkRow<'a>, LinkRows, "links" {
        link: Text(&'a str), enqueued: Int(i64), delivered: Int(i64), dropped_queue: Int(i64),
        dropped_loss: Int(i64), dropped_down: Int(i64), bytes_delivered: Int(i64),
        queued_at_end: Int(i64), @undigested dropped_aqm: Int(i64), @undigested marked: Int(i64),
        @undigested reordered: Int(i64), @undigested duplicated: Int(i64),
        @undigested dropped_corrupt: Int(i64), @undigested dropped_mtu: Int(i64), @undigested changed: Int(i64),
    }
);

rows!(
    /// A change of a link or an interface during the run.
    EventRow<'a>, EventRows, "events" {
        t_s: Float(f64), link: Text(&'a str), what: Text(&'a str),
    }
);

rows!(
    /// A background flow.
    CrossRow<'a>, CrossRows, "cross_traffic" {
        flow: Int(i64), name: Text(&'a str), congestion: Text(&'a str), start_s: Float(f64),
        connect_s: Float(f64), end_s: Float(f64), fate: Text(&'a str), bytes_read: Int(i64),
        goodput_mbps: Float(f64), data_segments: Int(i64), retransmissions: Int(i64),
        timeouts: Int(i64), datagrams_sent: Int(i64), datagrams_delivered: Int(i64),
        datagrams_lost: Int(i64), datagram_delay_ms: Float(f64),
    }
);

rows!(
    /// The state of a background flow, every 100 ms.
    CrossSampleRow<'a>, CrossSampleRows, "cross_samples" {
        t_s: Float(f64), flow: Int(i64), name: Text(&'a str), cwnd_segments: Int(i64),
        ssthresh_segments: Float(f64), in_flight_segments: Int(i64), srtt_ms: Float(f64),
        delivery_rate_mbps: Float(f64), bytes_acked: Int(i64), retransmissions: Int(i64),
        state: Text(&'a str),
    }
);

rows!(
    /// A data segment that the server sent; recorded on request.
    DepartureRow<'a>, DepartureRows, @undigested "departures" {
        t_s: Float(f64), client: Int(i64), connection: Int(i64), subflow: Int(i64),
        path: Text(&'a str), position: Int(i64), data_position: Int(i64), bytes: Int(i64),
        cwnd_segments: Int(i64), in_flight_segments: Int(i64), nearest: Int(i64),
        nearest_cwnd_segments: Int(i64),
    }
);

rows!(
    /// A data segment that arrived at a client; recorded on request.
    ArrivalRow, ArrivalRows, @undigested "arrivals" {
        t_s: Float(f64), client: Int(i64), connection: Int(i64), subflow: Int(i64),
        position: Int(i64), bytes: Int(i64),
    }
);

rows!(
    /// The receive buffers of a client's connection, every 100 ms; recorded on request.
    ReceiverRow, ReceiverRows, @undigested "receivers" {
        t_s: Float(f64), client: Int(i64), connection: Int(i64), in_order_bytes: Int(i64),
        unread_bytes: Int(i64), ahead_bytes: Int(i64), subflow_bytes: Int(i64),
        window_bytes: Int(i64), limit_bytes: Int(i64),
    }
);

/// All rows of a run in progress.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "each is the table of its name")]
pub struct Rows {
    pub connections: ConnectionRows,
    pub subflows: SubflowRows,
    pub samples: SampleRows,
    pub player: PlayerRows,
    pub gaps: GapRows,
    pub frames: FrameRows,
    pub playback: PlaybackRows,
    pub requests: RequestRows,
    pub chunks: ChunkRows,
    pub renditions: RenditionRows,
    pub links: LinkRows,
    pub events: EventRows,
    pub cross_traffic: CrossRows,
    pub cross_samples: CrossSampleRows,
    pub departures: DepartureRows,
    pub arrivals: ArrivalRows,
    pub receivers: ReceiverRows,
    pub wrong_reads: WrongReadRows,
}

impl Rows {
    /// Returns the tables in the order in which the digest includes them.
    pub fn into_tables(self) -> Vec<Table> {
        vec![
            self.connections.into_table(),
            self.subflows.into_table(),
            self.samples.into_table(),
            self.player.into_table(),
            self.gaps.into_table(),
            self.frames.into_table(),
            self.playback.into_table(),
            self.requests.into_table(),
            self.chunks.into_table(),
            self.renditions.into_table(),
            self.links.into_table(),
            self.events.into_table(),
            self.cross_traffic.into_table(),
            self.cross_samples.into_table(),
            self.departures.into_table(),
            self.arrivals.into_table(),
            self.receivers.into_table(),
            self.wrong_reads.into_table(),
        ]
    }
}
