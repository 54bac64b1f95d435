//! The behaviour of a link over time without other traffic, for figures and for traces of models.

use anabranch_link::probe;
use anabranch_units::{ByteCount, Duration, Seed};

use crate::fault::PlanError;
use crate::links::Links;
use crate::plan::Plan;

/// The size of the packets that measure the rate, and of those that measure the delay, in bytes.
const FULL: ByteCount = ByteCount(1500);
const SMALL: ByteCount = ByteCount(64);

/// The measurements of a link over time.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The bit rate that the fully loaded link carried in each window.
    pub rates_bps: Vec<f64>,
    /// The delay in seconds of each small packet on the idle link; NaN if it was lost.
    pub delays_s: Vec<f64>,
}

/// Records a link of a plan: its rate in each of `windows` time windows, and the delay of a small packet
/// every `ping_ns` during that time. The link's queue is replaced by an unlimited one.
///
/// # Errors
/// Returns an error for a link name that does not exist, or settings that a link cannot have.
pub fn record(
    plan: &Plan,
    link: &str,
    window_ns: u64,
    windows: usize,
    ping_ns: u64,
) -> Result<Recording, PlanError> {
    if window_ns == 0 || ping_ns == 0 {
        return Err(PlanError::Invalid("windows and ping intervals must be positive"));
    }
    let (window, ping) = (Duration::from_nanos(window_ns), Duration::from_nanos(ping_ns));
    let number = plan.links.iter().position(|other| other.name == link);
    let number = number.ok_or_else(|| PlanError::UnknownLink(link.to_owned()))?;
    let mut plans = plan.links.clone();
    (plans[number].queue, plans[number].discipline) = (None, None);
    let seed = Seed { seed: plan.seed, run: plan.run };
    let mut busy = Links::build(&plans, seed)?;
    let (medium, lane) = busy.place(number);
    let bytes = probe::carried(medium, &[lane], FULL, window, windows).swap_remove(0);
    let mut idle = Links::build(&plans, seed)?;
    let (medium, lane) = idle.place(number);
    let pings = window_ns * windows as u64 / ping_ns;
    let delays = probe::delays(medium, lane, SMALL, ping, pings as usize);
    let bps = |bytes: u64| bytes as f64 * 8.0 / window.as_secs_f64();
    let seconds = |delay: Option<Duration>| delay.map_or(f64::NAN, Duration::as_secs_f64);
    Ok(Recording {
        rates_bps: bytes.into_iter().map(bps).collect(),
        delays_s: delays.into_iter().map(seconds).collect(),
    })
}
