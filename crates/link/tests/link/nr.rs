//! Compares the 5G model with the data to which it was fitted, and with times computed by hand.

use anabranch_link::{
    Direction, LinkConfig, Model, NrModel, NrProfile, QueueLimit, Single, VaryingLink, probe,
};
use anabranch_units::{ByteCount, Duration, Rate};

use crate::driver::SEED;
use crate::statistics::{assert_close, mean, quantile};

fn radio(model: NrModel) -> Single<VaryingLink<u64>> {
    let config = LinkConfig::new("5g.down", Rate::UNLIMITED, QueueLimit::Unlimited, Duration::ZERO);
    Single(VaryingLink::new(config, &Model::Nr(model), SEED))
}

fn down(profile: NrProfile) -> NrModel {
    NrModel::new(Direction::Down, "phone", profile)
}

#[test]
#[ignore = "long: 20,000 s of two links"]
fn the_rates_match_the_measurements() {
    let window = Duration::from_secs(1);
    let mid: &[_] = &[(0.25, 11.0), (0.5, 29.0), (0.75, 98.0), (0.95, 229.0)];
    let mmwave: &[_] = &[(0.05, 8.0), (0.5, 429.0), (0.95, 1390.0)];
    let cases =
        [(NrProfile::MidBand, 12_500, mid, 67.0), (NrProfile::Mmwave, 125_000, mmwave, 523.0)];
    for (profile, packet, quantiles, average) in cases {
        let bytes =
            probe::carried(&mut radio(down(profile)), &[0], ByteCount(packet), window, 20_000);
        let rates: Vec<f64> = bytes[0].iter().map(|&bytes| bytes as f64 * 8e-6).collect();
        for &(share, mbps) in quantiles {
            let what = format!("{profile:?} {share}");
            assert_close(&what, quantile(&rates, share), mbps, 0.12 * mbps + 1.0);
        }
        assert_close(&format!("{profile:?} mean"), mean(&rates), average, 0.10 * average);
    }
}

#[test]
fn a_packet_takes_a_block_and_half_a_block_of_waiting() {
    // Blocks of 0.5 ms and 0.125 ms (TS 38.211). A packet at a random time waits half a block on average.
    for (profile, block_ms) in [(NrProfile::MidBand, 0.5), (NrProfile::Mmwave, 0.125)] {
        let mut model = down(profile);
        (model.bler, model.mean_bps) = (0.0, Some(1_000_000_000));
        let every = Duration::from_nanos(10_013_337);
        let took = probe::delays(&mut radio(model), 0, ByteCount(1), every, 5001);
        let ms: Vec<f64> = took.iter().flatten().map(|took| took.as_secs_f64() * 1e3).collect();
        assert_close("mean", mean(&ms), 1.5 * block_ms, 0.05 * block_ms);
    }
}

#[test]
fn both_directions_stand_still_in_a_handover() {
    // A handover of 110 ms every 10 s: 0.11 of 10.11 s. Packets that arrive in the first 60 ms of it wait longer than
    // 50 ms: 0.06 of 10.11 s, 0.59 %. In 1,000 s there are some 100 handovers, so 10 % is one standard error.
    let delays = |direction| {
        let mut model = NrModel::new(direction, "phone", NrProfile::MidBand);
        (model.bler, model.mean_bps) = (0.0, Some(1_000_000_000));
        model.handover_every = Some(Duration::from_secs(10));
        let every = Duration::from_millis(5);
        probe::delays(&mut radio(model), 0, ByteCount(1), every, 200_001)
    };
    let late = |took: &[Option<Duration>]| -> Vec<usize> {
        let limit = Duration::from_millis(50);
        (0..took.len()).filter(|&at| took[at].is_some_and(|took| took > limit)).collect()
    };
    let (down, up) = (delays(Direction::Down), delays(Direction::Up));
    let share = late(&down).len() as f64 / 200_000.0;
    assert_close("share of late packets", share, 0.06 / 10.11, 0.3 * 0.06 / 10.11);
    let longest = down.iter().flatten().max().map(|took| took.as_millis());
    assert!(longest.is_some_and(|ms| (105..=111).contains(&ms)), "{longest:?}");
    // The way up has the same handovers. A packet that arrives at the beginning of one may be in a block that is
    // already on its way.
    let (down, up) = (late(&down), late(&up));
    let missing = down.iter().filter(|at| up.binary_search(at).is_err()).count();
    assert!(missing * 100 < down.len(), "{missing} of {}", down.len());
}
