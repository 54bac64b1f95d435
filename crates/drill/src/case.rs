//! A case: everything that a seed determines before the first segment.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_congestion as congestion;
use anabranch_mptcp::path_manager;
use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Announcement, Config, HostModel};
use anabranch_plugin::{PluginChoice, PluginName};
use anabranch_scheduler as scheduler;
use anabranch_units::{Duration, Instant, RandomStream, Rate, Seed};

use crate::actions::{self, Planned};
use crate::application::{Close, Part};
use crate::flight::{CLIENT, SERVER};
use crate::harm::{Kind, Twin};
use crate::mark::Mark;

/// The parts of a case that a reduced case omits or changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The only changes that are made; `None` for all.
    pub only: Option<Vec<Mark>>,
    /// The maximum number of bytes in each direction.
    pub bytes: Option<u64>,
    /// The scheduler of both endpoints.
    pub scheduler: Option<String>,
    /// The congestion controller of both endpoints.
    pub congestion: Option<String>,
}

/// One direction of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipe {
    /// One-way propagation delay.
    pub(crate) delay: Duration,
    pub(crate) rate: Rate,
    /// The longest queueing delay.
    pub(crate) queue: Duration,
}

/// The content of a case.
#[derive(Clone, Debug)]
pub struct Case {
    pub(crate) seed: u64,
    pub(crate) twin: Twin,
    pub(crate) cut: Cut,
    /// Whether to print every segment when it is sent.
    pub traced: bool,
    /// The configurations of the client and the server.
    pub(crate) configs: [Config; 2],
    pub(crate) parts: [Part; 2],
    pub(crate) pipes: Vec<Pipe>,
    /// The changes that the mediator may make to a segment, and the probability of a change.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) chance: f64,
    /// The time after which the mediator changes nothing.
    pub(crate) peace: Instant,
    pub(crate) actions: Vec<Planned>,
}

/// The server's port.
pub(crate) const PORT: u16 = 80;

fn pick<T: Copy>(random: &mut RandomStream, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

fn named(random: &mut RandomStream, names: impl Iterator<Item = PluginName>) -> PluginChoice {
    let names: Vec<&str> = names.map(|name| name.name).collect();
    PluginChoice::named(pick(random, &names))
}

/// Returns the address of a host on a path. Its last part is `host`: 2 for the client and 1 for the server.
fn address(v6: bool, path: usize, host: u8) -> IpAddr {
    let path = path as u8 + 1;
    if v6 {
        IpAddr::V6(Ipv6Addr::new(0xfd00, path.into(), 0, 0, 0, 0, 0, host.into()))
    } else {
        IpAddr::V4(Ipv4Addr::new(10, path, 0, host))
    }
}

/// Returns the index of the path on which the client has this address.
pub(crate) fn path_of(client: IpAddr) -> usize {
    let number = match client {
        IpAddr::V4(v4) => usize::from(v4.octets()[1]),
        IpAddr::V6(v6) => usize::from(v6.segments()[1]),
    };
    number.wrapping_sub(1)
}

fn candidates(random: &mut RandomStream, paths: usize) -> Vec<Candidate> {
    let v6 = random.chance(0.2);
    let many_homes = random.chance(0.5);
    (0..paths)
        .map(|path| Candidate {
            address_id: path as u8,
            local: SocketAddr::new(address(v6, path, 2), 40_000),
            remote: SocketAddr::new(address(v6, if many_homes { path } else { 0 }, 1), PORT),
            backup: random.chance(0.15),
            rate: random.chance(0.2).then(|| Rate::from_bps(5_000_000)),
        })
        .collect()
}

fn config(random: &mut RandomStream) -> Config {
    let initial = pick(random, &[16_384, 65_536, 131_072, 131_072]);
    Config {
        multipath: !random.chance(0.06),
        scheduler: named(random, scheduler::names()),
        congestion: named(random, congestion::names()),
        path_manager: named(random, path_manager::names()),
        mss: pick(random, &[1460, 1460, 1400, 536, 100]),
        receive_buffer_initial: initial,
        receive_buffer_max: initial.max(pick(random, &[16_384, 262_144, 6 << 20])),
        send_buffer_max: pick(random, &[16_384, 262_144, 4 << 20]),
        checksum: random.chance(0.3),
        pacing: random.chance(0.2),
        nodelay: random.chance(0.3),
        host: HostModel {
            timer_tick: Duration::from_millis(pick(random, &[0, 1, 4, 4, 10])),
            ..HostModel::default()
        },
        ..Config::default()
    }
}

fn pipe(random: &mut RandomStream) -> Pipe {
    let rate = pick(random, &[0, 1_000_000, 5_000_000, 20_000_000, 50_000_000]);
    Pipe {
        delay: Duration::from_micros(pick(random, &[50, 2_000, 10_000, 40_000, 150_000])),
        rate: if rate == 0 { Rate::UNLIMITED } else { Rate::from_bps(rate) },
        queue: Duration::from_millis(pick(random, &[20, 100, 400])),
    }
}

/// Returns a length between 0 and `most`. The number of its bits is uniformly distributed.
fn length(random: &mut RandomStream, most: u64) -> u64 {
    let bits = random.below(u64::from(64 - most.leading_zeros()) + 1);
    random.below((1 << bits) + 1).min(most)
}

fn parts(random: &mut RandomStream, most: u64) -> [Part; 2] {
    let asks = random.chance(0.3);
    let mut totals = [length(random, 300_000), length(random, 300_000)];
    if !asks && random.chance(0.5) {
        // Bulk data in one direction.
        totals[random.below(2) as usize] = 0;
    }
    let (ask, answer) = (1 + length(random, 2_000), 1 + length(random, 100_000));
    if asks {
        let rounds = 1 + random.below(5);
        totals = [ask * rounds, answer * rounds];
    }
    // The limit keeps whole rounds of requests. Other transfers end at that byte.
    let rounds = (most / ask.max(answer)).max(1);
    totals = if asks {
        [totals[0].min(ask * rounds), totals[1].min(answer * rounds)]
    } else {
        totals.map(|total| total.min(most))
    };
    if totals == [0, 0] {
        // If neither side sent data, a lost third packet would leave the two endpoints in different states.
        totals[SERVER] = 1;
    }
    let turns = if asks { [(ask, answer), (answer, ask)] } else { [(0, 0); 2] };
    let closes = [
        pick(random, &[Close::Written, Close::AllRead]),
        pick(random, &[Close::Written, Close::PeerFinished]),
    ];
    [CLIENT, SERVER].map(|side| {
        let slow = random.chance(0.15);
        let gulp = pick(random, &[1_000, 10_000, 100_000]);
        Part {
            total: totals[side],
            expected: totals[1 - side],
            turn: turns[side].0,
            per: turns[side].1,
            first: side == CLIENT,
            chunk: pick(random, &[1_000, 8_000, 60_000]),
            gulp: if slow { gulp } else { usize::MAX },
            pause: Duration::from_millis(if slow { 1 + random.below(30) } else { 0 }),
            close: closes[side],
        }
    })
}

fn announcements(random: &mut RandomStream, v6: bool) -> Vec<Announcement> {
    if !random.chance(0.25) {
        return Vec::new();
    }
    let one = |number: u8| Announcement {
        address_id: 10 + number,
        address: address(v6, 8 + usize::from(number), 1),
        port: (number == 1).then_some(8_080),
    };
    (0..=random.below(2) as u8).map(one).collect()
}

impl Case {
    /// Draws the case of a seed.
    pub fn draw(seed: u64, twin: Twin, cut: Cut) -> Self {
        let draws = Seed { seed, run: twin as u64 };
        let setup = &mut draws.stream("setup");
        let paths = 1 + setup.below(4) as usize;
        let mut configs = [config(setup), config(setup)];
        configs[CLIENT].candidates = candidates(setup, paths);
        let v6 = configs[CLIENT].candidates[0].local.is_ipv6();
        configs[SERVER].announce = announcements(setup, v6);
        for config in &mut configs {
            let choices = [&cut.scheduler, &cut.congestion];
            let fields = [&mut config.scheduler, &mut config.congestion];
            for (choice, field) in choices.into_iter().zip(fields) {
                *field = choice.as_deref().map_or(field.clone(), PluginChoice::named);
            }
        }
        let network = &mut draws.stream("network");
        let pipes = (0..paths).map(|_| pipe(network)).collect();
        let parts = parts(&mut draws.stream("application"), cut.bytes.unwrap_or(u64::MAX));
        let random = &mut draws.stream("mediator");
        let kinds = Kind::draw(random, twin);
        let chance = pick(random, &[0.002, 0.01, 0.03, 0.1, 0.25]);
        let peace = Instant::ZERO + Duration::from_millis(500 + random.below(3_500));
        // Only the path manager `full-mesh` joins again over an address that comes back.
        let multipath = configs.iter().all(|config| config.multipath)
            && configs[CLIENT].path_manager.name == "full-mesh";
        let random = &mut draws.stream("actions");
        let actions = actions::draw(random, twin, paths, multipath, peace);
        Self {
            seed,
            twin,
            cut,
            traced: false,
            configs,
            parts,
            pipes,
            kinds,
            chance,
            peace,
            actions,
        }
    }

    /// Returns whether this case includes a change.
    pub(crate) fn keeps(&self, mark: Mark) -> bool {
        self.cut.only.as_ref().is_none_or(|only| only.contains(&mark))
    }

    /// Returns the command line that runs the case.
    pub fn command(&self) -> String {
        let mut text = format!(
            "cargo run --quiet --package anabranch-drill --profile test -- --twin {} --seed {}",
            self.twin.name(),
            self.seed
        );
        let Cut { only, bytes, scheduler, congestion } = &self.cut;
        let marks = only.as_ref().map(|only| {
            let marks: Vec<String> = only.iter().map(Mark::to_string).collect();
            if marks.is_empty() { "none".to_owned() } else { marks.join(",") }
        });
        let given = [
            ("only", marks),
            ("bytes", bytes.map(|bytes| bytes.to_string())),
            ("scheduler", scheduler.clone()),
            ("congestion", congestion.clone()),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                text.push_str(&[" --", name, " ", &value].concat());
            }
        }
        text
    }
}
