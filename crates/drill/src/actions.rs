//! Events of hosts and paths at planned times.

use anabranch_units::{Duration, Instant, RandomStream};

use crate::harm::Twin;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A path drops all packets from now on.
    Cut { path: usize },
    /// The path delivers packets again.
    Heal { path: usize },
    /// The client's interface on a path goes down. The path drops all packets.
    Remove { path: usize },
    /// The interface comes up again.
    Return { path: usize },
    /// The client sends `MP_PRIO`: the path becomes a backup, or stops being one.
    Backup { path: usize, backup: bool },
    /// A side's application stops reading.
    StopReading { side: usize },
    /// The application reads again.
    ReadOn { side: usize },
    /// The address translator on a path deletes its table, and uses other ports from now on.
    Rebind { path: usize },
    /// Both sides remove their addresses on a path, which still delivers packets.
    Forget { path: usize },
    /// From now on, all packets of a side are lost.
    Silence { side: usize },
    /// From now on, the data segments of a side are lost.
    AcksOnly { side: usize },
    /// A side's application aborts.
    Abort { side: usize },
}

/// An action and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) at: Instant,
    pub(crate) action: Action,
}

/// Draws the actions before `peace`.
pub(crate) fn draw(
    random: &mut RandomStream,
    twin: Twin,
    paths: usize,
    multipath: bool,
    peace: Instant,
) -> Vec<Planned> {
    let mut actions = Vec::new();
    let count = random.below(4);
    // At most one interface is removed, so that another one is always up.
    let interface = random.below(paths as u64) as usize;
    for _ in 0..count {
        let at = random.below(peace.as_micros() * 2 / 3);
        let span = random.below(peace.as_micros() - at);
        let moment = |micros| Instant::ZERO + Duration::from_micros(micros);
        let (path, side) = (random.below(paths as u64) as usize, random.below(2) as usize);
        let kinds = if twin == Twin::Hostile { 9 } else { 4 };
        let backup = random.chance(0.5);
        let (first, then) = match random.below(kinds) {
            0 => (Action::Cut { path }, Some(Action::Heal { path })),
            1 if multipath && paths > 1 => {
                let path = interface;
                (Action::Remove { path }, Some(Action::Return { path }))
            }
            2 => (Action::Backup { path, backup }, None),
            3 => (Action::StopReading { side }, Some(Action::ReadOn { side })),
            4 => (Action::StopReading { side }, None),
            5 => (Action::Rebind { path }, None),
            6 => (Action::Forget { path }, None),
            7 => (Action::Silence { side }, None),
            8 if backup => (Action::AcksOnly { side }, None),
            8 => (Action::Abort { side }, None),
            _ => continue,
        };
        actions.push(Planned { at: moment(at), action: first });
        actions.extend(then.map(|action| Planned { at: moment(at + span), action }));
    }
    actions.sort_by_key(|planned| planned.at);
    actions
}
