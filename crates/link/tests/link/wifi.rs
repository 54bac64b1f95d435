//! Compares the 802.11 channel with arithmetic, with theory and with known measurements.

use anabranch_link::{
    Change, DropReason, Fate, LinkConfig, Medium, QueueLimit, TRIES, WifiMedium, WifiModel,
    WifiStandard, probe,
};
use anabranch_units::{ByteCount, Duration, Instant, Rate};

use crate::driver::{SEED, us};
use crate::statistics::assert_close;

const FULL: ByteCount = ByteCount(1500);

fn lane(name: &str, delay: Duration) -> LinkConfig {
    LinkConfig::new(name, Rate::UNLIMITED, QueueLimit::Packets(1000), delay)
}

fn channel(models: &[WifiModel]) -> WifiMedium<u64> {
    let lanes = models
        .iter()
        .enumerate()
        .map(|(n, model)| (lane(&format!("lane {n}"), Duration::ZERO), model.clone()));
    WifiMedium::new("1", lanes.collect(), SEED)
}

/// Returns the IP throughput in Mb/s of each of `stations` saturated lanes.
fn saturated(model: &WifiModel, stations: usize, seconds: u64) -> Vec<f64> {
    let mut medium = channel(&vec![model.clone(); stations]);
    let lanes: Vec<usize> = (0..stations).collect();
    let bytes = probe::carried(&mut medium, &lanes, FULL, Duration::from_secs(seconds), 1);
    bytes.iter().map(|windows| windows[0] as f64 * 8e-6 / seconds as f64).collect()
}

fn at(standard: WifiStandard, top_mbps: u64) -> WifiModel {
    WifiModel { top_bps: Some(top_mbps * 1_000_000), ..WifiModel::new(standard, "desk") }
}

#[test]
fn a_single_station_reaches_the_theoretical_maximum_throughput() {
    // Jun et al., NCA 2003: 1,500 bytes of payload take DIFS + 7.5 slots of backoff + data + SIFS + ACK. 802.11a at 54
    // Mb/s: 34 + 67.5 + 248 + 16 + 28 us. At 6 Mb/s: 34 + 67.5 + 2072 + 16 + 44 us.
    for (model, microseconds) in [
        (at(WifiStandard::A, 54), 34.0 + 67.5 + 248.0 + 16.0 + 28.0),
        (at(WifiStandard::A, 6), 34.0 + 67.5 + 2072.0 + 16.0 + 44.0),
        (at(WifiStandard::G, 54), 28.0 + 67.5 + 254.0 + 10.0 + 34.0),
    ] {
        let expected = 12_000.0 / microseconds;
        let found = saturated(&model, 1, 20)[0];
        assert_close(&format!("{model:?}"), found, expected, expected * 0.01);
    }
}

#[test]
fn aggregates_make_use_of_the_fast_rates() {
    // 802.11n at 72.2 Mb/s: 42 frames of 1,544 bytes fit in the limit of 65,535 bytes, but only 31 in that of 5.484 ms.
    // They take 36 + 3.6 ceil((22 + 8 * 31 * 1544) / 260) us, plus AIFS, 7.5 slots, SIFS, and 32 us of block ACK.
    let n = WifiModel::new(WifiStandard::N, "desk");
    let data = 36.0 + 3.6 * f64::ceil((22.0 + 8.0 * 1544.0 * 31.0) / 260.0);
    let expected = 31.0 * 12_000.0 / (43.0 + 67.5 + data + 16.0 + 32.0);
    assert_close("802.11n", saturated(&n, 1, 10)[0], expected, expected * 0.03);
    // 802.11ac at 433 Mb/s: an aggregate has 64 frames.
    let ac = WifiModel::new(WifiStandard::Ac, "desk");
    let data = 40.0 + 3.6 * f64::ceil((22.0 + 8.0 * 1544.0 * 64.0) / 1560.0);
    let expected = 64.0 * 12_000.0 / (43.0 + 67.5 + data + 16.0 + 32.0);
    assert_close("802.11ac", saturated(&ac, 1, 10)[0], expected, expected * 0.01);
    let single = WifiModel { aggregate: 1, ..ac };
    assert!(saturated(&single, 1, 2)[0] < 0.2 * expected, "one by one it is mostly waiting");
}

/// Returns Bianchi's probability that a transmission collides, for n saturated stations, an initial window of W = 16
/// slots and m = 6 doublings: p = 1 - (1 - tau)^(n-1), tau = 2 (1-2p) / ((1-2p)(W+1) + p W (1 - (2p)^m)).
fn bianchi(stations: i32) -> f64 {
    let (window, doublings) = (16.0, 6);
    let mut p = 0.1;
    for _ in 0..10_000 {
        let odd = 1.0 - 2.0 * p;
        let spread = odd * (window + 1.0) + p * window * (1.0 - f64::powi(2.0 * p, doublings));
        let tau = 2.0 * odd / spread;
        p += 0.05 * (1.0 - f64::powi(1.0 - tau, stations - 1) - p);
    }
    p
}

#[test]
fn stations_collide_as_in_bianchi_s_model_and_share_equally() {
    for stations in [2, 5, 10] {
        // At the slowest rate, because retransmissions of a faster rate use the slowest rate, too.
        let found = saturated(&at(WifiStandard::A, 6), stations, 150);
        let total: f64 = found.iter().sum();
        // Doubled backoffs silence a station for long times. In 150 s with ten stations, the standard deviation is 4
        // %.
        let turns = 0.04 + 0.015 * stations as f64;
        for own in &found {
            assert_close("a station's share", own / total * stations as f64, 1.0, turns);
        }
        // Bianchi's throughput follows from the same p.
        let p = bianchi(stations as i32);
        let n = stations as f64;
        let tau = 1.0 - (1.0 - p).powf(1.0 / (n - 1.0));
        let any = 1.0 - (1.0 - tau).powf(n);
        let one = n * tau * (1.0 - tau).powf(n - 1.0);
        // A slot is empty (9 us) or busy. A busy slot has 2,072 us of data, SIFS, ACK and DIFS, also after a
        // collision.
        let busy = 2072.0 + 16.0 + 44.0 + 34.0;
        let expected = one * 12_000.0 / ((1.0 - any) * 9.0 + any * busy);
        assert_close(&format!("{stations} stations, Mb/s"), total, expected, expected * 0.02);
    }
}

/// Runs traffic like TCP's over a channel: there is always data to send, and every second packet causes a packet of 52
/// bytes in the other direction. Returns Mb/s of payload (1,448 of 1,500 bytes), and the share of lost packets.
fn tcp(model: &WifiModel, milliseconds: u64) -> (f64, f64) {
    let mut medium = channel(&[model.clone(), model.clone()]);
    let end = Instant::ZERO + Duration::from_millis(milliseconds);
    let (mut now, mut data) = (Instant::ZERO, 0u64);
    loop {
        while medium.queued(now, 0).packets < 128 {
            medium.enqueue(now, 0, 0, FULL);
        }
        now = medium.poll_timeout().unwrap_or(end);
        if now >= end {
            break;
        }
        while let Some((lane, fate)) = medium.poll_fate(now) {
            if let (0, Fate::Delivered { at, .. }) = (lane, fate) {
                data += 1;
                if data % 2 == 0 {
                    medium.enqueue(at.max(now), 1, 1, ByteCount(52));
                }
            }
        }
    }
    let stats = medium.stats(0);
    let lost = stats.dropped_loss as f64 / (stats.dropped_loss + stats.delivered) as f64;
    (data as f64 * 1448.0 * 8.0 / (milliseconds as f64 * 1000.0), lost)
}

#[test]
fn tcp_goodput_at_each_rate_is_the_known_one() {
    // 54 Mb/s without aggregation give 24 to 27 Mb/s of TCP. 802.11a or g at 6 Mb/s is the 5 Mb/s WiFi of PC16. With
    // aggregation, 72 Mb/s of 802.11n give 50 to 62, and 433 Mb/s of 802.11ac 270 to 350.
    for (model, least, most) in [
        (at(WifiStandard::A, 54), 24.0, 27.0),
        (at(WifiStandard::G, 54), 24.0, 27.0),
        (at(WifiStandard::A, 6), 4.5, 5.2),
        (at(WifiStandard::G, 6), 4.5, 5.2),
        (WifiModel::new(WifiStandard::N, "desk"), 50.0, 65.0),
        (WifiModel::new(WifiStandard::Ac, "desk"), 270.0, 370.0),
    ] {
        let (goodput, lost) = tcp(&model, 5000);
        assert!((least..most).contains(&goodput), "{model:?}: {goodput}");
        assert!(lost < 1e-4, "{model:?}: {lost} lost");
    }
}

#[test]
fn acknowledgements_take_air_from_data() {
    let model = at(WifiStandard::A, 54);
    let alone = saturated(&model, 1, 5)[0] * 1448.0 / 1500.0;
    let (with, _) = tcp(&model, 5000);
    assert!(with < 0.9 * alone, "{with} beside {alone}");
}

#[test]
fn a_frame_is_repeated_six_times_and_then_lost() {
    // At 6 Mb/s, 4 dB below the threshold: no frame is received.
    let model = WifiModel { snr_db: 0.0, ..at(WifiStandard::A, 6) };
    let mut medium = channel(&[model]);
    medium.enqueue(Instant::ZERO, 0, 7, FULL);
    let mut wakes = 0;
    let fate = loop {
        let now = medium.poll_timeout().unwrap();
        wakes += 1;
        if let Some((_, fate)) = medium.poll_fate(now) {
            break fate;
        }
    };
    let Fate::Dropped { at, why: DropReason::Loss, .. } = fate else { panic!("{fate:?}") };
    // At least seven times the data and six missing acknowledgements. Backoffs from windows of 15 to 1023 come on
    // top.
    let least = u64::from(TRIES) * 2072 + 6 * (16 + 44 + 34);
    assert!((least..least + 9 * 2100).contains(&at.as_micros()), "{at}");
    assert_eq!(wakes, TRIES);
    assert_eq!(medium.in_transit(0), 0);
}

#[test]
fn the_rate_follows_the_signal_and_repetitions_hide_its_losses() {
    let goodput = |snr_db| {
        let model = WifiModel { snr_db, fading_db: 3.0, ..WifiModel::new(WifiStandard::G, "desk") };
        tcp(&model, 60_000)
    };
    // The sensitivities of Table 17-18 minus the noise: 4 dB for 6 Mb/s, 12 dB for 24, and 21 dB for 54.
    let found = [35.0, 20.0, 14.0, 9.0].map(goodput);
    assert!((23.0..27.0).contains(&found[0].0), "{found:?}");
    assert!(found.is_sorted_by(|a, b| a.0 > b.0 * 1.2), "{found:?}");
    assert!(
        found.iter().all(|(_, lost)| *lost < 0.02),
        "repeated until they are through: {found:?}"
    );
}

#[test]
fn repetitions_are_spikes_of_delay() {
    // At the threshold of 6 Mb/s, a frame takes 2.1 ms. Of the frames, 1 - exp(-0.105 * 2 * 1.536) = 27.6 % are sent
    // again.
    let model = WifiModel { snr_db: 3.7, ..at(WifiStandard::A, 6) };
    let took = probe::delays(&mut channel(&[model]), 0, FULL, Duration::from_millis(100), 20_001);
    let out: Vec<u64> = took.iter().flatten().map(|took| took.as_micros()).collect();
    let share =
        |least: u64| out.iter().filter(|&&took| took > least).count() as f64 / out.len() as f64;
    assert_close("repeated", share(2_200), 0.276, 0.01);
    assert_close("twice", share(2 * 2_166 + 16 * 9 + 32 * 9), 0.276 * 0.276, 0.01);
    assert!(share(10_000) > 0.002 && out.iter().max() < Some(&32_000), "{:?}", out.iter().max());
    assert!(out.len() >= 19_990, "hardly any is lost");
}

#[test]
fn an_aggregate_is_delivered_in_order_and_together() {
    let model = WifiModel { snr_db: 29.5, ..WifiModel::new(WifiStandard::Ac, "desk") };
    let mut medium = channel(&[model]);
    for packet in 0..640 {
        medium.enqueue(Instant::ZERO, 0, packet, FULL);
    }
    let mut told = Vec::new();
    while let Some(now) = medium.poll_timeout() {
        told.extend(std::iter::from_fn(|| medium.poll_fate(now)));
    }
    let out: Vec<(u64, Instant)> = told
        .iter()
        .filter_map(|(_, fate)| match fate {
            Fate::Delivered { at, packet, .. } => Some((*packet, *at)),
            Fate::Dropped { .. } => None,
        })
        .collect();
    assert_eq!(out.len() as u64, medium.stats(0).delivered);
    assert!(out.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
    let mut arrivals: Vec<Instant> = out.iter().map(|out| out.1).collect();
    arrivals.dedup();
    assert!((10..30).contains(&arrivals.len()), "in bursts: {} moments", arrivals.len());
}

#[test]
fn lanes_of_one_channel_share_it_and_other_channels_do_not() {
    let model = at(WifiStandard::G, 54);
    let (one, four) = (saturated(&model, 1, 5)[0], saturated(&model, 4, 5));
    let total: f64 = four.iter().sum();
    assert!((0.75 * one..1.15 * one).contains(&total), "{one} alone, {total} together");
    assert!(four.iter().all(|own| *own < 0.35 * one));
}

#[test]
fn a_cap_a_delay_and_an_outage_apply_to_one_lane() {
    let model = WifiModel::new(WifiStandard::Ac, "desk");
    let lanes = [("a", 3), ("b", 7)]
        .map(|(name, delay)| (lane(name, Duration::from_millis(delay)), model.clone()));
    let mut medium: WifiMedium<u64> = WifiMedium::new("1", lanes.to_vec(), SEED);
    medium.set(Instant::ZERO, 0, Change::Rate(Rate::from_bps(8_000_000)));
    let bytes = probe::carried(&mut medium, &[0, 1], FULL, Duration::from_secs(1), 4);
    let mbps = |lane: usize| bytes[lane].iter().sum::<u64>() as f64 * 8e-6 / 4.0;
    assert_close("capped", mbps(0), 8.0, 0.4);
    assert!(mbps(1) > 250.0, "the other has the air: {}", mbps(1));
    let now = Instant::ZERO + Duration::from_secs(4);
    medium.set(now, 1, Change::Down);
    while let Some((lane, fate)) = medium.poll_fate(now) {
        if let (1, Fate::Dropped { why, .. }) = (lane, fate) {
            assert_eq!(why, DropReason::Down);
        }
    }
    assert_eq!(medium.in_transit(1), 0);
    assert!(medium.in_transit(0) > 0);
    for lane in 0..2 {
        let stats = medium.stats(lane);
        let accounted = stats.delivered + stats.dropped() + medium.in_transit(lane);
        assert_eq!(stats.enqueued, accounted);
    }
}

#[test]
fn delays_count_from_the_end_of_the_data() {
    let mut medium: WifiMedium<u64> = WifiMedium::new(
        "1",
        vec![(lane("a", Duration::from_millis(3)), at(WifiStandard::A, 54))],
        SEED,
    );
    // The first backoff is over, so the lane sends at once. The data end 248 us later.
    medium.enqueue(us(10_000), 0, 1, FULL);
    assert_eq!(medium.poll_timeout(), Some(us(10_000 + 248 + 3000)));
    let fate = medium.poll_fate(us(13_248));
    let there =
        Fate::Delivered { at: us(13_248), packet: 1, marked: false, copy: false, damage: None };
    assert_eq!(fate, Some((0, there)));
}

#[test]
fn radios_that_no_standard_has_are_refused() {
    assert!(WifiModel::new(WifiStandard::Ac, "desk").check().is_ok());
    let ac = |change: fn(&mut WifiModel)| {
        let mut model = WifiModel::new(WifiStandard::Ac, "desk");
        change(&mut model);
        model.check()
    };
    assert!(ac(|model| model.width_mhz = 60).is_err());
    assert!(ac(|model| model.streams = 9).is_err());
    assert!(ac(|model| model.top_bps = Some(1_000_000)).is_err());
    assert!(ac(|model| model.aggregate = 0).is_err());
    assert!(ac(|model| model.snr_db = f64::NAN).is_err());
    assert_eq!(WifiModel::new(WifiStandard::G, "desk").rates().len(), 8);
}
