//! SYN cookies (RFC 4987 section 3.6). A SYN is answered without storing it. The final ACK repeats most of
//! its values. The others are encoded in our initial sequence number and in the timestamp that the ACK
//! echoes.
//!
//! The encoding follows Linux (`secure_tcp_syn_cookie`, `cookie_init_timestamp`, `net/mptcp/syncookies.c`).
//! The sequence number encodes the minute and one of four segment sizes. The lowest bits of the timestamp
//! encode window scale, SACK and ECN. With MPTCP, the final ACK carries both keys. Our key is derived from
//! the same secret, so that a key that we did not send is rejected. Linux does not check this.

use anabranch_units::{Instant, SeqNumber};
use anabranch_wire::crypto::{self, Key};
use anabranch_wire::{CapableKeys, Flags, MpCapable, MptcpOption, Segment, Timestamps};

use crate::config::Config;
use crate::connection::{capable_answer, understood};
use crate::secrets::{Packed, Secrets};
use anabranch_tcp::config::{FourTuple, window_scale};
use anabranch_tcp::{accepts_ecn, initial_window, timestamp_clock};

/// The lifetime of a cookie in minutes, including the minute of its creation (`MAX_SYNCOOKIE_AGE`).
const MOST_MINUTES: u32 = 2;
/// Nanoseconds per minute (`TCP_SYNCOOKIE_PERIOD`).
const MINUTE: u64 = 60_000_000_000;
/// The bits of a cookie that do not encode the minute.
const MASK: u32 = (1 << 24) - 1;
/// Segment sizes that a cookie can encode, over IPv4 and over IPv6 (`msstab`).
const SIZES: [[u16; 4]; 2] = [[536, 1300, 1440, 1460], [1220, 1420, 1440, 8940]];

/// The number of timestamp bits that encode options.
const STAMP_BITS: u32 = 6;
/// The timestamp bits that hold the window scale. All ones if the peer sent no window scale.
const SCALE: u32 = 0xf;
/// The timestamp bit that is set if SACK is permitted.
const SACK: u32 = 1 << 4;
/// The timestamp bit of ECN (`TS_OPT_ECN`).
const ECN: u32 = 1 << 5;

/// SYN cookies for one four-tuple.
pub(super) struct Cookies<'a> {
    pub(super) secrets: &'a Secrets,
    pub(super) config: &'a Config,
    pub(super) tuple: FourTuple,
}

/// The values that are restored from a valid cookie.
#[derive(Debug)]
pub(super) struct Redeemed {
    /// The restored parts of the SYN.
    pub(super) syn: Segment,
    /// Our initial sequence number, which is the cookie.
    pub(super) iss: SeqNumber,
    /// Our key, if the SYN offered MPTCP.
    pub(super) key: Option<Key>,
}

impl Cookies<'_> {
    fn hash(&self, peer: SeqNumber, minute: u32, kind: u64) -> u64 {
        let mut words = [0; 7];
        words[..5].copy_from_slice(&Packed::from(&self.tuple).0);
        words[5..].copy_from_slice(&[u64::from(peer.0) << 32 | u64::from(minute), kind]);
        self.secrets.cookies.hash(words)
    }

    fn cookie(&self, peer: SeqNumber, minute: u32, size: u32) -> SeqNumber {
        let base = (self.hash(peer, 0, 0) as u32).wrapping_add(peer.0);
        let word = (self.hash(peer, minute, 1) as u32).wrapping_add(size) & MASK;
        SeqNumber(base.wrapping_add(minute << 24).wrapping_add(word))
    }

    /// Returns the minute and the segment size of a cookie, or `None` if it is invalid or too old.
    fn open(&self, cookie: SeqNumber, peer: SeqNumber, now: u32) -> Option<(u32, u16)> {
        let base = (self.hash(peer, 0, 0) as u32).wrapping_add(peer.0);
        let rest = cookie.0.wrapping_sub(base);
        let age = now.wrapping_sub(rest >> 24) & 0xff;
        if age >= MOST_MINUTES {
            return None;
        }
        let minute = now.wrapping_sub(age);
        let size = rest.wrapping_sub(self.hash(peer, minute, 1) as u32) & MASK;
        let sizes = SIZES[usize::from(self.tuple.local.is_ipv6())];
        Some((minute, *sizes.get(size as usize)?))
    }

    fn key(&self, peer: SeqNumber, minute: u32) -> Key {
        Key::new(self.hash(peer, minute, 2) | 1)
    }

    /// Builds the SYN/ACK. The SYN/ACK offers MPTCP if both sides want it and no connection has the token.
    pub(super) fn answer(
        &self,
        now: Instant,
        syn: &Segment,
        taken: impl Fn(u32) -> bool,
    ) -> Segment {
        let minute = (now.as_nanos() / MINUTE) as u32;
        let mss = self.config.mss_at(self.tuple.local.ip());
        let sizes = SIZES[usize::from(self.tuple.local.is_ipv6())];
        let wanted = syn.mss.unwrap_or(536);
        let size = sizes.iter().rposition(|size| *size <= wanted).unwrap_or(0);
        let sack = syn.sack_permitted && self.config.stack.tcp.sack;
        let scale = syn.window_scale.map_or(SCALE, |scale| u32::from(scale.min(14)));
        // Without timestamps, window scale, SACK and ECN cannot be encoded.
        let stamped = syn.timestamps.is_some();
        let ecn = stamped && accepts_ecn(self.config.ecn, syn);
        let options = scale | if sack { SACK } else { 0 } | if ecn { ECN } else { 0 };
        let offer = understood(syn).filter(|_| self.config.multipath);
        let key = self.key(syn.seq, minute);
        let told = offer
            .filter(|_| !taken(key.token))
            .map(|offer| capable_answer(self.config, key.value, offer.checksum_required));
        let echo = if ecn { Flags::ECE } else { Flags::default() };
        Segment {
            source_port: syn.destination_port,
            destination_port: syn.source_port,
            seq: self.cookie(syn.seq, minute, size as u32),
            ack: syn.seq.add(1),
            flags: Flags::SYN.with(Flags::ACK).with(echo),
            window: initial_window(&self.config.tcp(), mss).min(65_535) as u16,
            mss: Some(mss),
            window_scale: syn
                .window_scale
                .filter(|_| stamped)
                .map(|_| window_scale(self.config.receive_buffer_max)),
            sack_permitted: sack && stamped,
            timestamps: syn.timestamps.map(|t| Timestamps {
                value: stamp(timestamp_clock(now), options)
                    .wrapping_add(self.secrets.stamp_offset(&self.tuple)),
                echo: t.value,
            }),
            mptcp: told.into_iter().collect(),
            ..Segment::default()
        }
    }

    /// Restores the SYN from the final ACK if its cookie is valid.
    pub(super) fn redeem(&self, now: Instant, third: &Segment) -> Option<Redeemed> {
        let (iss, peer) = (third.ack.sub(1), third.seq.sub(1));
        let (minute, size) = self.open(iss, peer, (now.as_nanos() / MINUTE) as u32)?;
        let offset = self.secrets.stamp_offset(&self.tuple);
        let options = third.timestamps.map(|t| t.echo.wrapping_sub(offset));
        let scale = options.map(|options| options & SCALE).filter(|scale| *scale != SCALE);
        let ecn = options.is_some_and(|options| options & ECN != 0);
        let asked = if ecn { Flags::ECE.with(Flags::CWR) } else { Flags::default() };
        let mut syn = Segment {
            source_port: third.source_port,
            destination_port: third.destination_port,
            seq: peer,
            flags: Flags::SYN.with(asked),
            mss: Some(size),
            window_scale: scale.map(|scale| scale as u8),
            sack_permitted: options.is_some_and(|options| options & SACK != 0),
            timestamps: third.timestamps,
            ..Segment::default()
        };
        let capable = understood(third).filter(|_| self.config.multipath);
        let key = match capable {
            None => None,
            Some(option) => {
                let key = self.key(peer, minute);
                let (CapableKeys::Both { responder: ours, .. }
                | CapableKeys::WithData { responder: ours, .. }) = option.keys
                else {
                    return None;
                };
                if !crypto::mac_eq(&ours.to_be_bytes(), &key.value.to_be_bytes()) {
                    return None;
                }
                let offer = MpCapable { keys: CapableKeys::None, ..option };
                syn.mptcp = vec![MptcpOption::Capable(offer)];
                Some(key)
            }
        };
        Some(Redeemed { syn, iss, key })
    }
}

/// Returns the latest timestamp up to `clock` whose lowest bits equal `bits`.
fn stamp(clock: u32, bits: u32) -> u32 {
    let stamp = clock >> STAMP_BITS << STAMP_BITS | bits;
    if stamp > clock { stamp.wrapping_sub(1 << STAMP_BITS) } else { stamp }
}
