//! Converts words to segments and segments to words.

use anabranch_units::{DataSeq, SeqNumber};
use anabranch_wire::crypto::{join_hmac, leftmost_64, leftmost_160};
use anabranch_wire::{
    CapableKeys, DataAck, Dss, Ecn, Flags, Mapping, MappingDsn, MpCapable, MpJoin, MpTcpRst,
    MptcpOption, SackBlock, Segment, Timestamps, dss_checksum, promote, verify_dss_checksum,
};

use super::{PEER_NONCE, PEER_SCALE, Script, film};

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("a number: `{text}`"))
}

/// Returns the checksum of a mapping: `csum` is valid, `badsum` is not, otherwise there is none.
fn stated_checksum(text: &str, right: u16) -> Option<u16> {
    match (text.contains("csum"), text.contains("badsum")) {
        (true, _) => Some(right),
        (_, true) => Some(right ^ 0x0101),
        _ => None,
    }
}

/// Parses `position+length@ssn` into a mapping and its data position.
fn mapping(base: u64, key: &str, value: &str) -> (u64, Mapping) {
    let (position, rest) = value.split_once('+').expect("position+length@ssn");
    let (length, ssn) = rest.split_once('@').expect("position+length@ssn");
    let position = number(position);
    let dsn = base.wrapping_add(position);
    let long = key == "map";
    let dsn = if long { MappingDsn::Long(DataSeq(dsn)) } else { MappingDsn::Short(dsn as u32) };
    let (ssn, length) = (number(ssn) as u32, number(length) as u16);
    (position, Mapping { dsn, ssn, length, checksum: None })
}

/// Adds payload and checksum. The payload has the bytes of the mapping's data position, or of the
/// position in plain TCP.
fn fill(
    segment: &mut Segment,
    text: &str,
    base: u64,
    mapped: Option<(u64, u64)>,
    span: std::ops::Range<u32>,
) {
    let (position, ssn) = mapped.unwrap_or((0, 1));
    let first = (position + u64::from(span.start.max(1))).wrapping_sub(ssn);
    segment.payload = film(first, span.len());
    if text.contains("altered") {
        segment.payload = segment.payload.iter().map(|byte| byte ^ 0x55).collect();
    }
    let Some(dss) = &mut segment.dss else { return };
    let fin = dss.data_fin;
    if let Some(mapping) = &mut dss.mapping {
        let data = film(position, usize::from(mapping.length).saturating_sub(usize::from(fin)));
        let dsn = DataSeq(base.wrapping_add(position));
        let right = dss_checksum(dsn, mapping.ssn, mapping.length, [&data[..]]);
        mapping.checksum = stated_checksum(text, right);
    }
}

fn pair(text: &str) -> (u32, u32) {
    let (from, to) = text.split_once(':').unwrap_or_else(|| panic!("a range: `{text}`"));
    (number(from) as u32, number(to) as u32)
}

/// Returns the word for a checksum. A checksum can be verified if the mapping covers one segment. An infinite
/// mapping has a checksum of zero.
fn checksum_word(segment: &Segment, map: &Mapping, dsn: DataSeq, sum: u16) -> String {
    let whole = segment.payload.len() == usize::from(map.length);
    let good = match map.length {
        0 => sum == 0,
        length => !whole || verify_dss_checksum(dsn, map.ssn, length, [&segment.payload[..]], sum),
    };
    if good { "checksum".to_owned() } else { "WRONG-checksum".to_owned() }
}

impl Script {
    /// Returns the DSN of stream position 0 in each direction: ours, the peer's.
    fn bases(&self) -> (u64, u64) {
        let ours = self.our_key.map_or(0, |key| key.idsn.0.wrapping_add(1));
        (ours, self.peer_key.idsn.0.wrapping_add(1))
    }

    /// Builds the peer's segment of a line.
    pub(super) fn compose(&mut self, path: usize, text: &str) -> Segment {
        let (ours, theirs) = self.bases();
        self.lines[path].timestamps &= !text.contains("nots");
        let line = &self.lines[path];
        let mut words = text.split_whitespace();
        let mut segment = Segment {
            source_port: line.tuple.remote.port(),
            destination_port: line.tuple.local.port(),
            ..Segment::default()
        };
        for flag in words.next().unwrap_or_default().chars() {
            segment.flags = segment.flags.with(match flag {
                'S' => Flags::SYN,
                'F' => Flags::FIN,
                'R' => Flags::RST,
                '.' => Flags::ACK,
                'E' => Flags::ECE,
                'W' => Flags::CWR,
                other => panic!("no flag: {other}"),
            });
        }
        let syn = segment.flags.contains(Flags::SYN);
        let (mut from, mut to) = if syn { (0, 0) } else { (line.said.max(1), line.said.max(1)) };
        let mut ack = line.heard;
        let mut echo = line.echo;
        let mut mapped = None;
        let mut dss = Dss::default();
        segment.window = if syn { 65_535 } else { 500 };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "ack" => ack = number(value) as u32,
                "win" => segment.window = number(value) as u16,
                "ect0" => segment.ecn = Ecn::Ect0,
                "ect1" => segment.ecn = Ecn::Ect1,
                "ce" => segment.ecn = Ecn::Ce,
                "ecr" => echo = (number(value) as u32 + 1).wrapping_add(line.offset),
                "sack" => {
                    for block in value.split(',') {
                        let (left, right) = pair(block);
                        let wire = |n: u32| SeqNumber(line.our_iss.unwrap_or(0)).add(n);
                        segment.sack.push(SackBlock { left: wire(left), right: wire(right) });
                    }
                }
                "dack4" => {
                    let dsn = ours.wrapping_add(number(value));
                    dss.data_ack = Some(DataAck::Short(dsn as u32));
                }
                "dack8" => {
                    let dsn = ours.wrapping_add(number(value));
                    dss.data_ack = Some(DataAck::Long(DataSeq(dsn)));
                }
                "map" | "map4" => {
                    let (position, mapping) = mapping(theirs, key, value);
                    mapped = Some((position, u64::from(mapping.ssn)));
                    dss.mapping = Some(mapping);
                }
                "dfin" => dss.data_fin = true,
                _ if key.contains(':') => (from, to) = pair(key),
                _ => {}
            }
        }
        segment.mptcp = self.options(path, &segment, text, to - from);
        let line = &mut self.lines[path];
        if dss != Dss::default() {
            segment.dss = Some(dss);
        }
        fill(&mut segment, text, theirs, mapped, from..to);
        segment.seq = SeqNumber(line.peer_iss).add(from);
        if segment.flags.contains(Flags::ACK) {
            segment.ack = SeqNumber(line.our_iss.unwrap_or(0)).add(ack);
        }
        if line.timestamps && !segment.flags.contains(Flags::RST) {
            let clock = self.stamp.unwrap_or(self.now.as_nanos() / 1_000_000);
            let value = clock as u32 + 1;
            let echo = if segment.flags.contains(Flags::ACK) { echo } else { 0 };
            segment.timestamps = Some(Timestamps { value, echo });
        }
        if syn {
            segment.mss = Some(1460);
            segment.window_scale = Some(PEER_SCALE);
            segment.sack_permitted = !text.contains("nosack");
        }
        line.said = line.said.max(from + segment.sequence_len());
        segment
    }

    /// Returns the MPTCP options other than the DSS.
    fn options(&self, path: usize, segment: &Segment, text: &str, length: u32) -> Vec<MptcpOption> {
        let has = |word: &str| text.split_whitespace().any(|w| w.split('=').next() == Some(word));
        let (ours, theirs) = (self.our_key.map_or(0, |k| k.value), self.peer_key.value);
        let nonce = self.lines[path].our_nonce;
        let forged = u64::from(has("forged"));
        let mut options = Vec::new();
        let keys = if has("mpc") {
            Some(CapableKeys::None)
        } else if has("mpc-key") {
            Some(CapableKeys::Responder(theirs))
        } else if has("mpc-keys") {
            Some(CapableKeys::Both { initiator: theirs, responder: ours })
        } else if has("mpc-data") {
            let data = film(0, length as usize);
            let (first, length) = (self.peer_key.idsn.0.wrapping_add(1), length as u16);
            let right = dss_checksum(DataSeq(first), 1, length, [&data[..]]);
            let checksum = stated_checksum(text, right);
            Some(CapableKeys::WithData { initiator: theirs, responder: ours, length, checksum })
        } else {
            None
        };
        options.extend(keys.map(|keys| {
            MptcpOption::Capable(MpCapable {
                version: if has("v2") { 2 } else { u8::from(!has("v0")) },
                checksum_required: has("A"),
                extensibility: has("B"),
                deny_join_initial_address: has("C"),
                crypto: u8::from(!has("noH")),
                keys,
            })
        }));
        if has("join") {
            options.push(MptcpOption::Join(MpJoin::Syn {
                backup: false,
                address_id: path as u8,
                token: self.our_key.map_or(0, |k| k.token) ^ forged as u32,
                nonce: PEER_NONCE,
            }));
        } else if has("join-hmac") {
            let hmac = leftmost_64(&join_hmac(theirs, ours, PEER_NONCE, nonce)) ^ forged;
            let address_id = path as u8;
            let nonce = PEER_NONCE;
            options.push(MptcpOption::Join(MpJoin::SynAck {
                backup: false,
                address_id,
                hmac,
                nonce,
            }));
        } else if has("join-ack") {
            let mut hmac = leftmost_160(&join_hmac(theirs, ours, PEER_NONCE, nonce));
            hmac[19] ^= forged as u8;
            options.push(MptcpOption::Join(MpJoin::Ack { hmac }));
        }
        let fail = text.split_whitespace().find_map(|word| word.strip_prefix("fail="));
        options.extend(fail.map(|position| {
            let base = self.bases().0;
            MptcpOption::Fail { dsn: DataSeq(base.wrapping_add(number(position))) }
        }));
        debug_assert!(segment.mptcp.is_empty());
        options.extend(super::signals::spoken(text, ours, theirs));
        options
    }

    /// Describes our segment in the words of the script. Verifies keys, tokens and HMACs.
    pub(super) fn describe(&self, path: usize, segment: &Segment) -> String {
        let line = &self.lines[path];
        let (ours, theirs) = self.bases();
        let mut words = Vec::new();
        let mut flags = String::new();
        for (flag, letter) in [
            (Flags::SYN, 'S'),
            (Flags::FIN, 'F'),
            (Flags::RST, 'R'),
            (Flags::ACK, '.'),
            (Flags::ECE, 'E'),
            (Flags::CWR, 'W'),
        ] {
            if segment.flags.contains(flag) {
                flags.push(letter);
            }
        }
        words.push(flags);
        let from = segment.seq.0.wrapping_sub(line.our_iss.unwrap_or(0));
        words.push(format!("{from}:{}", from.wrapping_add(segment.payload.len() as u32)));
        if segment.flags.contains(Flags::ACK) {
            words.push(format!("ack={}", segment.ack.0.wrapping_sub(line.peer_iss)));
        }
        words.push(format!("win={}", segment.window));
        words.extend(match segment.ecn {
            Ecn::NotEct => None,
            Ecn::Ect0 => Some("ect0".to_owned()),
            Ecn::Ect1 => Some("ect1".to_owned()),
            Ecn::Ce => Some("ce".to_owned()),
        });
        if !segment.sack.is_empty() {
            let relative = |n: SeqNumber| n.0.wrapping_sub(line.peer_iss);
            let blocks: Vec<String> = segment
                .sack
                .as_slice()
                .iter()
                .map(|b| format!("{}:{}", relative(b.left), relative(b.right)))
                .collect();
            words.push(format!("sack={}", blocks.join(",")));
        }
        if let Some(dss) = segment.dss {
            match dss.data_ack {
                Some(DataAck::Short(low)) => {
                    let dsn = promote(low, DataSeq(theirs)).0;
                    words.push(format!("dack4={}", dsn.wrapping_sub(theirs)));
                }
                Some(DataAck::Long(dsn)) => {
                    words.push(format!("dack8={}", dsn.0.wrapping_sub(theirs)));
                }
                None => {}
            }
            if let Some(map) = dss.mapping {
                let MappingDsn::Long(dsn) = map.dsn else { panic!("we always map in 64 bits") };
                let position = dsn.0.wrapping_sub(ours);
                words.push(format!("map={position}+{}@{}", map.length, map.ssn));
                words.extend(map.checksum.map(|sum| checksum_word(segment, &map, dsn, sum)));
            }
            if dss.data_fin {
                words.push("dfin".to_owned());
            }
        }
        for option in &segment.mptcp {
            words.push(self.describe_option(path, option));
        }
        words.join(" ")
    }

    fn describe_option(&self, path: usize, option: &MptcpOption) -> String {
        let line = &self.lines[path];
        let (ours, theirs) = (self.our_key.map_or(0, |k| k.value), self.peer_key.value);
        let right = |good: bool, word: &str| {
            if good { word.to_owned() } else { format!("WRONG-{word}") }
        };
        match option {
            MptcpOption::Capable(c) => {
                let both = |i: u64, r: u64| (i, r) == (ours, theirs) || (i, r) == (theirs, ours);
                let word = match c.keys {
                    CapableKeys::None => "mpc".to_owned(),
                    CapableKeys::Responder(_) => "mpc-key".to_owned(),
                    CapableKeys::Both { initiator: i, responder: r } => {
                        right(both(i, r), "mpc-keys")
                    }
                    CapableKeys::WithData { initiator: i, responder: r, length, .. } => {
                        right(both(i, r), &format!("mpc-data={length}"))
                    }
                };
                assert_eq!((c.version, c.crypto, c.extensibility), (1, 1, false), "{word}");
                let word = if c.checksum_required { format!("{word} A") } else { word };
                if c.deny_join_initial_address { format!("{word} C") } else { word }
            }
            MptcpOption::Join(MpJoin::Syn { token, .. }) => {
                right(*token == self.peer_key.token, "join")
            }
            MptcpOption::Join(MpJoin::SynAck { hmac, nonce, .. }) => {
                let mac = join_hmac(ours, theirs, *nonce, PEER_NONCE);
                right(*hmac == leftmost_64(&mac), "join-hmac")
            }
            MptcpOption::Join(MpJoin::Ack { hmac }) => {
                let mac = join_hmac(ours, theirs, line.our_nonce, PEER_NONCE);
                right(*hmac == leftmost_160(&mac), "join-ack")
            }
            MptcpOption::TcpRst(MpTcpRst { reason, .. }) => format!("rst={reason}"),
            MptcpOption::Fail { dsn } => {
                format!("fail={}", dsn.0.wrapping_sub(self.bases().1))
            }
            other => super::signals::heard(other, ours, theirs),
        }
    }
}
