//! The trace: what a run leaves behind, as columns (docs/plan-and-trace.md).

/// One column. Missing numbers are NaN.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// True or false.
    Bool(Vec<bool>),
    /// Real numbers.
    Float(Vec<f64>),
    /// Whole numbers.
    Int(Vec<i64>),
    /// Words.
    Text(Vec<String>),
}

impl Column {
    /// Rows in the column.
    pub fn len(&self) -> usize {
        match self {
            Self::Bool(v) => v.len(),
            Self::Float(v) => v.len(),
            Self::Int(v) => v.len(),
            Self::Text(v) => v.len(),
        }
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A table: its name and its columns in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The name.
    pub name: &'static str,
    /// Column names and values, all of one length.
    pub columns: Vec<(&'static str, Column)>,
}

/// What a run says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// SHA-256 over the event log and the totals, in hexadecimal: same inputs, same digest.
    pub digest: String,
    /// Virtual time the run took, seconds.
    pub duration_s: f64,
    /// Events processed.
    pub steps: u64,
    /// What has to be said with the results: which of the plug-ins are reconstructions.
    pub notes: Vec<String>,
}

/// Everything a run leaves behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The run as a whole.
    pub summary: Summary,
    /// The tables.
    pub tables: Vec<Table>,
}

impl Trace {
    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }
}

impl Table {
    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(other, _)| *other == name).map(|(_, column)| column)
    }

    /// It tells of cross traffic alone.
    pub(crate) fn is_of_cross_traffic(&self) -> bool {
        matches!(self.name, "cross_traffic" | "cross_samples")
    }

    /// Its column of that name is in the digest. Penalties are not, so that runs keep the digests of the
    /// time before their column; what a penalty does is in the samples.
    pub(crate) fn digests(&self, name: &str) -> bool {
        (self.name, name) != ("subflows", "penalties")
    }

    /// It tells of adaptive playback alone.
    pub(crate) fn is_of_adaptive_playback(&self) -> bool {
        matches!(self.name, "chunks" | "renditions")
    }

    /// Numbers of a column, whole numbers included; empty when it is not numeric.
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        match self.column(name) {
            Some(Column::Float(values)) => values.clone(),
            Some(Column::Int(values)) => values.iter().map(|v| *v as f64).collect(),
            _ => Vec::new(),
        }
    }
}

/// Declares a table's rows as parallel vectors with a `push` and a conversion to columns.
macro_rules! rows {
    ($(#[$doc:meta])* $name:ident, $table:literal { $($field:ident : $kind:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            $($field: Vec<rows!(@type $kind)>,)*
        }

        impl $name {
            #[allow(clippy::too_many_arguments, reason = "one argument a column, named at the only caller")]
            pub(crate) fn push(&mut self, $($field: rows!(@type $kind)),*) {
                $(self.$field.push($field);)*
            }

            pub(crate) fn into_table(self) -> Table {
                Table {
                    name: $table,
                    columns: vec![$((stringify!($field), Column::$kind(self.$field))),*],
                }
            }
        }
    };
    (@type Bool) => { bool };
    (@type Float) => { f64 };
    (@type Int) => { i64 };
    (@type Text) => { String };
}

rows!(ConnectionRows, "connections" {
    client: Int, connect_s: Float, duration_s: Float, bytes_read: Int, reinjected_bytes: Int,
    max_read_gap_s: Float, refused_packets: Int, fallback: Bool, finished: Bool,
});
rows!(SubflowRows, "subflows" {
    client: Int, subflow: Int, path: Text, established: Bool, bytes: Int, bytes_sent: Int,
    retransmissions: Int, bytes_retransmitted: Int, data_segments: Int, timeouts: Int, undos: Int,
    penalties: Int,
});
rows!(SampleRows, "samples" {
    t_s: Float, client: Int, subflow: Int, path: Text, cwnd_segments: Int, ssthresh_segments: Float,
    in_flight_segments: Int, srtt_ms: Float, min_rtt_ms: Float, delivery_rate_mbps: Float,
    pacing_rate_mbps: Float, bytes_acked: Int, unsent_bytes: Int, retransmissions: Int, state: Text,
});
rows!(PlayerRows, "player" {
    t_s: Float, client: Int, bytes_read: Int, buffer_s: Float, buffer_bytes: Int,
});
rows!(GapRows, "gaps" { client: Int, t_s: Float, gap_s: Float });
rows!(FrameRows, "frames" {
    client: Int, index: Int, pts_s: Float, kind: Text, size: Int, fate: Text, why: Text,
    due_s: Float, shown_s: Float,
});
rows!(PlaybackRows, "playback" {
    client: Int, t_s: Float, event: Text, pts_s: Float, delay_ms: Float,
});
rows!(RequestRows, "requests" {
    client: Int, id: Int, t_s: Float, resource: Text, first_byte_s: Float, done_s: Float, bytes: Int,
});
rows!(ChunkRows, "chunks" {
    client: Int, track: Text, index: Int, rendition: Int, duration_s: Float, bytes: Int, t_s: Float,
    first_byte_s: Float, done_s: Float, throughput_mbps: Float, buffer_before_s: Float,
    buffer_after_s: Float, abandoned: Bool,
});
rows!(RenditionRows, "renditions" {
    track: Text, rendition: Int, name: Text, bandwidth_bps: Int, average_bps: Float, width: Int,
    height: Int, frame_rate: Float, codecs: Text, duration_s: Float,
});
rows!(LinkRows, "links" {
    link: Text, enqueued: Int, delivered: Int, dropped_queue: Int, dropped_loss: Int,
    dropped_down: Int, bytes_delivered: Int, queued_at_end: Int,
});
rows!(EventRows, "events" { t_s: Float, link: Text, what: Text });

rows!(CrossRows, "cross_traffic" {
    flow: Int, name: Text, congestion: Text, start_s: Float, connect_s: Float, end_s: Float, fate: Text,
    bytes_read: Int, goodput_mbps: Float, data_segments: Int, retransmissions: Int, timeouts: Int,
});
rows!(CrossSampleRows, "cross_samples" {
    t_s: Float, flow: Int, name: Text, cwnd_segments: Int, ssthresh_segments: Float,
    in_flight_segments: Int, srtt_ms: Float, delivery_rate_mbps: Float, bytes_acked: Int,
    retransmissions: Int, state: Text,
});

/// All rows of a run while it goes on.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) connections: ConnectionRows,
    pub(crate) subflows: SubflowRows,
    pub(crate) samples: SampleRows,
    pub(crate) player: PlayerRows,
    pub(crate) gaps: GapRows,
    pub(crate) frames: FrameRows,
    pub(crate) playback: PlaybackRows,
    pub(crate) requests: RequestRows,
    pub(crate) chunks: ChunkRows,
    pub(crate) renditions: RenditionRows,
    pub(crate) links: LinkRows,
    pub(crate) events: EventRows,
    pub(crate) cross_traffic: CrossRows,
    pub(crate) cross_samples: CrossSampleRows,
}

impl Rows {
    pub(crate) fn into_tables(self) -> Vec<Table> {
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
        ]
    }
}
