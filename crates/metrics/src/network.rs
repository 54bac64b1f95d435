//! Metrics of the network for one client.

use std::collections::BTreeMap;

use crate::arithmetic::{fmean, mbps, median, plain, pstdev, rounded};
use crate::paths::by_path;
use crate::tables::Own;
use crate::value::{Object, Value, object};

/// The time between two samples, seconds.
const SAMPLE_S: f64 = 0.1;
/// The time between the samples that means use, milliseconds. As in the papers, means use every second sample.
const MEAN_STEP_MS: f64 = 200.0;
/// The congestion states in which a subflow repairs a loss.
const REPAIR: [&str; 2] = ["Recovery", "Loss"];

/// Returns the metrics of the network, except the drops of links.
pub(crate) fn network(own: &Own<'_>, paths: &[&str]) -> Object {
    let duration_s = own.connection("duration_s");
    let bytes_read = own.connection("bytes_read");
    let subflows = subflows(own, duration_s);
    let means = || subflows.iter().filter_map(|subflow| subflow.srtt_ms_mean);
    let spread = means().reduce(f64::max).zip(means().reduce(f64::min));
    // A client that never received a byte waited all the time.
    let gap = if bytes_read == 0.0 { duration_s } else { own.connection("max_read_gap_s") };
    let by_path = by_path(&subflows, paths);
    object([
        ("goodput_mbps", Value::number(plain(mbps(bytes_read, duration_s)))),
        ("rtt_diff_ms", Value::from(spread.map(|(most, least)| rounded(most - least, 3)))),
        ("reinjected_bytes", Value::whole(own.connection("reinjected_bytes"))),
        ("max_read_gap_s", Value::number(plain(gap))),
        (
            "subflows",
            Value::List(subflows.into_iter().map(|one| Value::Object(one.rest)).collect()),
        ),
        ("paths", Value::List(by_path)),
    ])
}

/// The metrics of a subflow.
pub(crate) struct Subflow<'a> {
    pub(crate) path: &'a str,
    pub(crate) bytes: f64,
    pub(crate) throughput_mbps: f64,
    pub(crate) retransmissions: f64,
    pub(crate) srtt_ms_mean: Option<f64>,
    pub(crate) cwnd_segments_mean: Option<f64>,
    /// All other metrics.
    rest: Object,
}

/// A sample of a subflow. Missing numbers are NaN.
struct Sample<'a> {
    t_s: f64,
    cwnd: f64,
    srtt_ms: f64,
    in_flight: f64,
    retransmissions: f64,
    state: &'a str,
}

impl Sample<'_> {
    /// Returns whether the sample enters into means.
    fn is_apart(&self) -> bool {
        (self.t_s * 1000.0).round_ties_even() % MEAN_STEP_MS == 0.0
    }

    fn repairs(&self) -> bool {
        REPAIR.contains(&self.state)
    }
}

/// Returns the samples of each subflow in order.
fn samples<'a>(own: &'a Own<'_>) -> BTreeMap<i64, Vec<Sample<'a>>> {
    let table = own.table("samples");
    let numbers = table.numbers("subflow");
    let column = |name| table.padded(name, numbers.len());
    let (t_s, cwnd, srtt_ms) = (column("t_s"), column("cwnd_segments"), column("srtt_ms"));
    let (in_flight, again) = (column("in_flight_segments"), column("retransmissions"));
    let states = table.words("state");
    let mut found = BTreeMap::<i64, Vec<Sample<'_>>>::new();
    for (row, number) in numbers.iter().enumerate() {
        found.entry(*number as i64).or_default().push(Sample {
            t_s: t_s[row],
            cwnd: cwnd[row],
            srtt_ms: srtt_ms[row],
            in_flight: in_flight[row],
            retransmissions: again[row],
            state: states.get(row).copied().unwrap_or_default(),
        });
    }
    found
}

fn subflows<'a>(own: &'a Own<'_>, duration_s: f64) -> Vec<Subflow<'a>> {
    let samples = samples(own);
    let table = own.table("subflows");
    let paths = table.words("path");
    let column = |name| table.padded(name, paths.len());
    let (numbers, bytes, again) = (column("subflow"), column("bytes"), column("retransmissions"));
    let change_s = own.table("events").numbers("t_s").into_iter().reduce(f64::min);
    let windows_are_whole = own.table("samples").is_whole("cwnd_segments");
    paths
        .into_iter()
        .enumerate()
        .map(|(row, path)| {
            let none = Vec::new();
            let own = numbers.get(row).and_then(|one| samples.get(&(*one as i64))).unwrap_or(&none);
            let mut found =
                subflow(path, (bytes[row], again[row]), own, duration_s, windows_are_whole);
            if let Some(change_s) = change_s {
                let earlier = own.iter().filter(|one| one.t_s <= change_s);
                let before = earlier.map(|one| one.retransmissions).fold(0.0, f64::max);
                found.rest.extend(object([
                    ("retransmissions_before_change", Value::whole(before)),
                    ("retransmissions_after_change", Value::whole(again[row] - before)),
                ]));
            }
            found
        })
        .collect()
}

/// Returns the metrics of a subflow from its totals (bytes, retransmissions) and its samples.
fn subflow<'a>(
    path: &'a str,
    (bytes, retransmissions): (f64, f64),
    samples: &[Sample<'_>],
    duration_s: f64,
    windows_are_whole: bool,
) -> Subflow<'a> {
    let apart = || samples.iter().filter(|one| one.is_apart());
    let windows: Vec<_> = apart().map(|one| one.cwnd).filter(|cwnd| !cwnd.is_nan()).collect();
    let times: Vec<_> = apart().map(|one| one.srtt_ms).filter(|srtt| *srtt > 0.0).collect();
    let time = |count: usize| Value::Number(plain(SAMPLE_S * count as f64));
    let in_state = |state| time(samples.iter().filter(|one| one.state == state).count());
    let short = |value: Option<f64>| value.map(|value| rounded(value, 3));
    // The median of whole numbers is printed as a whole number if it is one of them.
    let middle = median(&windows).map_or(Value::Null, |(middle, is_one)| {
        if is_one && windows_are_whole {
            Value::whole(middle)
        } else {
            Value::number(rounded(middle, 3))
        }
    });
    let throughput_mbps = plain(mbps(bytes, duration_s));
    let (srtt_ms_mean, cwnd_segments_mean) = (short(fmean(&times)), short(fmean(&windows)));
    let idle = samples.iter().filter(|one| one.in_flight.is_nan() || one.in_flight == 0.0).count();
    let rest = object([
        ("path", Value::Text(path.to_owned())),
        ("bytes", Value::whole(bytes)),
        ("throughput_mbps", Value::number(throughput_mbps)),
        ("retransmissions", Value::whole(retransmissions)),
        ("srtt_ms_mean", Value::from(srtt_ms_mean)),
        ("cwnd_segments_mean", Value::from(cwnd_segments_mean)),
        ("cwnd_segments_median", middle),
        ("cwnd_segments_std", Value::from(short(pstdev(&windows)))),
        ("recovery_s", in_state("Recovery")),
        ("loss_s", in_state("Loss")),
        ("idle_s", time(idle)),
        ("window_back_s", Value::from(window_back(samples).map(plain))),
    ]);
    Subflow {
        path,
        bytes,
        throughput_mbps,
        retransmissions,
        srtt_ms_mean,
        cwnd_segments_mean,
        rest,
    }
}

/// Returns the mean time from the start of a repair until the window has its former size; `None` without a
/// repair.
fn window_back(samples: &[Sample<'_>]) -> Option<f64> {
    let (mut waits, mut before, mut began) = (Vec::new(), None, 0.0);
    for pair in samples.windows(2) {
        let (last, one) = (&pair[0], &pair[1]);
        if before.is_none() && one.repairs() && !last.repairs() && !last.cwnd.is_nan() {
            (before, began) = (Some(last.cwnd), last.t_s);
        }
        if before.is_some_and(|before| !one.repairs() && one.cwnd >= before) {
            waits.push(one.t_s - began);
            before = None;
        }
    }
    if let (Some(_), Some(last)) = (before, samples.last()) {
        waits.push(last.t_s - began);
    }
    fmean(&waits)
}
