//! Compares the cellular model with the data to which it was fitted. The head of `lte.rs` has the sources.

use anabranch_link::{
    Direction, LinkConfig, LteModel, LteProfile, Model, QueueLimit, Single, VaryingLink, probe,
};
use anabranch_units::{ByteCount, Duration, Rate};

use crate::driver::SEED;
use crate::statistics::{assert_close, autocorrelation, mean, quantile};

fn radio(model: LteModel) -> Single<VaryingLink<u64>> {
    let config =
        LinkConfig::new("lte.down", Rate::UNLIMITED, QueueLimit::Unlimited, Duration::ZERO);
    Single(VaryingLink::new(config, &Model::Lte(model), SEED))
}

/// Returns the rate of every second, Mb/s.
fn rates(model: LteModel, seconds: usize) -> Vec<f64> {
    let window = Duration::from_secs(1);
    let bytes = probe::carried(&mut radio(model), &[0], ByteCount(12_500), window, seconds);
    bytes[0].iter().map(|&bytes| bytes as f64 * 8e-6).collect()
}

#[test]
#[ignore = "long: 50,000 s of a link"]
fn the_rate_of_t_mobile_driving_is_mahimahis() {
    // 50,000 s of a process with a correlation time of 7 s have some 3,500 independent values.
    let rates = rates(LteModel::new(Direction::Down, LteProfile::TmobileDriving), 50_000);
    for (share, mbps) in [(0.05, 2.90), (0.25, 5.10), (0.50, 9.97), (0.75, 17.83), (0.95, 30.51)] {
        assert_close(&format!("quantile {share}"), quantile(&rates, share), mbps, 0.08 * mbps);
    }
    assert_close("mean", mean(&rates), 12.77, 0.06 * 12.77);
    for (lag, published) in [(1, 0.82), (2, 0.71), (5, 0.49), (10, 0.27)] {
        let found = autocorrelation(&rates, lag);
        assert_close(&format!("autocorrelation at {lag} s"), found, published, 0.08);
    }
}

#[test]
#[ignore = "long: three times 40,000 s of a link"]
fn the_rates_of_the_other_profiles_match_the_measurements() {
    for (profile, quantiles, average) in [
        (LteProfile::AttDriving, [(0.05, 0.69), (0.5, 5.41), (0.95, 9.53)], 5.17),
        (LteProfile::Ghent, [(0.05, 5.0), (0.5, 28.8), (0.95, 58.8)], 30.2),
        (LteProfile::VerizonShort, [(0.05, 1.07), (0.5, 4.30), (0.95, 10.83)], 5.03),
    ] {
        let rates = rates(LteModel::new(Direction::Down, profile), 40_000);
        for (share, mbps) in quantiles {
            let what = format!("{profile:?} {share}");
            assert_close(&what, quantile(&rates, share), mbps, 0.10 * mbps + 0.1);
        }
        assert_close(&format!("{profile:?} mean"), mean(&rates), average, 0.07 * average);
    }
}

#[test]
#[ignore = "long: 20,000 s of a cell"]
fn the_mean_rate_is_the_wanted_one() {
    let mut model = LteModel::new(Direction::Down, LteProfile::VerizonShort);
    model.mean_bps = Some(24_000_000);
    assert_close("mean", mean(&rates(model, 20_000)), 24.0, 1.0);
}

#[test]
fn harq_delays_a_tenth_of_blocks_by_8_ms_and_loses_nothing() {
    // The packets are far apart, so each has a separate block: 1 ms for the block, and up to 1 ms until it begins.
    let mut model = LteModel::new(Direction::Down, LteProfile::Ghent);
    model.mean_bps = Some(100_000_000);
    let every = Duration::from_micros(150_300);
    let took = probe::delays(&mut radio(model), 0, ByteCount(100), every, 40_001);
    let tries: Vec<u64> =
        took.iter().flatten().map(|took| (took.as_micros() - 1000) / 8000).collect();
    assert_eq!(tries.len(), 40_000, "RLC repairs what HARQ gave up");
    let share = |n: u64| tries.iter().filter(|&&tries| tries == n).count() as f64 / 40_000.0;
    assert_close("at once", share(0), 0.9, 0.006);
    assert_close("one repetition", share(1), 0.09, 0.006);
    assert_close("two", share(2), 0.009, 0.002);
    assert!(took.iter().flatten().max() < Some(&Duration::from_millis(150)));
}

#[test]
fn packets_behind_a_failed_block_arrive_together() {
    // 12 Mb/s, with a packet every millisecond. Eight more packets wait behind a block in repair, so they arrive in
    // bursts of nine.
    let mut model = LteModel::new(Direction::Down, LteProfile::Ghent);
    model.mean_bps = Some(12_000_000);
    let took =
        probe::delays(&mut radio(model), 0, ByteCount(100), Duration::from_millis(1), 20_000);
    let at: Vec<u64> =
        took.iter().flatten().zip(0..).map(|(took, n)| took.as_nanos() + n * 1_000_000).collect();
    let together = at.windows(9).filter(|nine| nine[0] == nine[8]).count();
    assert!(together > 500, "{together}");
    assert!(at.is_sorted());
}

#[test]
fn a_device_that_begins_to_send_waits_10_to_20_ms_for_a_grant() {
    let mut model = LteModel::new(Direction::Up, LteProfile::Ghent);
    (model.bler, model.mean_bps) = (0.0, Some(100_000_000));
    let every = Duration::from_micros(150_300);
    let took = probe::delays(&mut radio(model), 0, ByteCount(100), every, 5001);
    let ms: Vec<f64> = took.iter().flatten().map(|took| took.as_secs_f64() * 1e3).collect();
    // The block begins half a millisecond later on average, and takes 1 ms.
    assert_close("mean", mean(&ms), 15.0 + 1.5, 0.3);
    assert!(ms.iter().all(|&ms| (11.0..22.0).contains(&ms)));
}
