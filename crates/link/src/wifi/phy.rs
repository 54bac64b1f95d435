//! The physical layer of IEEE 802.11-2016: rates and durations.

use anabranch_units::{ByteCount, Duration};
use serde::Deserialize;

/// A standard of the 802.11 family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum WifiStandard {
    /// 802.11a: OFDM at 5 GHz, 6 to 54 Mb/s (clause 17).
    #[serde(rename = "802.11a")]
    A,
    /// 802.11g: the same rates at 2.4 GHz, without stations of 802.11b (clause 18).
    #[serde(rename = "802.11g")]
    G,
    /// 802.11n: 20 or 40 MHz, up to four streams, aggregation (clause 19), at 5 GHz.
    #[serde(rename = "802.11n")]
    N,
    /// 802.11ac: 20 to 160 MHz, up to eight streams, 256-QAM, aggregation (clause 21).
    #[serde(rename = "802.11ac")]
    Ac,
}

/// A rate of the physical layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PhyRate {
    /// The data bits of an OFDM symbol, over all streams.
    pub(crate) bits_per_symbol: u64,
    /// The signal-to-noise ratio at which a tenth of frames of 1,000 bytes is lost, dB.
    pub(crate) threshold_db: f64,
    /// The duration of a symbol with its guard interval.
    pub(crate) symbol: Duration,
}

impl PhyRate {
    pub(crate) fn bps(self) -> u64 {
        self.bits_per_symbol * 1_000_000_000 / self.symbol.as_nanos()
    }

    fn symbols(self, bytes: u64) -> Duration {
        // 16 bits of SERVICE precede the data, and 6 tail bits follow.
        self.symbol * (22 + 8 * bytes).div_ceil(self.bits_per_symbol)
    }
}

/// The rates and times of one radio.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Phy {
    /// The rates, slowest first; at least one.
    pub(crate) rates: Vec<PhyRate>,
    /// The duration of training and signalling before the data.
    preamble: Duration,
    /// The signal extension after every frame of 802.11g.
    extension: Duration,
    pub(crate) sifs: Duration,
    /// The idle time before the backoff continues: DIFS, or AIFS of best effort.
    pub(crate) silence: Duration,
    /// The bytes that a frame adds to the IP packet: MAC header, LLC/SNAP and checksum.
    overhead: u64,
    /// The largest aggregate, in frames and in bytes.
    pub(crate) aggregate: (usize, u64),
}

pub(crate) const SLOT: Duration = Duration::from_micros(9);
/// The longest transmission (aPPDUMaxTime).
pub(crate) const LONGEST: Duration = Duration::from_micros(5484);
/// The number of frames that one block acknowledgement covers.
pub(crate) const WINDOW: usize = 64;

/// Coded bits per subcarrier in twelfths, and the receiver's minimum sensitivity at 20 MHz in dBm. At this level 10 %
/// of 1,000-byte frames are lost (Table 17-18). For 802.11a and g the twelfths equal the rate in Mb/s.
const LEGACY: [(u64, f64); 8] = [
    (6, -82.0),
    (9, -81.0),
    (12, -79.0),
    (18, -77.0),
    (24, -74.0),
    (36, -70.0),
    (48, -66.0),
    (54, -65.0),
];
/// The same values for HT and VHT, MCS 0 to 9 (Tables 19-23 and 21-25).
const HIGH: [(u64, f64); 10] = [
    (6, -82.0),
    (12, -79.0),
    (18, -77.0),
    (24, -74.0),
    (36, -70.0),
    (48, -66.0),
    (54, -65.0),
    (60, -64.0),
    (72, -59.0),
    (80, -57.0),
];
/// Thermal noise in 20 MHz at 17 °C, plus the allowances of the standard's sensitivities: a noise figure of 10 dB and
/// an implementation margin of 5 dB.
const NOISE_DBM: f64 = -101.0 + 10.0 + 5.0;

const LEGACY_PREAMBLE: Duration = Duration::from_micros(20);
const SYMBOL: Duration = Duration::from_nanos(4_000);
const SHORT_GUARD_SYMBOL: Duration = Duration::from_nanos(3_600);

impl Phy {
    /// Creates the radio of a standard; `None` if it has no such width, number of streams or rate. Rates above
    /// `top_bps` are not used.
    pub(crate) fn new(
        standard: WifiStandard,
        width_mhz: u32,
        streams: u8,
        top_bps: Option<u64>,
    ) -> Option<Self> {
        let legacy = matches!(standard, WifiStandard::A | WifiStandard::G);
        let (subcarriers, table, symbol) = match (standard, width_mhz, streams) {
            (WifiStandard::A | WifiStandard::G, 20, 1) => (48, &LEGACY[..], SYMBOL),
            (WifiStandard::N, 20, 1..=4) => (52, &HIGH[..8], SHORT_GUARD_SYMBOL),
            (WifiStandard::N, 40, 1..=4) => (108, &HIGH[..8], SHORT_GUARD_SYMBOL),
            (WifiStandard::Ac, 20, 1..=8) => (52, &HIGH[..], SHORT_GUARD_SYMBOL),
            (WifiStandard::Ac, 40, 1..=8) => (108, &HIGH[..], SHORT_GUARD_SYMBOL),
            (WifiStandard::Ac, 80, 1..=8) => (234, &HIGH[..], SHORT_GUARD_SYMBOL),
            (WifiStandard::Ac, 160, 1..=8) => (468, &HIGH[..], SHORT_GUARD_SYMBOL),
            _ => return None,
        };
        let whole = |(twelfths, dbm): &(u64, f64)| {
            let bits = subcarriers * u64::from(streams) * twelfths;
            let rate =
                PhyRate { bits_per_symbol: bits / 12, threshold_db: dbm - NOISE_DBM, symbol };
            // The standard excludes rates at which a symbol would carry a fraction of a bit.
            let wanted = top_bps.is_none_or(|top| rate.bps() <= top);
            (bits % 12 == 0 && wanted).then_some(rate)
        };
        let rates: Vec<PhyRate> = table.iter().filter_map(whole).collect();
        // There is one training field per stream, but three streams have four, five have six and seven have eight.
        let training = u64::from(if streams > 2 { streams.next_multiple_of(2) } else { streams });
        let high_preamble = if standard == WifiStandard::N { 32 } else { 36 } + 4 * training;
        let sifs = Duration::from_micros(if standard == WifiStandard::G { 10 } else { 16 });
        (!rates.is_empty()).then_some(Self {
            rates,
            preamble: if legacy { LEGACY_PREAMBLE } else { Duration::from_micros(high_preamble) },
            extension: Duration::from_micros(if standard == WifiStandard::G { 6 } else { 0 }),
            sifs,
            silence: sifs + SLOT * if legacy { 2 } else { 3 },
            overhead: if legacy { 36 } else { 38 },
            aggregate: match standard {
                WifiStandard::A | WifiStandard::G => (1, u64::MAX),
                WifiStandard::N => (WINDOW, 65_535),
                WifiStandard::Ac => (WINDOW, 1_048_575),
            },
        })
    }

    /// Returns the bytes that a packet takes in a transmission. In an aggregate they include delimiter and padding.
    pub(crate) fn frame(&self, packet: ByteCount) -> u64 {
        let frame = packet.0 + self.overhead;
        if self.aggregate.0 > 1 { (frame + 4).next_multiple_of(4) } else { frame }
    }

    /// Returns the duration of a transmission of `bytes`.
    pub(crate) fn airtime(&self, bytes: u64, rate: PhyRate) -> Duration {
        self.preamble + rate.symbols(bytes) + self.extension
    }

    /// Returns the duration of the acknowledgement: 14 bytes, or 32 bytes (block acknowledgement) if there are
    /// several frames. It is sent at the highest mandatory rate that does not exceed the data rate.
    pub(crate) fn answer(&self, frames: usize, rate: PhyRate) -> Duration {
        let bits_per_symbol = match rate.bps() {
            24_000_000.. => 96,
            12_000_000.. => 48,
            _ => 24,
        };
        let basic = PhyRate { bits_per_symbol, threshold_db: 0.0, symbol: SYMBOL };
        let bytes = if frames > 1 { 32 } else { 14 };
        LEGACY_PREAMBLE + basic.symbols(bytes) + self.extension
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(standard: WifiStandard, width: u32, streams: u8) -> u64 {
        let phy = Phy::new(standard, width, streams, None).unwrap();
        phy.rates.last().unwrap().bps() / 100_000
    }

    #[test]
    fn top_rates_are_the_standards() {
        assert_eq!(top(WifiStandard::A, 20, 1), 540);
        assert_eq!(top(WifiStandard::G, 20, 1), 540);
        assert_eq!(top(WifiStandard::N, 20, 1), 722);
        assert_eq!(top(WifiStandard::N, 40, 4), 6000);
        assert_eq!(top(WifiStandard::Ac, 20, 1), 866, "MCS 9 does not exist there");
        assert_eq!(top(WifiStandard::Ac, 80, 1), 4333);
        assert_eq!(top(WifiStandard::Ac, 160, 8), 69333);
        assert!(Phy::new(WifiStandard::N, 80, 1, None).is_none());
        assert!(Phy::new(WifiStandard::A, 20, 2, None).is_none());
        assert!(Phy::new(WifiStandard::A, 20, 1, Some(5_000_000)).is_none());
    }

    #[test]
    fn a_full_frame_at_54_is_248_microseconds_and_its_acknowledgement_28() {
        // 20 + 4 ceil((22 + 8 * 1536) / 216) = 248, and 20 + 4 ceil((22 + 8 * 14) / 96) = 28.
        let phy = Phy::new(WifiStandard::A, 20, 1, None).unwrap();
        let rate = phy.rates[7];
        let bytes = phy.frame(ByteCount(1500));
        assert_eq!(phy.airtime(bytes, rate), Duration::from_micros(248));
        assert_eq!(phy.answer(1, rate), Duration::from_micros(28));
    }
}
