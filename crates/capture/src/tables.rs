//! The contents of a capture as tables over time. docs/guide/capture.md describes the columns.

use anabranch_trace::{Column, Table, Words};

use crate::analysis::{Analysis, Role};
use crate::course::{Course, SLICE_NS};
use crate::exchange::{Exchange, Http};
use crate::stream::{Direction, Slice};
use crate::summary::direction_name;

const SLICE_S: f64 = SLICE_NS as f64 / 1e9;

/// Columns of floating-point numbers that are filled together.
type Floats<const N: usize> = [Vec<f64>; N];

/// An HTTP exchange with the kind and number of its connection.
type Exchanged<'a> = (&'static str, usize, &'a Exchange);

/// A course with its kind (`stream` or `connection`), number, direction, and `in_order` or `acknowledged`.
type NamedCourse<'a> = (&'static str, usize, Direction, &'static str, &'a Course);

impl Analysis {
    /// Returns all tables.
    pub fn tables(&self) -> Vec<Table> {
        vec![self.samples(), self.courses(), self.pauses(), self.requests()]
    }

    /// Returns the course of every stream in slices of 0.1 s. A rate or time that was not seen is NaN.
    fn samples(&self) -> Table {
        let (mut t_s, mut streams, mut directions) = (Vec::new(), Vec::new(), Words::default());
        let mut numbers: Floats<11> = Default::default();
        let mut whole: [Vec<i64>; 3] = Default::default();
        let first = self.oldest_ns().div_euclid(SLICE_NS);
        for number in self.described() {
            let stream = &self.streams()[number];
            for slice in &stream.slices {
                for direction in Direction::BOTH {
                    let at = direction as usize;
                    t_s.push((slice.number - first) as f64 * SLICE_S);
                    streams.push(number as i64);
                    directions.push(direction_name(direction));
                    for (column, value) in numbers.iter_mut().zip(floats_of(slice, at)) {
                        column.push(value);
                    }
                    let counts =
                        [slice.in_flight_bytes[at], slice.acked_bytes[at], slice.resent_frames[at]];
                    for (column, value) in whole.iter_mut().zip(counts) {
                        column.push(value as i64);
                    }
                }
            }
        }
        let [
            throughput,
            resent,
            ack_rtt,
            echo_rtt,
            window,
            smooth_ack,
            ack_min,
            smooth_echo,
            echo_min,
            skipped,
            pairs,
        ] = numbers;
        let [in_flight, acked, resent_frames] = whole;
        let columns = vec![
            ("t_s", Column::Float(t_s)),
            ("stream", Column::Int(streams)),
            ("direction", Column::Text(directions)),
            ("throughput_mbps", Column::Float(throughput)),
            ("resent_mbps", Column::Float(resent)),
            ("ack_rtt_ms", Column::Float(ack_rtt)),
            ("echo_rtt_ms", Column::Float(echo_rtt)),
            ("window_bytes", Column::Float(window)),
            ("in_flight_bytes", Column::Int(in_flight)),
            ("acked_bytes", Column::Int(acked)),
            ("resent_segments", Column::Int(resent_frames)),
            ("ack_srtt_ms", Column::Float(smooth_ack)),
            ("ack_min_rtt_ms", Column::Float(ack_min)),
            ("echo_srtt_ms", Column::Float(smooth_echo)),
            ("echo_min_rtt_ms", Column::Float(echo_min)),
            ("skipped_bytes", Column::Float(skipped)),
            ("pair_mbps", Column::Float(pairs)),
        ];
        table("capture_samples", columns)
    }

    /// Returns the courses of streams and connections.
    fn all_courses(&self) -> Vec<NamedCourse<'_>> {
        let mut found = Vec::new();
        let described = self.described();
        for direction in Direction::BOTH {
            for &number in &described {
                let half = &self.streams()[number].halves[direction as usize];
                found.push(("stream", number, direction, "in_order", &half.in_order));
                found.push(("stream", number, direction, "acknowledged", &half.acknowledged));
            }
            for (number, connection) in self.connections().iter().enumerate() {
                // Those that are not described have no subflow that is.
                let known = connection.subflows.first().is_some_and(|subflow| {
                    matches!(self.roles()[subflow.stream], Role::Subflow { .. })
                        && described.binary_search(&subflow.stream).is_ok()
                });
                if known {
                    let data = &connection.data[direction as usize];
                    found.push(("connection", number, direction, "in_order", &data.in_order));
                    found.push((
                        "connection",
                        number,
                        direction,
                        "acknowledged",
                        &data.acknowledged,
                    ));
                }
            }
        }
        found
    }

    /// Returns the bytes in order and acknowledged after each slice of 0.1 s in which they grew.
    fn courses(&self) -> Table {
        let mut keys = CourseKeys::default();
        let (mut t_s, mut bytes) = (Vec::new(), Vec::new());
        let first = self.oldest_ns().div_euclid(SLICE_NS);
        for named in self.all_courses() {
            for &(slice, sum) in &named.4.marks {
                keys.push(&named);
                t_s.push((slice - first) as f64 * SLICE_S);
                bytes.push(sum as i64);
            }
        }
        let values = [("t_s", Column::Float(t_s)), ("bytes", Column::Int(bytes))];
        table("capture_courses", keys.into_columns(values))
    }

    /// Returns the pauses of at least 0.1 s in the courses.
    fn pauses(&self) -> Table {
        let mut keys = CourseKeys::default();
        let (mut t_s, mut pause_s) = (Vec::new(), Vec::new());
        let first = self.oldest_ns();
        for named in self.all_courses() {
            for &(at, length) in &named.4.pauses {
                keys.push(&named);
                t_s.push((at - first) as f64 / 1e9);
                pause_s.push(length as f64 / 1e9);
            }
        }
        let values = [("t_s", Column::Float(t_s)), ("pause_s", Column::Float(pause_s))];
        table("capture_pauses", keys.into_columns(values))
    }
}

impl Analysis {
    /// Returns the HTTP exchanges with their connections.
    fn all_exchanges(&self) -> Vec<Exchanged<'_>> {
        let mut found = Vec::new();
        for number in self.described() {
            found.extend(exchanges_of("stream", number, &self.streams()[number].http));
        }
        for (number, connection) in self.connections().iter().enumerate() {
            found.extend(exchanges_of("connection", number, &connection.http));
        }
        found
    }

    /// Returns the HTTP exchanges in clear text. A playlist that was captured whole is there with its text.
    fn requests(&self) -> Table {
        let mut words: [Words; 7] = Default::default();
        let (mut numbers, mut bytes) = (Vec::new(), Vec::new());
        let mut floats: Floats<5> = Default::default();
        let mut guessed = Vec::new();
        let first = self.oldest_ns();
        let time = |at: Option<i64>| at.map_or(f64::NAN, |at| (at - first) as f64 / 1e9);
        for (kind, number, one) in self.all_exchanges() {
            let playlist = one.playlist.as_deref().filter(|_| one.done_ns.is_some());
            let playlist = playlist.map(String::from_utf8_lossy).unwrap_or_default();
            let texts = [
                kind,
                one.method.as_str(),
                one.target.as_str(),
                one.host.as_deref().unwrap_or_default(),
                one.range.as_deref().unwrap_or_default(),
                one.content_type.as_deref().unwrap_or_default(),
                playlist.as_ref(),
            ];
            for (column, text) in words.iter_mut().zip(texts) {
                column.push(text);
            }
            numbers.push(number as i64);
            bytes.push(one.body_bytes as i64);
            guessed.push(one.is_length_guessed);
            let values = [
                time(Some(one.asked_ns)),
                time(one.first_byte_ns),
                time(one.done_ns),
                one.status.map_or(f64::NAN, f64::from),
                one.content_length.map_or(f64::NAN, |length| length as f64),
            ];
            for (column, value) in floats.iter_mut().zip(values) {
                column.push(value);
            }
        }
        let [kinds, methods, targets, hosts, ranges, types, playlists] = words;
        let [t_s, first_byte_s, done_s, status, content_length] = floats;
        let columns = vec![
            ("kind", Column::Text(kinds)),
            ("number", Column::Int(numbers)),
            ("method", Column::Text(methods)),
            ("target", Column::Text(targets)),
            ("host", Column::Text(hosts)),
            ("range", Column::Text(ranges)),
            ("status", Column::Float(status)),
            ("content_type", Column::Text(types)),
            ("content_length", Column::Float(content_length)),
            ("t_s", Column::Float(t_s)),
            ("first_byte_s", Column::Float(first_byte_s)),
            ("done_s", Column::Float(done_s)),
            ("bytes", Column::Int(bytes)),
            ("length_guessed", Column::Bool(guessed)),
            ("playlist", Column::Text(playlists)),
        ];
        table("capture_requests", columns)
    }
}

/// The columns that name a course.
#[derive(Default)]
struct CourseKeys {
    names: [Words; 3],
    numbers: Vec<i64>,
}

impl CourseKeys {
    fn push(&mut self, &(kind, number, direction, what, _): &NamedCourse<'_>) {
        let names = [kind, direction_name(direction), what];
        for (column, name) in self.names.iter_mut().zip(names) {
            column.push(name);
        }
        self.numbers.push(number as i64);
    }

    /// Returns these columns, followed by the values of each course.
    fn into_columns(self, values: [(&'static str, Column); 2]) -> Vec<(&'static str, Column)> {
        let [kinds, directions, whats] = self.names;
        let names = [
            ("kind", Column::Text(kinds)),
            ("number", Column::Int(self.numbers)),
            ("direction", Column::Text(directions)),
            ("course", Column::Text(whats)),
        ];
        names.into_iter().chain(values).collect()
    }
}

/// Returns the exchanges of a stream or connection.
fn exchanges_of<'a>(
    kind: &'static str,
    number: usize,
    http: &'a Http,
) -> impl Iterator<Item = Exchanged<'a>> {
    http.list().iter().map(move |exchange| (kind, number, exchange))
}

/// Returns the numbers of a slice in one direction, in the order of their columns.
fn floats_of(slice: &Slice, at: usize) -> [f64; 11] {
    let mean = |(sum, count): (u64, u32)| {
        if count == 0 { f64::NAN } else { sum as f64 / f64::from(count) / 1e6 }
    };
    let rate = |bytes: u64| bytes as f64 * 8.0 / SLICE_S / 1e6;
    [
        rate(slice.bytes[at]),
        rate(slice.resent_bytes[at]),
        mean(slice.ack_rtt_ns[at]),
        mean(slice.echo_rtt_ns[at]),
        slice.window_bytes[at] as f64,
        slice.ack_smoothed_ms[at].0,
        slice.ack_smoothed_ms[at].1,
        slice.echo_smoothed_ms[at].0,
        slice.echo_smoothed_ms[at].1,
        slice.skipped_bytes[at] as f64,
        median(&slice.pair_mbps[at]),
    ]
}

/// Returns the middle value; NaN without any.
fn median(values: &[f32]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f32::total_cmp);
    sorted.get(sorted.len() / 2).map_or(f64::NAN, |value| f64::from(*value))
}

/// Returns a table that is not part of a digest.
pub(crate) fn table(name: &'static str, columns: Vec<(&'static str, Column)>) -> Table {
    Table { name, digested: false, undigested_columns: Vec::new(), columns }
}
