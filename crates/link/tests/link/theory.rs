//! Against queueing theory.

use anabranch_link::{FixedLink, Link, LinkConfig, QueueLimit};
use anabranch_units::{Duration, Instant};

use crate::driver::{RATE, SEED, SIZE, run};

/// Poisson arrivals at a server of fixed time S and load rho wait rho S / (2 (1 - rho)) on average
/// (Pollaczek-Khinchine, M/D/1).
#[test]
fn poisson_arrivals_wait_as_long_as_theory_says() {
    const PACKETS: u32 = 400_000;
    for load in [0.3, 0.6, 0.8] {
        let settings = LinkConfig::new("md1", RATE, QueueLimit::Unlimited, Duration::ZERO);
        let mut link = FixedLink::new(settings, SEED);
        let mut stream = SEED.stream("arrivals");
        let service = RATE.transmit_time(SIZE);
        let mut now = Instant::ZERO;
        let mut entered = Vec::new();
        let mut waited = 0.0;
        for packet in 0..PACKETS {
            let gap = -(1.0 - stream.uniform()).ln() / load * service.as_secs_f64();
            now += Duration::from_secs_f64(gap);
            for (done, at, _) in run(&mut link, now) {
                waited += at.since(entered[done as usize] + service).as_secs_f64();
            }
            entered.push(now);
            link.enqueue(now, packet, SIZE);
        }
        let mean = waited / f64::from(PACKETS);
        let theory = load / (2.0 * (1.0 - load)) * service.as_secs_f64();
        // Waits of neighbours resemble each other, so the bound is wider than independent draws'.
        assert!((mean / theory - 1.0).abs() < 0.05, "load {load}: {mean} s against {theory} s");
    }
}
