//! Measures the cost of a packet on each kind of link. Run it under callgrind (docs/performance.md).
//!
//! The arguments are a kind and a number of packets. The kinds are `fixed`, the queues `codel` and `fq-codel` at the
//! same rate, `wifi-g`, `wifi-ac`, `lte`, `starlink`, `steps` and `opportunities`. Packets are sent at three quarters
//! of 20 Mb/s, and each link is polled at its timeouts.

use std::sync::Arc;

use anabranch_link::{
    Direction, Fate, FixedLink, LinkConfig, LteModel, LteProfile, Medium, Model, QueueLimit,
    Single, StarlinkModel, Trace, TraceStep, VaryingLink, WifiMedium, WifiModel, WifiStandard,
};
use anabranch_plugin::PluginChoice;
use anabranch_units::{ByteCount, Duration, Instant, Rate, Seed};

const SEED: Seed = Seed { seed: 1, run: 0 };
const SIZE: ByteCount = ByteCount(1500);
/// The time between two packets: 1,500 bytes every 0.8 ms are 15 Mb/s.
const EVERY: Duration = Duration::from_micros(800);

fn medium(kind: &str) -> Option<Box<dyn Medium<u64>>> {
    let mbps =
        |rate| LinkConfig::new("a", rate, QueueLimit::Packets(100), Duration::from_millis(20));
    let varying = |model: Model| -> Option<Box<dyn Medium<u64>>> {
        Some(Box::new(Single(VaryingLink::new(mbps(Rate::UNLIMITED), &model, SEED))))
    };
    let wifi = |standard| -> Option<Box<dyn Medium<u64>>> {
        let model = WifiModel { fading_db: 3.0, snr_db: 35.0, ..WifiModel::new(standard, "a") };
        let up = LinkConfig { name: "b".to_owned(), ..mbps(Rate::UNLIMITED) };
        let lanes = vec![(mbps(Rate::UNLIMITED), model.clone()), (up, model)];
        Some(Box::new(WifiMedium::new("a", lanes, SEED)))
    };
    let step = |n: u64| TraceStep {
        at: Duration::from_millis(100 * n),
        rate: Rate::from_bps(16_000_000 + n % 9 * 1_000_000),
        delay: Duration::from_micros(n % 7 * 300),
        loss: 0.0,
    };
    match kind {
        "fixed" => Some(Box::new(Single(FixedLink::new(mbps(Rate::from_bps(20_000_000)), SEED)))),
        "codel" | "fq-codel" => {
            let discipline = Some(PluginChoice::named(kind));
            let config = LinkConfig { discipline, ..mbps(Rate::from_bps(20_000_000)) };
            Some(Box::new(Single(VaryingLink::of_set_rate(config, SEED))))
        }
        "wifi-g" => wifi(WifiStandard::G),
        "wifi-ac" => wifi(WifiStandard::Ac),
        "lte" => {
            let mut model = LteModel::new(Direction::Down, LteProfile::TmobileDriving);
            model.mean_bps = Some(40_000_000);
            varying(Model::Lte(model))
        }
        "starlink" => varying(Model::Starlink(StarlinkModel::new(Direction::Down, "a"))),
        "steps" => varying(Model::Trace(Trace::Steps {
            steps: (0..600).map(step).collect::<Arc<[_]>>(),
            repeat: Some(Duration::from_secs(60)),
        })),
        "opportunities" => varying(Model::Trace(Trace::Opportunities {
            at: (1..=3000).map(|n| Duration::from_millis(n * 3 / 5)).collect::<Arc<[_]>>(),
            bytes: 1500,
        })),
        _ => None,
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_default();
    let packets = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let Some(mut medium) = medium(&kind) else {
        eprintln!("unknown kind of link: `{kind}`");
        std::process::exit(2);
    };
    let (mut delivered, mut polls) = (0u64, 0u64);
    for packet in 0..packets {
        let now = Instant::ZERO + EVERY * packet;
        while let Some(at) = medium.poll_timeout().filter(|&at| at <= now) {
            polls += 1;
            while let Some((_, fate)) = medium.poll_fate(at) {
                delivered += u64::from(matches!(fate, Fate::Delivered { .. }));
            }
        }
        medium.enqueue(now, 0, packet, SIZE);
    }
    println!("{kind}: {packets} packets, {delivered} delivered, {polls} polls");
}
